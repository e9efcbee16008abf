"""Named recipes of pre-training: the settings of published runs, a YAML file each."""

import functools
from pathlib import Path

import yaml

_FOLDER = Path(__file__).parent


@functools.cache
def recipes():
    """The recipes that come with the package.

    Returns:
        dict of name to dict of fields of `PretrainSettings`; do not change it.

    Example:
        pretrain("records", "run", **recipes()["electra_small"])
    """
    files = sorted(_FOLDER.glob("*.yaml"))
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in files}


def recipe_text(name):
    """str. The file of a recipe, with its sources and the commands that go before it."""
    return (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def model_file(name):
    """`Path` of a `config.json`: the one named, or where there is none, one that recipes name.

    A copy of a recipe so finds its model from any folder.
    """
    path, own = Path(name), _FOLDER / name
    return own if own.is_file() and not path.exists() else path
