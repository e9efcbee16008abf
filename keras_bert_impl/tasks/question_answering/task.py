"""The question answering task for training runs and commands."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.data.batches.blocks import UndefinedScoresError
from keras_bert_impl.data.questions import (
    QuestionExamples,
    read_articles,
    write_squad,
)
from keras_bert_impl.data.scores.comparison import Outcome
from keras_bert_impl.data.scores.decisions import undefined
from keras_bert_impl.data.scores.squad import scores_of_questions
from keras_bert_impl.tasks.base.description import Task
from keras_bert_impl.tasks.base.options import setting_names
from keras_bert_impl.tasks.question_answering import SETTINGS, TASK_NAME, read
from keras_bert_impl.tasks.question_answering.decode import Answer, best_answer
from keras_bert_impl.tasks.question_answering.model import QuestionAnswerer
from keras_bert_impl.tasks.question_answering.results import (
    score_answers,
    search_null_threshold,
    write_answer_files,
)
from keras_bert_impl.utils.errors import InputError


class QuestionAnswering(Task):
    """Extractive question answering on `QuestionExamples`."""

    name = TASK_NAME
    model_classes = (QuestionAnswerer,)
    report = "keras_bert_impl.reports.sections.question_answering"
    example_class = QuestionExamples
    # The second one is for FlauBERT.
    architectures = ("ForQuestionAnswering", "ForQuestionAnsweringSimple")
    settings = setting_names(SETTINGS)
    read = staticmethod(read)
    decision_settings = ("null_threshold",)
    highest_score = 100.0  # as in the official script
    metrics = ("exact_match", "f1")

    def __init__(self, train: QuestionExamples, dev: QuestionExamples) -> None:
        if (train.is_impossible is None) is not (dev.is_impossible is None):
            raise InputError(
                f"only one of {train.source} and {dev.source} has questions without an answer, as "
                "in SQuAD 2.0. Both must have the same format."
            )
        self._has_nulls = train.is_impossible is not None
        self.arguments = {"null_threshold": 0.0 if self._has_nulls else None}

    def score_names(self, dev: QuestionExamples) -> list[str]:
        return ["exact", "f1"] if self._has_nulls else list(self.metrics)

    def inputs(self, examples: QuestionExamples) -> tuple:
        return examples.pairs, examples.answers

    @staticmethod
    def score(
        model: QuestionAnswerer, examples: QuestionExamples, directory: Path | None = None
    ) -> dict[str, float]:
        return _score(model, examples, directory)

    @staticmethod
    def outcome(
        model: QuestionAnswerer, examples: QuestionExamples, like: QuestionAnswerer
    ) -> Outcome:
        answers = dict(zip(examples.ids, model.answer(examples.pairs)))
        percentages = 100 * np.column_stack(scores_of_questions(examples, answers))
        metrics = {
            "exact_match": lambda _, percentages: float(np.mean(percentages[:, 0])),
            "f1": lambda _, percentages: float(np.mean(percentages[:, 1])),
        }
        return Outcome(np.zeros(len(examples)), percentages, metrics)

    def finish(
        self, model: QuestionAnswerer, dev: QuestionExamples, directory: Path | None = None
    ) -> dict[str, float]:
        return _score(model, dev, directory, search_threshold=self._has_nulls)

    @staticmethod
    def write_held_out(examples: QuestionExamples, directory: Path) -> list[Path]:
        if not (examples.read_with or {}).get("dev_split"):
            return []
        write_squad(directory / "dev.json", examples)
        return [directory / "dev.json"]

    @staticmethod
    def read_inputs(path: str) -> list[tuple[Any, dict[str, Any]]] | None:
        return read_articles(path)

    @staticmethod
    def predictions(model: QuestionAnswerer, texts: list) -> Iterator[tuple[dict, list[str]]]:
        for answers in model.predict(texts, verbose=0):
            best = best_answer(answers, model.null_threshold)
            answer = {
                "answer": best.text,
                "score": best.score,
                "start": best.start,
                "end": best.end,
            }
            answer["answers"] = [dataclasses.asdict(each) for each in answers]
            yield answer, [best.text, f"{best.score:.4f}"]


def _score(model, examples, directory, search_threshold=False):
    """Scores a model. If `search_threshold` is True, first sets the best null threshold."""
    try:
        predictions = model.predict(examples.pairs, verbose=0)
    except UndefinedScoresError:
        nothing = [[Answer("", 0, 0, 1.0, 0.0, 0.0)]] * len(examples)
        return undefined(score_answers(examples, nothing, model.null_threshold))
    if search_threshold:
        model.null_threshold = search_null_threshold(examples, predictions)
        if directory is not None:
            model.save_settings(directory / "model")
    if directory is not None:
        write_answer_files(directory, examples, predictions, model.null_threshold)
    return score_answers(examples, predictions, model.null_threshold)


TASKS = (QuestionAnswering,)
