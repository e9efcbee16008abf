"""A model with Hugging Face configuration keys and tensor names, whatever its file format."""

from keras_bert_impl.io.document import Document
from keras_bert_impl.io.errors import InputError

_DTYPES = ("F64", "F32", "F16", "BF16")
# Checkpoints converted from the original BERT code use these names for LayerNorm parameters.
_OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


class ModelSource:
    """A model with Hugging Face keys and names, opened for reading by `open_model`.

    Args:
        path: `Path` of the tokenizer's files; also used in error messages.
        config: dict with the content of a `config.json`.
        tensors: object with the attributes `path`, for error messages, and `header`, a dict of
            tensor names to (dtype such as `"F32"`, shape), and the method `read(name)`, which
            returns an array.

    Attributes:
        config: `Document`.
        adapter: `Adapter` of fine-tuned weights, or None.
        prefix: str. Optional prefix of the encoder's tensor names, found in models with a head.
        task_path: `Path` of the task's files.
    """

    def __init__(self, path, config, tensors):
        self.path = self.task_path = path
        self.config = Document(config, f"{path}/config.json")
        self._tensors = tensors
        self._read = set()
        self.adapter = None
        self.prefix = "bert"

    def __len__(self):
        return len(self._tensors.header)

    def shape(self, name):
        """Returns the shape of a tensor, or None if the checkpoint lacks it.

        Args:
            name: str. Tensor name with or without the `prefix`.

        Raises:
            InputError: the tensor's dtype is not supported.
        """
        spelling = self._spelling(name)
        if spelling is None:
            return None
        dtype, shape = self._tensors.header[spelling]
        if dtype not in _DTYPES:
            raise InputError(
                f"{self._tensors.path}: tensor {spelling} has dtype {dtype}; "
                f"supported are {', '.join(_DTYPES)}."
            )
        return shape

    def read(self, name):
        """Returns a tensor as an array, or None if the checkpoint lacks it.

        Args:
            name: str. Tensor name with or without the `prefix`.
        """
        spelling = self._spelling(name)
        if spelling is None:
            return None
        self._read.add(spelling)
        return self._tensors.read(spelling)

    def unread(self):
        """Returns the sorted names of the tensors that have not been read."""
        return sorted(set(self._tensors.header) - self._read)

    def _spelling(self, name):
        names = [name, f"{self.prefix}.{name}"]
        for new, old in _OLD_NAMES.items():
            if name.endswith(new):
                names += [spelling.replace(new, old) for spelling in tuple(names)]
        return next((known for known in names if known in self._tensors.header), None)
