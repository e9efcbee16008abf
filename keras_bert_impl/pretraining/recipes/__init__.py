"""Named pre-training recipes: settings of published runs, one YAML file each."""

import functools
from pathlib import Path

import yaml

_FOLDER = Path(__file__).parent


@functools.cache
def recipes():
    """Returns the recipes that come with the package.

    Returns:
        dict of name to a dict of `PretrainSettings` fields. Do not modify it.

    Example:
        from keras_bert_impl.pretraining.recipes import recipes
        pretrain("records", "run", **recipes()["electra_small"])
    """
    files = sorted(_FOLDER.glob("*.yaml"))
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in files}


def recipe_text(name):
    """Returns the text of a recipe file, with its sources and the commands to run before it."""
    return (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def model_file(name):
    """Returns the `Path` of a `config.json`, falling back to the package's own recipe files.

    A copied recipe thus finds its model from any folder.
    """
    path, own = Path(name), _FOLDER / name
    return own if own.is_file() and not path.exists() else path
