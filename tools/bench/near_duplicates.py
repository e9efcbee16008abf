#!/usr/bin/env python
"""Measures how many edited copies `keras-bert clean` removes, compared with their similarity.

    python tools/bench/near_duplicates.py WIKIPEDIA

Takes the first 300 words of 1,000 documents, and a copy of each with some words replaced by random
words of the documents. Prints a table with the exact Jaccard similarity of the pairs.
"""

import random
import sys

import numpy as np

from keras_bert_impl.pretraining import read_documents
from keras_bert_impl.pretraining.corpus.near_duplicates import find_duplicates, signature, text_hash

EDITED = (0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)  # fractions of the words
THRESHOLDS = (0.5, 0.7, 0.8, 0.9)


def sequences(words):
    return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


def main():
    texts = []
    for document in read_documents(sys.argv[1]):
        words = " ".join(document.paragraphs).split()[:300]
        words = ["".join(filter(str.isalnum, word)).lower() for word in words]
        if len(words) == 300 and all(words):
            texts.append(words)
        if len(texts) == 1000:
            break
    draw = random.Random(1)
    print(
        f"{len(texts)} documents\n| words edited | exact similarity | "
        + " | ".join(f"removed at {t}" for t in THRESHOLDS)
        + " |"
    )
    print("|---|---|" + "---|" * len(THRESHOLDS))
    for fraction in EDITED:
        copies = []
        for words in texts:
            copy = list(words)
            for place in draw.sample(range(300), round(300 * fraction)):
                copy[place] = draw.choice(draw.choice(texts))
            copies.append(copy)
        pairs = [(sequences(a), sequences(b)) for a, b in zip(texts, copies)]
        exact = [len(a & b) / len(a | b) for a, b in pairs]
        joined = [" ".join(words) for words in texts + copies]
        hashes = np.array([text_hash(text) for text in joined], np.uint64)
        signatures = np.array([signature(text) for text in joined])
        cells = []
        for threshold in THRESHOLDS:
            is_duplicate = np.logical_or(*find_duplicates(hashes, signatures, threshold))
            assert not is_duplicate[: len(texts)].any()  # the originals
            cells.append(f"{is_duplicate[len(texts) :].mean():.1%}")
        spread = f"{np.mean(exact):.3f} ± {np.std(exact):.3f}"
        print(f"| {fraction:.0%} | {spread} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
