"""Multi-label classification.

Each review praises or criticizes any combination of food, service and price. The scores of the
labels are independent probabilities, so they do not sum to 1.

    python examples/multi_label.py --model bert-base-uncased
"""

import itertools

from common import parse_arguments

from keras_bert_impl import TextClassifier

# Clauses of the generated reviews, by label.
CLAUSES = {
    "food": ["the soup was delicious", "the fish was fresh", "every dish tasted wonderful"],
    "service": ["the waiter was friendly", "we were seated at once", "the staff helped us"],
    "price": ["the bill was too high", "it was cheap", "we paid more than expected"],
}
NEW = {
    "The dessert tasted great and our waiter was kind.": ["food", "service"],
    "It was expensive.": ["price"],
    "The staff was slow, but the soup was fresh and cheap.": ["food", "service", "price"],
}


def reviews() -> tuple[list[str], list[list[str]]]:
    """Returns every review of one, two or three clauses about different things, and its labels."""
    texts, labels = [], []
    for count in (1, 2, 3):
        for names in itertools.combinations(CLAUSES, count):
            for clauses in itertools.product(*(CLAUSES[name] for name in names)):
                texts.append(", and ".join(clauses).capitalize() + ".")
                labels.append(list(names))
    return texts, labels


def main(argv: list[str] | None = None) -> float:
    arguments = parse_arguments(argv, __doc__)
    texts, labels = reviews()
    classifier = TextClassifier.from_pretrained(
        arguments.model,
        labels=list(CLAUSES),
        problem_type="multi_label_classification",
        pooling="mean",
    )
    classifier.compile(learning_rate=5e-4)
    classifier.fit(texts, labels, epochs=3 if arguments.quick else 8, batch_size=16, verbose=0)
    right = 0
    for (text, wanted), scores in zip(NEW.items(), classifier.predict(list(NEW)), strict=True):
        found = [name for name, score in zip(CLAUSES, scores) if score > 0.5]
        right += sum((name in found) == (name in wanted) for name in CLAUSES)
        print(text, *(f"\n    {name:8} {score:.2f}" for name, score in zip(CLAUSES, scores)))
    print(f"{right} of {3 * len(NEW)} decisions are right")
    return right / (3 * len(NEW))


if __name__ == "__main__":
    main()
