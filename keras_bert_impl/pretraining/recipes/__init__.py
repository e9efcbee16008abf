"""Named recipes of pre-training: the settings of published runs, a YAML file each."""

import functools
from pathlib import Path

import yaml

_FOLDER = Path(__file__).parent


@functools.cache
def recipes():
    """The recipes that come with the package.

    Returns:
        dict of name to dict of fields of `PretrainSettings`; do not change it. A model that is a
        `config.json` of the package is a path to it.

    Example:
        pretrain("records", "run", **recipes()["electra_small"])
    """
    return {path.stem: _read(path) for path in sorted(_FOLDER.glob("*.yaml"))}


def recipe_text(name):
    """str. The file of a recipe, with its sources and the commands that go before it."""
    return (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def _read(path):
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    if values["model"].endswith(".json"):
        values["model"] = str(path.with_name(values["model"]))
    return values
