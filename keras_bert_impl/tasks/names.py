"""What the folders of the tasks declare for the command line; imports nothing heavy."""

import functools
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType


@functools.cache
def _folders() -> list[ModuleType]:
    """Returns the packages of the tasks that read labeled examples; see `base.options`."""
    folders = pkgutil.iter_modules([Path(__file__).parent], f"{__package__}.")
    packages = [importlib.import_module(folder.name) for folder in folders if folder.ispkg]
    return [package for package in packages if hasattr(package, "TASK_NAME")]


def task_names() -> list[str]:
    """Returns the names of the built-in tasks that read their own file formats."""
    return [folder.TASK_NAME for folder in _folders() if folder.TASK_NAME]


def reader_options() -> dict[str | None, set[str]]:
    """Returns the fields of `ExampleSource` that the reader of each task takes, beside the files."""
    return {folder.TASK_NAME: folder.READER_OPTIONS for folder in _folders()}


def reader_help() -> str:
    """Returns sentences on what each `--task` reads."""
    of_tasks = [f"{folder.TASK_NAME} {folder.READS}" for folder in _folders() if folder.TASK_NAME]
    notes = [folder.READER_NOTE for folder in _folders() if hasattr(folder, "READER_NOTE")]
    return " ".join([f"--task {'; '.join(of_tasks)}.", *notes])
