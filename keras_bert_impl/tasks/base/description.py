"""`Task`: base class of tasks, used by training runs and the command line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_bert_impl.data.scores.calibration import Calibration, Goal
from keras_bert_impl.data.scores.comparison import Comparison, Outcome
from keras_bert_impl.data.tables.examples import LabeledExamples
from keras_bert_impl.tasks.base.kept_settings import argument_of
from keras_bert_impl.tasks.base.options import LongTextSettings, setting_names
from keras_bert_impl.utils.errors import InputError

LONG_TEXT_SETTINGS = setting_names(LongTextSettings)  # for tasks with one vector per text


class Task:
    """Base class of tasks such as text classification; create an instance for each run.

    The list `TASKS` in `tasks/<folder>/task.py` registers the built-in tasks. Register other tasks
    with `tasks.registry.register_task`.

    Args:
        train, dev: labeled examples of type `example_class`.

    Raises:
        InputError: the labels cannot be used for training, or only one of the two sets has labels.

    Attributes:
        name: value of `--task` on the command line; None for the default task.
        model_classes: `TaskModel` classes for the task; the first one is the default.
        example_class: class of the labeled examples; None if `finetune` does not support the task.
        architectures: suffixes of the Hugging Face classes whose models the task loads, such as
            `"ForTokenClassification"`.
        settings: names of task-specific settings: fields of `FinetuneSettings` or arguments of the
            model classes.
        decision_settings: names of the model settings that `finish` selects on the validation set.
        losses: allowed values of the setting `loss`.
        needs_labels: whether examples without labels are rejected.
        metrics: names of the scores for comparing models; the first one is the default.
        highest_score: highest value of the first score; 100 for percentages.
        report: module with a function `sections(subject)`, the task's sections of `report.html`.
        arguments: dict of arguments for the model class's `from_pretrained`.
    """

    name: str | None = None
    model_classes: tuple = ()
    example_class: type | None = None
    architectures: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    decision_settings: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    needs_labels: bool = True
    highest_score: float = 1.0
    report: str | None = None

    def __init__(self, train: Any, dev: Any) -> None:
        self.arguments: dict[str, Any] = {}

    @classmethod
    def declared(cls, name: str) -> tuple[Any, Any]:
        """Returns the annotation and the default of a model setting."""
        arguments = (argument_of(model_class, name) for model_class in cls.model_classes)
        return next(argument for argument in arguments if argument is not None)

    def model_class(self, settings: dict[str, Any]) -> type:
        """Returns the class of the model to fine-tune, which may depend on the settings."""
        return self.model_classes[0]

    def model_arguments(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Converts task-specific settings to arguments of `from_pretrained`."""
        if "long_texts" not in self.settings:
            return self.arguments | settings
        fields = {name: settings[name] for name in LONG_TEXT_SETTINGS if name in settings}
        arguments = {name: settings[name] for name in settings if name not in fields}
        if fields:
            arguments["long_texts"] = {"way": fields.pop("long_texts", None), **fields}
        return self.arguments | arguments

    @staticmethod
    def examples_of(texts: list, labels: list, source: str) -> Any:
        """Converts texts and labels to examples. Returns None if the task does not support them."""
        return None

    @staticmethod
    def with_named_classes(*sets: Any) -> tuple:
        """If the first set has no class names, names the classes of all sets after their indices."""
        return sets

    def inputs(self, examples: Any) -> tuple:
        """Converts examples to the arguments of `fit`: (x, y)."""
        return examples.texts, examples.labels

    @staticmethod
    def score(model: Any, examples: Any, directory: Path | None = None) -> dict[str, float]:
        """Scores a model on labeled examples.

        Args:
            model: instance of one of `model_classes`.
            examples: labeled examples.
            directory: existing folder for the prediction files; None writes no files.

        Returns:
            Scores by name. The first score is used to compare models.

        Raises:
            InputError: a label of the examples is not a label of the model.
        """
        raise NotImplementedError

    def finish(self, model: Any, dev: Any, directory: Path | None = None) -> dict[str, float]:
        """Selects `decision_settings` on the validation set, then scores the model.

        Args:
            model: instance of one of `model_classes`.
            dev: labeled examples.
            directory: run directory of `model`, where the selected settings are saved; None writes
                nothing.
        """
        return self.score(model, dev, directory)

    def score_names(self, dev: Any) -> list[str]:
        """Returns the names of the scores that can be computed on these examples."""
        return list(self.metrics)

    def default_metric(self, train: Any) -> str | None:
        """Returns the default name of the score for comparing models. None means the first score."""
        return None

    @staticmethod
    def with_metric(examples: Any, metric: str | None) -> LabeledExamples:
        """Returns a copy of the examples, with `metric` as the first score."""
        return examples

    def before_training(self, model: Any, dev: Any) -> None:
        """Computes what `compare` requires of the model before training."""

    def compare(self, train: Any, dev: Any, directory: Path) -> Comparison | None:
        """Compares the predictions of the model with baselines.

        Returns None if the task has no baselines.

        Args:
            train, dev: labeled examples.
            directory: run directory in which `finish` wrote the predictions on `dev`.
        """
        return None

    @staticmethod
    def write_held_out(examples: Any, directory: Path) -> list[Path]:
        """Writes the examples held out by `hold_out` to files `dev` that `read` supports.

        Returns:
            Paths of the files. Empty if the task writes no files or the examples are not from
            files.
        """
        return []

    @staticmethod
    def outcome(model: Any, examples: Any, like: Any) -> Outcome:
        """Predicts labeled examples. The classes are in the order of the model `like`."""
        raise InputError("models of this task cannot be compared with another model.")

    @staticmethod
    def calibrate(model: Any, examples: Any, goal: Goal) -> Calibration:
        """Calibrates a model on labeled examples; see `TextClassifier.calibrate`."""
        raise InputError("only text classifiers can be calibrated.")

    @classmethod
    def recognize(cls, source: Any) -> type | None:
        """Returns the model class for a model of another library; None if the task has none.

        Args:
            source: `interop.source.ModelSource`, the contents of the model directory.
        """
        for name in source.config.list_of("architectures", str, []):
            if name.endswith(cls.architectures):
                return cls.model_classes[0]
        return None

    @staticmethod
    def read(source: Any, split: str) -> Any:
        """Reads labeled examples.

        Args:
            source: `tasks.data.source.ExampleSource`, the files and columns to read.
            split: `"train"`, `"dev"` or `"test"`.
        """
        raise NotImplementedError

    @staticmethod
    def read_inputs(path: str) -> list[tuple[Any, dict[str, Any]]] | None:
        """Reads inputs from a file in the task's format.

        Returns:
            (input, columns to copy to the predictions) of each example; None for other formats.
        """
        return None

    @staticmethod
    def predictions(model: Any, texts: list) -> Iterator[tuple[dict, list[str]]]:
        """Yields a dict for JSON output and a list of table cells for each text."""
        raise NotImplementedError
