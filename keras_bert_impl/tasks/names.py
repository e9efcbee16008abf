"""Names of the tasks for `--task`; imports nothing heavy, for the command line's help."""

import importlib
import pkgutil
from pathlib import Path


def task_names() -> list[str]:
    """Returns the names of the built-in tasks that read their own file formats."""
    folders = pkgutil.iter_modules([Path(__file__).parent], f"{__package__}.")
    packages = [importlib.import_module(folder.name) for folder in folders if folder.ispkg]
    return [package.TASK_NAME for package in packages if hasattr(package, "TASK_NAME")]
