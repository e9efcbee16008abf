"""Tensors with TensorFlow's or Flax's names, under PyTorch's names.

The three spell the same places differently. This matrix of a BERT is stored as

    bert.encoder.layer.0.output.dense.weight                   [out, in]  PyTorch
    tf_bert_model/bert/encoder/layer_._0/output/dense/kernel:0 [in, out]  TensorFlow
    bert/encoder/layer/0/output/dense/kernel                   [in, out]  Flax

What comes first depends on the model that was saved: its name, names of models around it, or
nothing. A tensor is therefore recognized by the end of its name.
"""

import re

import numpy as np

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.interop.huggingface import all_tensors, encoder_config, tied_tensors
from keras_bert_impl.interop.layouts import layout_of
from keras_bert_impl.interop.source import TensorFile
from keras_bert_impl.io.errors import InputError, shown
from keras_bert_impl.io.reading import Document

_LAST = {"kernel": "weight", "embedding": "weight", "embeddings": "weight"}
_LAST |= {"gamma": "weight", "scale": "weight", "beta": "bias"}
_OTHERS = re.compile(r".*[/.](kernel|embeddings?|scale)(:0)?")


def renamed(config: Document, file: TensorFile) -> tuple[dict, TensorFile]:
    """Returns the content of a `config.json`, and its tensors under PyTorch's names.

    TensorFlow's names of tensors begin with the class of the saved model. `transformers` did not
    always write this class to the configuration, but that of the model before fine-tuning.
    """
    if not any(_OTHERS.fullmatch(name) for name in file.header):
        return config, file
    encoder = encoder_config(config, config.source)
    places = {place for stored in file.header for place in stored.split("/")[:2]}
    words = {re.sub(r"_\d+$", "", place).replace("_", "") for place in places}
    classes = layout_of(encoder).classes.values()
    found = {name for name in classes if f"tf{name.lower()}" in words}
    stated = {"architectures": [*found]} if len(found) == 1 else {}
    return {**config, **stated}, RenamedTensors(file, encoder)


class RenamedTensors:
    """The tensors of a file under PyTorch's names, as a `TensorFile`.

    Tensors that belong neither to the encoder nor to a head keep the name they have in the file.
    """

    def __init__(self, file: TensorFile, config: EncoderConfig) -> None:
        self.path = file.path
        self._file = file
        self._stored: dict[str, str] = {}
        encoder, heads = all_tensors(config)
        copies = tied_tensors(config)
        known = {_parts(name): name for name in (*(n.tensor for n in (*encoder, *heads)), *copies)}
        for stored in file.header:
            self._add(_name(stored, known), stored)
        if not any(name.tensor in self._stored for name in encoder):
            some = ", ".join(map(shown, [*file.header][:5]))
            raise InputError(f"{file.path} has no {config.architecture} encoder, but {some}.")
        for copy, name in copies.items():
            # TensorFlow's ALBERT adds this bias to the logits, and never uses the other.
            if copy in self._stored and copy.endswith("bias"):
                self._stored[name] = self._stored.pop(copy)
        self.header = {name: self._entry(stored) for name, stored in self._stored.items()}

    def _add(self, name, stored):
        other = self._stored.setdefault(name, stored)
        # Keras writes what layers share with each of them.
        if other != stored and not np.array_equal(self._file.read(other), self._file.read(stored)):
            raise InputError(
                f"{self.path}: {shown(other)} and {shown(stored)} are both {shown(name)}, but "
                "differ; a file with two encoders is not supported."
            )

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor as an array."""
        stored = self._stored[name]
        array = self._file.read(stored)
        return array.T if _is_transposed(stored) else array

    def _entry(self, stored):
        dtype, shape = self._file.header[stored]
        return dtype, shape[::-1] if _is_transposed(stored) else shape


def _name(stored, known):
    parts = _parts(stored)
    return next((known[end] for n in range(len(parts)) if (end := parts[n:]) in known), stored)


def _parts(name):
    """Splits a name into the parts that all spellings have in common."""
    *places, last = re.split(r"/|\.|_\._", name.removesuffix(":0"))
    # TensorFlow has `mlm___cls` for the `cls` of a masked LM, and Flax `layers` in ALBERT's groups.
    places = [place.rpartition("___")[2] for place in places if place != "layers"]
    return (*places, _LAST.get(last, last))


def _is_transposed(stored):
    return stored.removesuffix(":0").endswith("kernel")
