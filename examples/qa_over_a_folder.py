"""Question answering over a folder of text files.

An embedding model finds the most similar paragraph, and a question answering model extracts the
answer. The second model is trained on generated questions about offices that are not in
`examples/data/handbook`. For other questions, train it on SQuAD, or load such a model.

    python examples/qa_over_a_folder.py --model bert-base-uncased
"""

from common import FOLDER, parse_arguments

from keras_bert_impl import QuestionAnswerer, TextEmbedder, search

QUESTIONS = {
    "When does the Lisbon office open?": "8:30",
    "In which street is the office in Oslo?": "Harbor Street",
    "How many desks are there in Quito?": "64",
}
FACTS = [
    ("When does the {city} office open?", "The {city} office opens at {0} on working days.", 0),
    ("In which street is the office in {city}?", "The office in {city} is in {1}.", 1),
    ("How many desks are there in {city}?", "There are {2} desks in {city}.", 2),
]
CITIES = {
    "Paris": ("9:00", "Canal Street", "120"), "Vienna": ("7:45", "Mill Lane", "35"),
    "Kyoto": ("10:15", "Temple Road", "18"), "Dublin": ("8:00", "Bridge Street", "77"),
    "Lima": ("9:30", "Ocean Avenue", "240"), "Prague": ("8:15", "Castle Square", "52"),
}  # fmt: skip


def training_examples() -> tuple[list[tuple[str, str]], list[tuple[str, int]]]:
    """Returns (question, paragraph) pairs, and each answer with its start in the paragraph."""
    pairs, answers = [], []
    for city, values in CITIES.items():
        paragraph = " ".join(text for _, text, _ in FACTS).format(*values, city=city)
        for question, _, number in FACTS:
            pairs.append((question.format(city=city), paragraph))
            answers.append((values[number], paragraph.index(values[number])))
    return pairs, answers


def main(argv: list[str] | None = None) -> dict[str, str]:
    arguments = parse_arguments(argv, __doc__)
    files = sorted((FOLDER / "data" / "handbook").glob("*.txt"))
    paragraphs = [p for file in files for p in file.read_text().strip().split("\n\n")]
    embedder = TextEmbedder.from_pretrained(arguments.model)
    rows, _ = search(embedder, list(QUESTIONS), embedder.encode(paragraphs), k=1)

    reader = QuestionAnswerer.from_pretrained(arguments.model, max_length=96)
    reader.compile(learning_rate=5e-4)
    reader.fit(*training_examples(), epochs=12 if arguments.quick else 15, batch_size=6, verbose=0)
    found = [(q, paragraphs[row]) for q, row in zip(QUESTIONS, rows[:, 0], strict=True)]
    answers = dict(zip(QUESTIONS, reader.answer(found), strict=True))
    for question, paragraph in found:
        print(f"{question}\n    {answers[question]}    ({paragraph[:60]}...)")
    return answers


if __name__ == "__main__":
    main()
