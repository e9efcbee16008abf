"""Semantic textual similarity: labeled text pairs and scores on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.base.prediction_files import cells, write_predictions_table
from keras_bert_impl.tasks.data.examples import Examples
from keras_bert_impl.tasks.scores.decisions import EQUAL_COSINES
from keras_bert_impl.tasks.scores.metrics import pearson, spearman

if TYPE_CHECKING:
    from keras_bert_impl.tasks.embedding.model import TextEmbedder


class SimilarityExamples(Examples):
    """Text pairs with float labels, as `Examples` for embeddings instead of a classifier.

    Example:
        from keras_bert_impl.tasks import SimilarityExamples, read_glue
        train = SimilarityExamples.of(read_glue("stsb", "glue", "train"))
    """

    @classmethod
    def of(cls, examples: Examples) -> SimilarityExamples:
        """Converts `Examples` to similarity examples.

        Raises:
            InputError: texts are not pairs, or labels are not numbers.
        """
        if not examples.texts or not isinstance(examples.texts[0], tuple):
            raise InputError(f"{examples.source}: similarity examples must be pairs of texts.")
        if not examples.is_numeric:
            raise InputError(
                f"{examples.source}: the labels of similarity examples must be numbers."
            )
        return cls(**vars(examples))


def sts_scores(
    embedder: TextEmbedder, examples: Examples, batch_size: int | None = None
) -> dict[str, float]:
    """Computes the correlation of embedding cosines with human similarity ratings.

    Args:
        examples: `Examples` of pairs with numbers, from `read_glue("stsb", ...)` or `read_table`.
        batch_size: default 32.

    Returns:
        dict of `pearson` and `spearman`, of cosines and labels; NaN if all cosines are equal, up to
        1e-6, or one is NaN.

    Example:
        from keras_bert_impl.tasks import read_glue, sts_scores
        sts_scores(TextEmbedder.from_pretrained("path/to/model"), read_glue("stsb", "glue", "dev"))
    """
    examples = SimilarityExamples.of(examples)
    return _scores(examples, embedder.similarities(examples.texts, batch_size))


def score_similarities(
    model: TextEmbedder, examples: SimilarityExamples, directory: Path | None = None
) -> dict[str, float]:
    """Computes the scores of `SimilarityExamples`; see `Task.score`."""
    cosines = model.similarities(examples.texts)
    if directory is not None:
        path = directory / "predictions.tsv"
        write_predictions_table(path, ["cosine"], ([cell] for cell in cells(cosines)))
    return _scores(examples, cosines)


def _scores(examples, cosines):
    if np.ptp(cosines) <= EQUAL_COSINES:
        cosines = np.zeros_like(cosines)  # the differences are rounding errors
    return {
        "pearson": pearson(examples.labels, cosines),
        "spearman": spearman(examples.labels, cosines),
    }
