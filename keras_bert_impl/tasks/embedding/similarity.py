"""Examples and scores for text similarity: labeled pairs, or anchors with positives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_bert_impl.data.prediction_files import cells, write_predictions_table
from keras_bert_impl.data.scores.comparison import Outcome
from keras_bert_impl.data.scores.decisions import EQUAL_COSINES, undefined, unit_length
from keras_bert_impl.data.scores.metrics import pearson, spearman
from keras_bert_impl.data.tables.examples import Examples
from keras_bert_impl.utils.errors import InputError

if TYPE_CHECKING:
    from keras_bert_impl.tasks.embedding.model import TextEmbedder


def _split_into_texts(examples):
    return [(text,) for texts in examples.texts for text in texts]


class SimilarityExamples(Examples):
    """`Examples` of text pairs with float labels, for training embeddings.

    Example:
        from keras_bert_impl.tasks import SimilarityExamples, read_glue
        train = SimilarityExamples.of(read_glue("stsb", "glue", "train"))
    """

    @property
    def sequences(self) -> list[tuple[str, ...]]:
        return _split_into_texts(self)

    @classmethod
    def of(cls, examples: Examples) -> SimilarityExamples:
        """Converts `Examples` to similarity examples.

        Raises:
            InputError: the texts are not pairs, or the labels are not numbers.
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
    """Computes the correlation of cosine similarities with human similarity ratings.

    Args:
        examples: `Examples` of pairs with numbers as labels, from `read_glue("stsb", ...)` or
            `read_table`.
        batch_size: default 32.

    Returns:
        dict of `pearson` and `spearman` correlations; NaN if all cosines are equal (up to 1e-6) or
        one is NaN.

    Example:
        from keras_bert_impl.tasks import read_glue, sts_scores
        sts_scores(TextEmbedder.from_pretrained("path/to/model"), read_glue("stsb", "glue", "dev"))
    """
    examples = SimilarityExamples.of(examples)
    return _compute_scores(examples, embedder.similarities(examples.texts, batch_size))


def score_similarities(
    model: TextEmbedder, examples: SimilarityExamples, directory: Path | None = None
) -> dict[str, float]:
    cosines = model.similarities(examples.texts)
    if directory is not None:
        path = directory / "predictions.tsv"
        rows = ([cell] for cell in cells(cosines))
        write_predictions_table(path, ["cosine"], rows, examples)
    return _compute_scores(examples, cosines)


def _compute_scores(examples, cosines):
    outcome = similarity_outcome(examples, cosines)
    return {name: outcome.score(name) for name in outcome.metrics}


def similarity_outcome(examples: SimilarityExamples, cosines: np.ndarray) -> Outcome:
    """Returns cosines with their labels and metrics, for comparisons of models."""
    if np.ptp(cosines) <= EQUAL_COSINES:
        cosines = np.zeros_like(cosines)  # the differences are rounding errors
    metrics = {"pearson": pearson, "spearman": spearman}
    return Outcome(np.array(examples.labels, "float64"), cosines, metrics)


_CHUNK = 1024  # anchors compared at once with all candidates


class AnchorExamples(Examples):
    """`Examples` of (anchor, positive) or (anchor, positive, negative) tuples, without labels.

    Example:
        from keras_bert_impl.tasks import AnchorExamples, read_table
        train = AnchorExamples.of(read_table("train.csv", "question", "answer"))
    """

    @property
    def sequences(self) -> list[tuple[str, ...]]:
        return _split_into_texts(self)

    @classmethod
    def of(cls, examples: Examples) -> AnchorExamples:
        """Converts `Examples` to anchor examples.

        Raises:
            InputError: the examples are single texts, or have labels.
        """
        if not examples.texts or not isinstance(examples.texts[0], tuple):
            raise InputError(f"{examples.source}: anchor examples must be tuples of texts.")
        if examples.labels is not None:
            raise InputError(f"{examples.source}: anchor examples must not have labels.")
        return cls(**vars(examples))


def anchor_scores(
    embedder: TextEmbedder, examples: AnchorExamples, directory: Path | None = None
) -> dict[str, float]:
    """Computes retrieval metrics: for each anchor, texts are ranked by cosine similarity.

    If another text and the positive have equal cosines (up to 1e-6), the other text ranks first.

    Args:
        directory: existing folder for a file of ranks; None writes no file.

    Returns:
        - `mrr`: mean reciprocal rank of the positives among all distinct positives and negatives;
        - `recall_at_1`: fraction of positives that rank first;
        - `accuracy`: fraction of anchors that are nearer to the positive than to the negative.

        All scores are NaN if a vector contains NaN.

    Example:
        from keras_bert_impl.tasks import AnchorExamples, anchor_scores, read_table
        anchor_scores(embedder, AnchorExamples.of(read_table("dev.csv", "question", "answer")))
    """
    cosines, ranks = anchor_ranks(embedder, examples)
    if directory is not None:
        columns = ["positive", "negative"][: cosines.shape[1]] + ["rank"]
        rows = ([*cells(row), rank] for row, rank in zip(cosines, ranks))
        write_predictions_table(directory / "predictions.tsv", columns, rows)
    outcome = anchor_outcome(ranks)
    scores = {name: outcome.score(name) for name in outcome.metrics}
    if cosines.shape[1] > 1:
        is_nearer = cosines[:, 0] - cosines[:, 1] > EQUAL_COSINES
        scores = {"accuracy": float(np.mean(is_nearer)), **scores}
    return undefined(scores) if np.isnan(cosines).any() else scores


def anchor_ranks(embedder: TextEmbedder, examples: AnchorExamples) -> tuple[np.ndarray, np.ndarray]:
    """Returns the cosines of each anchor, `[texts, group - 1]`, and the ranks of the positives.

    If a vector contains NaN, all cosines are NaN.
    """
    vectors = unit_length(embedder.predict(examples.texts, verbose=0))  # [texts, group, dim]
    cosines = np.sum(vectors[:, :1] * vectors[:, 1:], axis=-1)
    if np.isnan(vectors).any():
        cosines = np.full_like(cosines, np.nan)
    return cosines, _compute_ranks(vectors, examples.texts)


def anchor_outcome(ranks: np.ndarray) -> Outcome:
    """Returns ranks of positives with their metrics, for comparisons of models."""
    metrics = {
        "mrr": lambda _, ranks: float(np.mean(1 / ranks)),
        "recall_at_1": lambda _, ranks: float(np.mean(ranks == 1)),
    }
    return Outcome(np.zeros(len(ranks)), np.asarray(ranks, "float64"), metrics)


def _compute_ranks(vectors, texts):
    """Returns the rank of each positive, int [texts].

    Args:
        vectors: float32 [texts, group, dim], unit length.
    """
    places = {}  # text -> (row, column) of its first occurrence
    for row, (_, *other_texts) in enumerate(texts):
        for column, text in enumerate(other_texts, 1):
            places.setdefault(text, (row, column))
    candidates = np.stack([vectors[place] for place in places.values()])
    numbers = {text: number for number, text in enumerate(places)}
    positive_numbers = np.array([numbers[positive] for _, positive, *_ in texts])
    ranks = []
    for first in range(0, len(texts), _CHUNK):
        part = slice(first, first + _CHUNK)
        cosines = vectors[part, 0] @ candidates.T  # [anchors, candidates]
        positive_cosines = np.take_along_axis(cosines, positive_numbers[part, None], axis=1)
        # With `cosines >= ...`, the rank of NaN would be 0.
        ranks.append(np.sum(~(cosines < positive_cosines - EQUAL_COSINES), axis=1))
    return np.concatenate(ranks)
