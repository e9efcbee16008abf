"""The embedding tasks for training runs and commands: text similarity and retrieval."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.checkpoints.interop.source import ModelSource
from keras_bert_impl.data.prediction_files import read_predictions_table
from keras_bert_impl.data.scores.comparison import Comparison, Outcome
from keras_bert_impl.data.scores.decisions import check_scores
from keras_bert_impl.data.tables.held_rows import copy_rows, write_held_out
from keras_bert_impl.tasks.base.description import Task
from keras_bert_impl.tasks.base.options import setting_names
from keras_bert_impl.tasks.embedding import SETTINGS, TASK_NAME, read
from keras_bert_impl.tasks.embedding.losses import SCORED
from keras_bert_impl.tasks.embedding.model import TextEmbedder
from keras_bert_impl.tasks.embedding.similarity import (
    AnchorExamples,
    SimilarityExamples,
    anchor_outcome,
    anchor_ranks,
    anchor_scores,
    score_similarities,
    similarity_outcome,
)
from keras_bert_impl.utils.errors import InputError


class _Embedding(Task):
    name = TASK_NAME
    model_classes = (TextEmbedder,)
    report = "keras_bert_impl.reports.sections.embedding"
    settings = setting_names(SETTINGS)
    read = staticmethod(read)
    write_held_out = staticmethod(functools.partial(write_held_out, copy=copy_rows))
    _untuned: Outcome | None = None  # predictions of the model before training

    @staticmethod
    def _compute_outcome(dev: Any, columns: np.ndarray) -> Outcome:
        """Returns the outcome for the columns of a prediction file."""
        raise NotImplementedError

    def compare(self, train: Any, dev: Any, directory: Path) -> Comparison | None:
        if self._untuned is None:
            return None
        _, rows = read_predictions_table(directory / "predictions.tsv")
        outcome = self._compute_outcome(dev, np.array(rows, "float64"))
        return Comparison(outcome, {"untuned": self._untuned})

    @classmethod
    def recognize(cls, source: ModelSource) -> type | None:
        has_modules = (source.task_path / "modules.json").is_file()  # sentence-transformers
        return TextEmbedder if has_modules else None

    @staticmethod
    def predictions(model: TextEmbedder, texts: list) -> Iterator[tuple[dict, list[str]]]:
        cosines = model.similarities(texts)
        check_scores(cosines, "pair")
        for cosine in cosines.tolist():
            yield {"cosine": cosine}, [f"{cosine:.4f}"]


class Similarity(_Embedding):
    """Text similarity on `SimilarityExamples`."""

    example_class = SimilarityExamples
    metrics = ("pearson", "spearman")
    losses = SCORED

    def __init__(self, train: SimilarityExamples, dev: SimilarityExamples) -> None:
        values = np.array(train.labels)
        self._low, self._range = 0.0, 1.0
        if np.abs(np.concatenate([values, dev.labels])).max() > 1:
            self._low, self._range = values.min(), np.ptp(values)
        if not np.ptp(values):
            raise InputError(f"{train.source}: all pairs have the label {values[0]}.")
        self.arguments = {"loss": SCORED[0]}

    def inputs(self, examples: SimilarityExamples) -> tuple:
        labels = (np.array(examples.labels) - self._low) / self._range
        return examples.texts, np.clip(labels, -1, 1).astype("float32")

    def before_training(self, model: TextEmbedder, dev: SimilarityExamples) -> None:
        self._untuned = similarity_outcome(dev, model.similarities(dev.texts))

    @staticmethod
    def _compute_outcome(dev, columns):
        return similarity_outcome(dev, columns[:, 0])

    score = staticmethod(score_similarities)

    @staticmethod
    def outcome(model: TextEmbedder, examples: SimilarityExamples, like: TextEmbedder) -> Outcome:
        cosines = model.similarities(examples.texts)
        check_scores(cosines, "pair")
        return similarity_outcome(examples, cosines)


class Anchors(_Embedding):
    """Retrieval of positives, on `AnchorExamples`."""

    example_class = AnchorExamples
    metrics = ("mrr", "recall_at_1")
    needs_labels = False
    losses: tuple[str, ...] = ("multiple_negatives", "triplet")

    def __init__(self, train: AnchorExamples, dev: AnchorExamples) -> None:
        groups = [len(examples.texts[0]) for examples in (train, dev)]
        if groups[0] != groups[1]:
            raise InputError(
                f"{train.source} has {groups[0]} texts per example, but {dev.source} has "
                f"{groups[1]}."
            )
        self.arguments = {"loss": self.losses[0]}
        if groups[0] == 2:
            self.losses = ("multiple_negatives",)  # triplet requires three texts

    def inputs(self, examples: AnchorExamples) -> tuple:
        return examples.texts, None

    def before_training(self, model: TextEmbedder, dev: AnchorExamples) -> None:
        self._untuned = anchor_outcome(anchor_ranks(model, dev)[1])

    @staticmethod
    def _compute_outcome(dev, columns):
        return anchor_outcome(columns[:, -1])

    score = staticmethod(anchor_scores)  # type: ignore[assignment]

    @staticmethod
    def outcome(model: TextEmbedder, examples: AnchorExamples, like: TextEmbedder) -> Outcome:
        cosines, ranks = anchor_ranks(model, examples)
        check_scores(cosines, "text")
        return anchor_outcome(ranks)


TASKS = (Similarity, Anchors)
