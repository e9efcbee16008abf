"""`Task`: everything about one kind of task that runs, commands and model files need to know."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

LONG_TEXT_SETTINGS = ("long_texts", "doc_stride", "max_windows")  # of tasks with a vector per text


class Task:
    """Describes one kind of task; an instance belongs to a run on examples of that kind.

    A subclass in `tasks/<folder>/task.py`, listed there in `TASKS`, is found by
    `tasks.registry`; one from outside of this package is added by `tasks.registry.register_task`.

    Args:
        train, dev: labelled examples, of `example_class`.

    Raises:
        InputError: labels that cannot be learned, or that only one of the two has.

    Attributes:
        name: str or None. The value of `--task` on the command line; None for the task of a table
            when no other is named.
        model_classes: the `TaskModel`s that the task trains; the first is the default.
        example_class: class of its labelled examples; None where `finetune` has none.
        architectures: endings of the class names that `config.json` of other libraries gives.
        settings: names of the fields of `FinetuneSettings` that only some tasks have.
        losses: values that the setting `loss` can have.
        needs_labels: whether examples without labels are refused.
        arguments: dict for `from_pretrained` of the model class.
    """

    name: str | None = None
    model_classes: tuple = ()
    example_class: type | None = None
    architectures: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    needs_labels: bool = True

    def __init__(self, train, dev):
        self.arguments = {}

    def model_class(self, settings: dict[str, Any]) -> type:
        """The model class of a run with these settings of the task."""
        return self.model_classes[0]

    def inputs(self, examples) -> tuple:
        """Examples as `fit` takes them: (x, y)."""
        return examples.texts, examples.labels

    @staticmethod
    def score(model, examples, directory: Path | None = None) -> dict[str, float]:
        """Scores a model.

        Args:
            model: one of `model_classes`.
            examples: labelled examples.
            directory: an existing folder to write the predictions to; None to write none.

        Returns:
            Scores by name; models are compared by the first.

        Raises:
            InputError: a label that the model does not know; says where.
        """
        raise NotImplementedError

    def finish(self, model, dev, directory: Path | None = None) -> dict[str, float]:
        """Scores a model after choosing what the task chooses on the development set.

        Args:
            model: one of `model_classes`.
            dev: labelled examples.
            directory: the run directory that `model` was read from, where the choice is saved;
                None to write nothing.
        """
        return self.score(model, dev, directory)

    @classmethod
    def recognize(cls, source) -> type | None:
        """The model class of a model directory of another library.

        Args:
            source: `interop.source.Source`, what the directory holds.
        """
        for name in source.config.list_of("architectures", str, []):
            if name.endswith(cls.architectures):
                return cls.model_classes[0]
        return None

    @classmethod
    def read(cls, source, split: str):
        """Reads labelled examples.

        Args:
            source: `tasks.data.source.ExampleSource`, the files and columns to read.
            split: `"train"`, `"dev"` or `"test"`.
        """
        raise NotImplementedError

    @staticmethod
    def read_inputs(path: str) -> list | None:
        """The inputs in a file that only this task can read; None for lines or a table of texts."""
        return None

    @staticmethod
    def predictions(model, texts: list) -> Iterator[tuple[dict, list[str]]]:
        """Predicts; yields for each text a dict for JSON and the cells of a line."""
        raise NotImplementedError
