"""A model with Hugging Face configuration keys and tensor names, whatever its file format."""

from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np

from keras_bert_impl.adapter import Adapter
from keras_bert_impl.io.document import Document
from keras_bert_impl.io.errors import InputError

Tensors: TypeAlias = dict[str, np.ndarray]  # by name
# The supported dtypes, and their names in a header.
DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
# Checkpoints converted from the original BERT code use these names for LayerNorm parameters.
_OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


class TensorFile(Protocol):
    """Tensors that are read one at a time, whatever their file format."""

    path: Path
    header: dict[str, tuple[str, tuple[int, ...]]]

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor of the header as an array, which may be mapped; see `io.mapping`."""


class ModelSource:
    """A model with Hugging Face keys and names, opened for reading by `open_model`.

    Args:
        path: Directory of the tokenizer's files; also used in error messages.
        config: The content of a `config.json`.
        tensors: Tensors under their Hugging Face names.

    Attributes:
        adapter: `Adapter` of fine-tuned weights, or None.
        prefix: Optional prefix of the encoder's tensor names, found in models with a head.
        task_path: Directory of the task's files.
    """

    def __init__(self, path: Path, config: dict, tensors: TensorFile) -> None:
        self.path = self.task_path = path
        self.config = Document(config, f"{path}/config.json")
        self.adapter: Adapter | None = None
        self.prefix = "bert"
        self._tensors = tensors
        self._read: set[str] = set()

    def __len__(self) -> int:
        return len(self._tensors.header)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Returns the shape of a tensor, named with or without the prefix, or None.

        Rejects dtypes that are not supported.
        """
        spelling = self._spelling(name)
        if spelling is None:
            return None
        dtype, shape = self._tensors.header[spelling]
        if dtype not in DTYPES.values():
            raise InputError(
                f"{self._tensors.path}: tensor {spelling} has dtype {dtype}; "
                f"supported are {', '.join(DTYPES.values())}."
            )
        return shape

    def read(self, name: str) -> np.ndarray | None:
        """Returns a tensor, named with or without the prefix, or None.

        The array may be a read-only part of the file: copy what has to outlive it.
        """
        spelling = self._spelling(name)
        if spelling is None:
            return None
        self._read.add(spelling)
        return self._tensors.read(spelling)

    def unread(self) -> list[str]:
        """Returns the sorted names of the tensors that have not been read."""
        return sorted(set(self._tensors.header) - self._read)

    def _spelling(self, name: str) -> str | None:
        names = [name, f"{self.prefix}.{name}"]
        for new, old in _OLD_NAMES.items():
            if name.endswith(new):
                names += [spelling.replace(new, old) for spelling in tuple(names)]
        return next((known for known in names if known in self._tensors.header), None)
