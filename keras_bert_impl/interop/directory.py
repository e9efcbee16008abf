"""A model directory: `config.json` and `model.safetensors`."""

import json
import shutil
from pathlib import Path

import ml_dtypes  # noqa: F401 - makes numpy know bfloat16
import numpy as np
import safetensors
import safetensors.numpy

from keras_bert_impl.errors import InputError
from keras_bert_impl.interop.keras_hub_preset import is_preset, open_preset

_WEIGHTS = "model.safetensors"
_DTYPES = ("F64", "F32", "F16", "BF16")
# Checkpoints converted from the first BERT code name the parameters of LayerNorm so.
_OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


class ModelDirectory:
    """A directory in the Hugging Face layout, open for reading; no code in it is run.

    Args:
        path: str or `Path`.

    Attributes:
        config: dict, the content of `config.json`.
        prefix: str. What names of the encoder's tensors may begin with, in models with a head.

    Raises:
        InputError: no such directory, a missing or damaged file.
    """

    def __init__(self, path):
        self.path = Path(path)
        if not self.path.is_dir():
            raise InputError(f"{self.path} is not a directory with a model in it.")
        self.config = self._read_config()
        if is_preset(self.config):
            self.config, self._tensors = open_preset(self.path)
            self._weights, self._header = self.path, self._tensors.header
        else:
            self._tensors = None
            self._weights = self.path / _WEIGHTS
            self._header = self._read_header()
        self._read = set()
        self.prefix = "bert"

    @classmethod
    def from_parts(cls, config, tensors):
        """What another library has in memory, as if it were in such a directory.

        Args:
            config: dict, as in a `config.json`.
            tensors: object with `path`, `header` and `read`, such as `KerasHubTensors`.
        """
        directory = cls.__new__(cls)
        directory.path = directory._weights = tensors.path
        directory.config, directory._tensors = config, tensors
        directory._header = tensors.header
        directory._read, directory.prefix = set(), "bert"
        return directory

    def __len__(self):
        return len(self._header)

    def _read_config(self):
        path = self.path / "config.json"
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise InputError(f"{self.path} has no config.json.") from error
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}.") from error
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"{path} is not valid JSON: {error}.") from error
        if not isinstance(config, dict):
            raise InputError(f"{path} must hold one JSON object.")
        return config

    def _read_header(self):
        """Dtypes and shapes of all tensors by name, before anything is allocated for them."""
        if not self._weights.is_file():
            raise InputError(f"{self.path} has no {_WEIGHTS}.")
        try:
            with safetensors.safe_open(self._weights, framework="np") as file:
                slices = {name: file.get_slice(name) for name in file.keys()}
                return {
                    name: (tensor.get_dtype(), tuple(tensor.get_shape()))
                    for name, tensor in slices.items()
                }
        except (safetensors.SafetensorError, OSError) as error:
            raise InputError(f"{self._weights} is damaged: {error}.") from error

    def shape(self, name):
        """The shape of a tensor, or None where the checkpoint does not have it.

        Args:
            name: str, with or without the `prefix`.

        Raises:
            InputError: its numbers are of a type that cannot be read.
        """
        spelling = self._spelling(name)
        if spelling is None:
            return None
        dtype, shape = self._header[spelling]
        if dtype not in _DTYPES:
            raise InputError(
                f"{self._weights}: tensor {spelling} has dtype {dtype}; "
                f"supported are {', '.join(_DTYPES)}."
            )
        return shape

    def read(self, name):
        """The array of a tensor, or None where the checkpoint does not have it.

        Args:
            name: str, with or without the `prefix`.
        """
        spelling = self._spelling(name)
        if spelling is None:
            return None
        self._read.add(spelling)
        if self._tensors is not None:
            return self._tensors.read(spelling)
        # Opened for each tensor: the pages of a mapped file count as memory until it is closed.
        with safetensors.safe_open(self._weights, framework="np") as file:
            return file.get_tensor(spelling)

    def unread(self):
        """Sorted names of the tensors that nobody asked for."""
        return sorted(set(self._header) - self._read)

    def _spelling(self, name):
        names = [name, f"{self.prefix}.{name}"]
        for new, old in _OLD_NAMES.items():
            if name.endswith(new):
                names += [spelling.replace(new, old) for spelling in tuple(names)]
        return next((known for known in names if known in self._header), None)


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
    try:
        # `transformers` refuses a file that does not say whose conventions the names follow.
        safetensors.numpy.save_file(tensors, directory / _WEIGHTS, metadata={"format": "pt"})
    except safetensors.SafetensorError as error:  # also for a full disk
        raise InputError(f"cannot write {_WEIGHTS}: {error}.") from error
    # The library makes a file that only its owner can read.
    shutil.copymode(directory / "config.json", directory / _WEIGHTS)
