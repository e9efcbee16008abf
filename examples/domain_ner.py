"""Named entities of a domain: machine parts and their faults in maintenance notes.

The notes are generated from templates. Half of the parts and faults occur only in the validation
set, so the model must recognize them from the context and from its knowledge of English.

    python examples/domain_ner.py --model bert-base-cased
"""

import itertools

from common import parse_arguments

from keras_bert_impl import TokenClassifier
from keras_bert_impl.tasks import TaggedExamples, score_tags

PARTS = ["inlet valve", "drive belt", "main bearing", "cooling fan"], ["oil pump", "gear box"]
FAULTS = ["leaking", "worn", "overheated", "cracked"], ["broken", "corroded"]
TEMPLATES = [
    "Found the {part} {fault} during the weekly inspection .",
    "The {part} was {fault} and has been replaced .",
    "Operator reports that the {part} is {fault} again .",
    "No action was needed on line two today .",
]
LABELS = ["O", "B-PART", "I-PART", "B-FAULT", "I-FAULT"]


def notes(part: int) -> TaggedExamples:
    """Returns the notes of the training (0) or development part (1), with a label for each word."""
    texts, labels = [], []
    for template, *names in itertools.product(TEMPLATES, PARTS[part], FAULTS[part]):
        words, tags = [], []
        for word in template.split():
            kind = {"{part}": "PART", "{fault}": "FAULT"}.get(word)
            entity = names[kind == "FAULT"].split() if kind else [word]
            words += entity
            tags += [f"{'I' if n else 'B'}-{kind}" if kind else "O" for n in range(len(entity))]
        texts.append(words)
        labels.append(tags)
    return TaggedExamples(texts, labels, LABELS)


def main(argv: list[str] | None = None) -> float:
    arguments = parse_arguments(argv, __doc__)
    train, dev = notes(0), notes(1)
    tagger = TokenClassifier.from_pretrained(arguments.model, labels=LABELS)
    tagger.compile(learning_rate=5e-4)
    tagger.fit(
        train.texts, train.labels, epochs=6 if arguments.quick else 10, batch_size=8, verbose=0
    )
    f1 = score_tags(dev, tagger.tag(dev.texts))["f1"]
    print(f"entity F1 on parts and faults that were not in the training notes: {f1:.2f}")
    text = "Yesterday the hydraulic hose was broken and the feed motor is overheated again."
    for entity in tagger.entities([text])[0]:
        print(f"    {entity.type:6} {entity.text:16} characters {entity.start} to {entity.end}")
    return f1


if __name__ == "__main__":
    main()
