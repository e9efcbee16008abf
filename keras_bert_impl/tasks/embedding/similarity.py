"""Pairs of texts with a number that says how near they are in meaning, and scores on them."""

import csv

import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_file
from keras_bert_impl.tasks.base.kind import LONG_TEXT_SETTINGS, Kind
from keras_bert_impl.tasks.data.examples import Examples
from keras_bert_impl.tasks.embedding.losses import SCORED
from keras_bert_impl.tasks.embedding.model import TextEmbedder
from keras_bert_impl.tasks.scores.decisions import EQUAL_COSINES
from keras_bert_impl.tasks.scores.metrics import pearson, spearman


class SimilarityExamples(Examples):
    """Pairs with a float each, as `Examples`, but for embeddings and not for a classifier.

    Example:
        train = SimilarityExamples.of(read_glue("stsb", "glue", "train"))
    """

    @classmethod
    def of(cls, examples):
        """The same `Examples` as pairs to embed.

        Raises:
            InputError: texts that are no pairs, or labels that are no numbers.
        """
        if not examples.texts or not isinstance(examples.texts[0], tuple):
            raise InputError(f"{examples.source}: similarity is of pairs of texts.")
        if not examples.is_numeric:
            raise InputError(f"{examples.source}: similarity is learned from numbers as labels.")
        return cls(**vars(examples))


def sts_scores(embedder, examples, batch_size=None):
    """How well cosines of embeddings agree with people's judgement.

    Args:
        embedder: `TextEmbedder`.
        examples: `Examples` of pairs with numbers, of `read_glue("stsb", ...)` or `read_table`.
        batch_size: int, default 32.

    Returns:
        dict of `pearson` and `spearman`, of cosines and labels; NaN where all cosines are equal, up
        to 1e-6, or one is NaN.

    Example:
        sts_scores(TextEmbedder.from_pretrained("path/to/model"), read_glue("stsb", "glue", "dev"))
    """
    examples = SimilarityExamples.of(examples)
    return _scores(examples, embedder.similarities(examples.texts, batch_size))


def _scores(examples, cosines):
    if np.ptp(cosines) <= EQUAL_COSINES:
        cosines = np.zeros_like(cosines)  # what differs is rounding
    return {
        "pearson": pearson(examples.labels, cosines),
        "spearman": spearman(examples.labels, cosines),
    }


class Similarity(Kind):
    """Similarity of texts, of `SimilarityExamples`.

    Labels that leave [-1, 1] are brought to [0, 1], from the lowest of `train` to its highest.
    """

    model_class = TextEmbedder
    settings = ("loss", "pooling", *LONG_TEXT_SETTINGS)
    losses = SCORED

    def __init__(self, train, dev):
        values = np.array(train.labels)
        self._low, self._range = 0.0, 1.0
        if np.abs(np.concatenate([values, dev.labels])).max() > 1:
            self._low, self._range = values.min(), np.ptp(values)
        if not np.ptp(values):
            raise InputError(f"{train.source}: all pairs have the label {values[0]}.")
        self.arguments = {"loss": SCORED[0]}

    def inputs(self, examples):
        labels = (np.array(examples.labels) - self._low) / self._range
        return examples.texts, np.clip(labels, -1, 1).astype("float32")

    @staticmethod
    def score(model, examples, directory=None):
        cosines = model.similarities(examples.texts)
        if directory is not None:
            _write_cosines(directory / "predictions.tsv", cosines)
        return _scores(examples, cosines)


def _write_cosines(path, cosines):
    with replace_file(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(["index", "cosine"])
        # Nine digits give a float32 back exactly.
        writer.writerows([i, f"{cosine:.9g}"] for i, cosine in enumerate(cosines))
