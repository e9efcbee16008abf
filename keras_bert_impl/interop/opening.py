"""Opens a model, in whatever form it is."""

from pathlib import Path

from keras_bert_impl.errors import InputError
from keras_bert_impl.interop.directory import ModelDirectory
from keras_bert_impl.interop.keras_hub import open_keras_hub
from keras_bert_impl.interop.keras_hub_preset import is_preset, open_preset
from keras_bert_impl.interop.tensor_files import open_tensors
from keras_bert_impl.reading import file_within, read_json


def open_model(name_or_path):
    """Opens a model for reading; no code in its files is run.

    Args:
        name_or_path: str or `Path` of a directory in the Hugging Face layout.

    Returns:
        `ModelDirectory`.

    Raises:
        InputError: no such directory, a missing or damaged file.
    """
    path = Path(name_or_path)
    if not path.is_dir():
        raise InputError(f"{path} is not a directory with a model in it.")
    config = file_within(path, "config.json")
    if not config.exists():
        raise InputError(f"{path} has no config.json.")
    config = read_json(config)
    if is_preset(config):
        return ModelDirectory(path, *open_preset(path))
    return ModelDirectory(path, config, open_tensors(path))


def open_keras_hub_model(model):
    """The same for a backbone or task of KerasHub; see `interop.keras_hub.open_keras_hub`."""
    config, tensors = open_keras_hub(model)
    return ModelDirectory(tensors.path, config, tensors)
