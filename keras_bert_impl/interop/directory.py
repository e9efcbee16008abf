"""A model directory: `config.json` and `model.safetensors`."""

import json
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from keras_bert_impl.errors import InputError

_WEIGHTS = "model.safetensors"
# Checkpoints converted from the first BERT code name the parameters of LayerNorm so.
_OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


class ModelDirectory:
    """A directory in the Hugging Face layout, open for reading; no code in it is run.

    Args:
        path: str or `Path`.

    Attributes:
        config: dict, the content of `config.json`.

    Raises:
        InputError: no such directory, a missing or damaged file.
    """

    def __init__(self, path):
        self.path = Path(path)
        if not self.path.is_dir():
            raise InputError(f"{self.path} is not a directory with a model in it.")
        self.config = self._read_config()
        weights = self.path / _WEIGHTS
        if not weights.is_file():
            raise InputError(f"{self.path} has no {_WEIGHTS}.")
        try:
            self._file = safetensors.safe_open(weights, framework="np")
        except (safetensors.SafetensorError, OSError) as error:
            raise InputError(f"{weights} is damaged: {error}.") from error
        self._names = set(self._file.keys())
        self._read = set()

    def _read_config(self):
        path = self.path / "config.json"
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise InputError(f"{self.path} has no config.json.") from error
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise InputError(f"{path} is not valid JSON: {error}.") from error
        if not isinstance(config, dict):
            raise InputError(f"{path} must hold one JSON object.")
        return config

    def read(self, name):
        """The array of a tensor, or None where the checkpoint does not have it.

        Args:
            name: str, with or without the prefix `bert.` that models with heads have.
        """
        for candidate in _spellings(name):
            if candidate in self._names:
                self._read.add(candidate)
                return self._file.get_tensor(candidate)
        return None

    def unread(self):
        """Sorted names of the tensors that nobody asked for."""
        return sorted(self._names - self._read)


def _spellings(name):
    names = [name, f"bert.{name}"]
    for new, old in _OLD_NAMES.items():
        if name.endswith(new):
            names += [spelling.replace(new, old) for spelling in tuple(names)]
    return names


def write_model_directory(directory, config, tensors):
    """Writes `config.json` and `model.safetensors`.

    Args:
        directory: `Path` of an existing directory.
        config: dict for `config.json`.
        tensors: dict of name to numpy array.
    """
    directory = Path(directory)
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (directory / "config.json").write_text(text, encoding="utf-8")
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    # `transformers` refuses a file that does not say whose conventions the names follow.
    safetensors.numpy.save_file(tensors, directory / _WEIGHTS, metadata={"format": "pt"})
