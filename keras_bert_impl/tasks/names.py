"""Names, readers and options of the tasks, for the command line. Does not import TensorFlow."""

import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from keras_bert_impl.tasks.base.options import MAX_LENGTH, LongTextSettings

# Task -> its names in other libraries and in the literature.
_OTHER_NAMES = {
    None: "classification text-classification sequence-classification sentiment sentiment-analysis "
    "nli natural-language-inference paraphrase",
    "tagging": "ner named-entity-recognition token-classification sequence-labeling pos pos-tagging",
    "squad": "qa question-answering extractive-qa reading-comprehension",
    "similarity": "sts semantic-similarity sentence-similarity text-similarity embedding retrieval",
    "choice": "multiple-choice swag",
    **{"sst2": "sst-2", "stsb": "sts-b", "paws_x": "paws-x"},
}
_TASK_OF = {name: task for task, names in _OTHER_NAMES.items() for name in names.split()}


def task_called(name: str) -> str | None:
    """Returns the value of `--task` for a name from another library, such as `ner`.

    Other names are returned unchanged, or in lowercase if no registered task has the name.
    """
    if name in task_names():
        return name
    return _TASK_OF.get(name.lower().replace("_", "-"), name.lower())


@functools.cache
def _import_folders() -> list[ModuleType]:
    folders = pkgutil.iter_modules([Path(__file__).parent], f"{__package__}.")
    packages = [importlib.import_module(folder.name) for folder in folders if folder.ispkg]
    return [package for package in packages if hasattr(package, "TASK_NAME")]


def task_names() -> list[str]:
    """Returns the values of `--task`. Text classification has no name."""
    names = [folder.TASK_NAME for folder in _import_folders() if folder.TASK_NAME]
    return names + [task.name for task in registered_tasks() if task.name]  # type: ignore[attr-defined]


def settings_of_tasks() -> type:
    kinds = dict.fromkeys(folder.SETTINGS for folder in _import_folders())
    bases = [kind for kind in kinds if not any(kind in subclass.__mro__[1:] for subclass in kinds)]
    return type("TaskSettings", tuple(bases), {})


def registered_tasks() -> list[type]:
    """Returns the tasks that other packages have registered. Does not import the registry."""
    registry = sys.modules.get(f"{__package__}.registry")
    return [] if registry is None else list(registry._registered)


def readers() -> dict[str | None, Callable[[Any, str], Any]]:
    return {folder.TASK_NAME: folder.read for folder in _import_folders()}


def max_length_of(name: str | None) -> tuple[int, bool]:
    """Returns the default `max_length` of a task, and whether longer texts are always split."""
    (folder,) = (package for package in _import_folders() if name == package.TASK_NAME)
    are_split = not issubclass(folder.SETTINGS, LongTextSettings)
    return getattr(folder, "MAX_LENGTH", MAX_LENGTH), are_split


def reader_options() -> dict[str | None, set[str]]:
    """Returns, for each task, the `ExampleSource` fields that its reader supports."""
    return {folder.TASK_NAME: folder.READER_OPTIONS for folder in _import_folders()}


def reader_help() -> str:
    """Returns the help text about the input files of each `--task`."""
    task_help = [
        f"{folder.TASK_NAME} {folder.READS}" for folder in _import_folders() if folder.TASK_NAME
    ]
    notes = [folder.READER_NOTE for folder in _import_folders() if hasattr(folder, "READER_NOTE")]
    return " ".join([f"--task {'; '.join(task_help)}.", *notes])
