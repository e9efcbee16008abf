"""The multiple-choice task for training runs and commands."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.data.choices import (
    ChoiceExamples,
    read_choices,
    score_choices,
    write_choice_predictions,
    write_choices,
)
from keras_bert_impl.data.scores.comparison import Outcome
from keras_bert_impl.data.scores.decisions import check_scores
from keras_bert_impl.data.scores.metrics import accuracy
from keras_bert_impl.tasks.base.description import Task
from keras_bert_impl.tasks.base.options import setting_names
from keras_bert_impl.tasks.multiple_choice import SETTINGS, TASK_NAME, read
from keras_bert_impl.tasks.multiple_choice.model import MultipleChoice


class Choice(Task):
    """Multiple choice on `ChoiceExamples`."""

    name = TASK_NAME
    model_classes = (MultipleChoice,)
    report = "keras_bert_impl.reports.sections.multiple_choice"
    example_class = ChoiceExamples
    architectures = ("ForMultipleChoice",)
    settings = setting_names(SETTINGS)
    read = staticmethod(read)
    metrics = ("accuracy",)

    @staticmethod
    def score(
        model: MultipleChoice, examples: ChoiceExamples, directory: Path | None = None
    ) -> dict[str, float]:
        probabilities = model.predict(examples.texts, verbose=0)
        if directory is not None:
            write_choice_predictions(directory / "predictions.tsv", probabilities, examples)
        return score_choices(examples, probabilities)

    @staticmethod
    def outcome(model: MultipleChoice, examples: ChoiceExamples, like: MultipleChoice) -> Outcome:
        rows = model.predict(examples.texts, verbose=0)
        check_scores(rows, "example")
        choices = np.array([row.argmax() for row in rows])
        return Outcome(np.array(examples.labels), choices, {"accuracy": accuracy})

    @staticmethod
    def write_held_out(examples: ChoiceExamples, directory: Path) -> list[Path]:
        if not (examples.read_with or {}).get("dev_split"):
            return []
        write_choices(directory / "dev.jsonl", examples)
        return [directory / "dev.jsonl"]

    @staticmethod
    def read_inputs(path: str) -> list[tuple[Any, dict[str, Any]]]:
        return [(text, {}) for text in read_choices(path).texts]

    @staticmethod
    def predictions(model: MultipleChoice, texts: list) -> Iterator[tuple[dict, list[str]]]:
        probabilities = model.predict(texts, verbose=0)
        check_scores(probabilities, "example")
        for (_, endings), row in zip(texts, probabilities):
            choice, scores = int(row.argmax()), row.tolist()
            answer = {"choice": choice, "ending": endings[choice], "score": scores[choice]}
            yield answer | {"scores": scores}, [endings[choice], f"{scores[choice]:.4f}"]


TASKS = (Choice,)
