"""Named pre-training recipes: settings of published runs, one YAML file each."""

import functools
from pathlib import Path
from typing import Any

import yaml

from keras_bert_impl.utils.io.paths import local_path

_FOLDER = Path(__file__).parent


@functools.cache
def recipes() -> dict[str, dict[str, Any]]:
    """Returns a dict from recipe names to `PretrainSettings` fields. Do not modify the dict."""
    files = sorted(_FOLDER.glob("*.yaml"))
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in files}


def recipe_text(name: str) -> str:
    """Returns the text of a recipe, with its sources and the commands to run first."""
    return (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def model_file(name: str | Path) -> Path:
    """Returns the path of a `config.json`: a local file or, if not found, a file of a recipe."""
    path, recipe_path = local_path(name), _FOLDER / name
    return recipe_path if recipe_path.is_file() and not path.exists() else path
