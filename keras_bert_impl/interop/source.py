"""A model in Hugging Face's terms, whatever its files are: configuration, and tensors by name."""

from keras_bert_impl.io.document import Document
from keras_bert_impl.io.errors import InputError

_DTYPES = ("F64", "F32", "F16", "BF16")
# Checkpoints converted from the first BERT code name the parameters of LayerNorm so.
_OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


class ModelSource:
    """A model in Hugging Face's terms, open for reading: `open_model` makes them.

    Args:
        path: `Path`, for messages, and where the tokenizer's files are.
        config: dict, as the content of a `config.json`.
        tensors: object with `path`, for messages; `header`, a dict of the name of each tensor to
            (dtype such as `"F32"`, shape); and `read(name)`, its array.

    Attributes:
        config: `Document`.
        adapter: `Adapter` of what was tuned, or None.
        prefix: str. What names of the encoder's tensors may begin with, in models with a head.
        task_path: `Path`. Where the files of a task are.
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
        """The shape of a tensor, or None where the checkpoint does not have it.

        Args:
            name: str, with or without the `prefix`.

        Raises:
            InputError: its numbers are of a type that cannot be read.
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
        """The array of a tensor, or None where the checkpoint does not have it.

        Args:
            name: str, with or without the `prefix`.
        """
        spelling = self._spelling(name)
        if spelling is None:
            return None
        self._read.add(spelling)
        return self._tensors.read(spelling)

    def unread(self):
        """Sorted names of the tensors that nobody asked for."""
        return sorted(set(self._tensors.header) - self._read)

    def _spelling(self, name):
        names = [name, f"{self.prefix}.{name}"]
        for new, old in _OLD_NAMES.items():
            if name.endswith(new):
                names += [spelling.replace(new, old) for spelling in tuple(names)]
        return next((known for known in names if known in self._tensors.header), None)
