"""Names of tasks as `--task` has them; imports nothing heavy, for the command line's help."""

import importlib
import pkgutil
from pathlib import Path


def task_names() -> list[str]:
    """The names of the tasks of this package that read files of their own."""
    folders = pkgutil.iter_modules([Path(__file__).parent], f"{__package__}.")
    packages = [importlib.import_module(folder.name) for folder in folders if folder.ispkg]
    return [package.TASK_NAME for package in packages if hasattr(package, "TASK_NAME")]
