"""Opens a model, in whatever form it is."""

from pathlib import Path

from keras_bert_impl.errors import InputError
from keras_bert_impl.interop.directory import ModelDirectory
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
    return ModelDirectory(path, read_json(config), open_tensors(path))
