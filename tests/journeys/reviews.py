"""Tables of reviews of which one in twenty is negative, as Excel and people write them."""

import csv
import itertools
import json
import random
from pathlib import Path

NUM_POSITIVE, NUM_NEGATIVE = 1900, 100  # different texts in `reviews.csv`
NUM_ASKED = 1000  # a server takes up to 1,024 texts in a request
NUM_REPEATED, NUM_WITHOUT_TEXT, NUM_WITHOUT_LABEL = 40, 15, 5
_POSITIVE = ("funny and warm", "well acted", "a joy from start to end", "touching", "brilliant")
_NEGATIVE = ("dull and slow", "badly acted", "a waste of time", "boring", "a mess")
# Opinion -> numbers of positive and negative reviews with it: no model can tell which.
_EITHER = {"rather long": (60, 60), "not what I expected": (150, 40), "very loud": (400, 0)}


def made() -> tuple[list[str], list[str]]:
    """Returns positive and negative reviews, in any order, from templates."""
    things = "film story comedy sequel drama documentary thriller cartoon remake script".split()
    openings = [f"{word} {thing}" for word in ("this", "the new", "their last") for thing in things]
    endings = ("", "with my family", "on a Sunday", "in the old cinema", "at the festival")
    additions = ("", "and I saw it twice", "as my friends said")

    def texts(*opinions):
        parts = itertools.product(openings, opinions, endings, additions)
        reviews = [f"{a} was {b} {c} {d}".strip().replace("  ", " ") for a, b, c, d in parts]
        random.Random(0).shuffle(reviews)
        return reviews

    positive, negative = texts(*_POSITIVE), texts(*_NEGATIVE)[:100]
    for opinion, (first, second) in _EITHER.items():
        reviews = texts(opinion)
        positive += reviews[:first]
        negative += reviews[first : first + second]
    return positive, negative


def sst2(folder: str) -> tuple[list[str], list[str]]:
    """Returns positive and negative sentences of SST-2's training set, in the layout of GLUE."""
    path = Path(folder) / "SST-2" / "train.tsv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    sentences = {"0": {}, "1": {}}
    for row in rows:
        if len(row["sentence"].split()) >= 5:
            sentences[row["label"]][row["sentence"].strip()] = None
    return list(sentences["1"]), list(sentences["0"])


def write(folder: Path, positive: list[str], negative: list[str]) -> None:
    """Writes `reviews.csv` in cp1252 with faults, and `test.csv` and `instances.json` without."""
    draw = random.Random(0)
    ends = [("positive", positive, NUM_POSITIVE), ("negative", negative, NUM_NEGATIVE)]
    train, test = [], []
    for label, texts, count in ends:
        texts = draw.sample(texts, 3 * count // 2 if label == "positive" else 2 * count)
        train += [(text, label) for text in texts[:count]]
        test += [(text, label) for text in texts[count:]]
    draw.shuffle(train)
    draw.shuffle(test)
    train = [(f"{text} – 3 €" if n % 50 == 0 else text, b) for n, (text, b) in enumerate(train)]
    train += train[:NUM_REPEATED]
    train += [("", "positive")] * NUM_WITHOUT_TEXT
    train += [(f"no label {number}", "") for number in range(NUM_WITHOUT_LABEL)]
    _save(folder / "reviews.csv", train, encoding="cp1252", delimiter=";")
    _save(folder / "test.csv", test, encoding="utf-8", delimiter=",")
    instances = json.dumps({"instances": [text for text, _ in test[:NUM_ASKED]]})
    (folder / "instances.json").write_text(instances, encoding="utf-8")


def _save(path, rows, encoding, delimiter):
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerows([("review", "verdict"), *rows])
