"""Converts TensorFlow and Flax tensor names to PyTorch tensor names.

For example, one matrix of a BERT model has these names and shapes:

    bert.encoder.layer.0.output.dense.weight                   [out, in]  PyTorch
    tf_bert_model/bert/encoder/layer_._0/output/dense/kernel:0 [in, out]  TensorFlow
    bert/encoder/layer/0/output/dense/kernel                   [in, out]  Flax

The start of a name, such as `tf_bert_model/bert/`, depends on how the model was saved. Tensors are
therefore identified by the end of their names.
"""

import math
import re

import numpy as np

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop.huggingface import (
    all_tensors,
    encoder_config,
    tied_tensors,
)
from keras_bert_impl.checkpoints.interop.keras_files import stated_settings
from keras_bert_impl.checkpoints.interop.keras_names import Library, library_of, with_ranks
from keras_bert_impl.checkpoints.interop.layouts import LAYOUTS, layout_of
from keras_bert_impl.checkpoints.interop.source import TensorFile
from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.reading import Document

_OTHERS = re.compile(r".*[/.](kernel|embeddings?|scale|vars/0)(:0)?")
_LAST = {"kernel": "weight", "embedding": "weight", "embeddings": "weight"}
_LAST |= {"gamma": "weight", "scale": "weight", "beta": "bias", "vars/0": "weight"}
_LAST |= {"vars/1": "bias"}
# A `.weights.h5` file contains attribute and class names instead of layer names.
_ATTRIBUTES = {"self_attention": "self", "dense_output": "output", "bert_output": "output"}
_IN_A_LIST = re.compile(r"tf_?\w+_(?:layer|layer_group|block)(?:_(\d+))?")
_MATRIX = re.compile(r".*(kernel|_W[qkvo12]|(?<!/embeddings)/vars/0)")
_SEGMENTS = "embeddings.token_type_embeddings.weight"
# prefixes of DataParallel, torch.compile and Lightning
_WRAPPERS = re.compile(r"(module\.|_orig_mod\.|model\.)+")
_OF_THE_RUN = re.compile(r"optimizer(_weights)?/")


def renamed(config: Document, file: TensorFile) -> tuple[dict, TensorFile]:
    """Returns (content of a `config.json`, tensors under their PyTorch names).

    The class name is inferred from the tensor names, because `config.json` may still contain the
    class of the model before fine-tuning.
    """
    # A PyTorch file may also contain a Keras layer.
    is_pytorch = any(name.endswith(".weight") for name in file.header)
    if is_pytorch or not any(_OTHERS.fullmatch(name) for name in file.header):
        return config, _remove_wrapper(config, file)
    library = library_of(file.header)
    stated = dict(config)
    for key, value in library.settings.items() if library else ():
        if key != "hidden_act" or config.get(key, "gelu") == "gelu":
            stated[key] = value
    if library is not None:
        stated |= stated_settings(file.path, library)
    encoder = encoder_config(stated, config.source)
    places = {place for stored in file.header for place in stored.split("/")[:2]}
    words = {re.sub(r"_\d+$", "", place).replace("_", "") for place in places}
    classes = layout_of(encoder).classes.values()
    class_names = [name for name in classes if f"tf{name.lower()}" in words]
    if len(set(class_names)) == 1:
        stated["architectures"] = class_names[:1]
    return stated, RenamedTensors(file, encoder, library)


def _remove_wrapper(config, file):
    """Removes prefixes such as `module.`, which wrappers of PyTorch add to all names."""
    layout = LAYOUTS.get(config.get("model_type", "bert"))
    table = layout.token_embeddings if layout else ""
    names = [name for name in file.header if f".{name}".endswith(f".{table}")]
    prefix = names[0].removesuffix(table).removesuffix(f"{layout.prefix}.") if names else ""
    if len(names) != 1 or not prefix:
        return file
    if not _WRAPPERS.fullmatch(prefix) or not all(n.startswith(prefix) for n in file.header):
        raise InputError(
            f"{file.path}: the encoder's tensors have the prefix {shown(prefix)}, and not all other "
            "tensors have it. Save only the state dict of the encoder or of the model with its head."
        )
    return Unwrapped(file, prefix)


class Unwrapped:
    """A `TensorFile` without a prefix that all names have."""

    def __init__(self, file: TensorFile, prefix: str) -> None:
        self.path, self._file, self._prefix = file.path, file, prefix
        self.header = {name.removeprefix(prefix): file.header[name] for name in file.header}

    def read(self, name: str) -> np.ndarray:
        return self._file.read(self._prefix + name)


class RenamedTensors:
    """The tensors of a file under their PyTorch names, as a `TensorFile`.

    Tensors that belong neither to the encoder nor to a head keep their names.
    """

    def __init__(self, file: TensorFile, config: EncoderConfig, library: Library | None) -> None:
        self.path = file.path
        self._file = file
        self._stored: dict[str, str] = {}
        names_by_parts = _index_names(config, library)
        for stored, name in with_ranks(file.header).items():
            # Scalars are the state of metrics.
            if file.header[stored][1] and not _OF_THE_RUN.match(stored):
                self._add(_find_name(name, names_by_parts) or stored, stored)
        if not set(names_by_parts.values()) & set(self._stored):
            some = ", ".join(map(shown, [*file.header][:5]))
            raise InputError(
                f"{file.path} contains no {config.architecture} encoder. Found: {some}."
            )
        for copy, name in tied_tensors(config).items():
            # ALBERT in TensorFlow adds this bias to the logits, and does not use `decoder/bias`.
            if copy in self._stored and copy.endswith("bias"):
                self._stored[name] = self._stored.pop(copy)
        self.header = {name: self._describe_tensor(stored) for name, stored in self._stored.items()}
        if library and config.num_segments and _SEGMENTS not in self.header:
            # bert-for-tf2 does not save this table if the model was called without segments.
            self.header[_SEGMENTS] = "F32", (config.num_segments, config.hidden_dim)

    def _add(self, name, stored):
        first = self._stored.setdefault(name, stored)
        # Keras saves a shared variable once for each layer.
        if first != stored and not np.array_equal(self._file.read(first), self._file.read(stored)):
            raise InputError(
                f"{self.path}: {shown(first)} and {shown(stored)} both represent {shown(name)}, "
                "but differ; a file with two encoders is not supported."
            )

    def read(self, name: str) -> np.ndarray:
        if name not in self._stored:
            return np.zeros(self.header[name][1], "float32")
        stored = self._stored[name]
        array = self._file.read(stored).reshape(_merge_heads(stored, self._file.header[stored][1]))
        return array.T if _is_matrix(stored) else array

    def _describe_tensor(self, stored):
        dtype, shape = self._file.header[stored]
        shape = _merge_heads(stored, shape)
        return dtype, shape[::-1] if _is_matrix(stored) else shape


def _index_names(config, library):
    """Returns {`_split_name` of a name: PyTorch name}."""
    encoder, heads = all_tensors(config)
    names = [*encoder, *heads]
    names_by_parts = {
        _split_name(name): name for name in (*(n.tensor for n in names), *tied_tensors(config))
    }
    # In a `.weights.h5` file, the embedding layer has tokens, segments and positions in this order.
    tables = {n.variable: n.tensor for n in encoder if n.variable.startswith("embeddings/")}
    kinds = [f"embeddings/{kind}_embeddings" for kind in ("token", "segment", "position")]
    for number, kind in enumerate(kind for kind in kinds if kind in tables):
        names_by_parts.setdefault(_split_name(f"embeddings/vars/{number}"), tables[kind])
    for name in names if library else ():
        spelling = library.spelling(name.variable)
        if spelling is not None:
            names_by_parts[_split_name(spelling)] = name.tensor
    return names_by_parts


def _find_name(stored, names_by_parts):
    parts = _split_name(stored)
    return next(
        (names_by_parts[end] for n in range(len(parts)) if (end := parts[n:]) in names_by_parts),
        None,
    )


def _split_name(name):
    """Splits a TensorFlow or Flax name; the names of one variable give equal parts."""
    name = name.removesuffix(":0").replace("/vars/", "/vars\\")
    *places, last = re.split(r"/|\.|_\._", name)
    last = last.replace("\\", "/")
    # For a masked LM, TensorFlow has `mlm___cls` instead of `cls`. Flax adds `layers` to ALBERT's
    # groups.
    places = [place.rpartition("___")[2] for place in places if place != "layers"]
    return (*map(_convert_place, places), _LAST.get(last, last))


def _convert_place(place):
    match = _IN_A_LIST.fullmatch(place)
    return (match[1] or "0") if match else _ATTRIBUTES.get(place, place)


def _is_matrix(stored):
    return bool(_MATRIX.fullmatch(stored.removesuffix(":0")))


def _merge_heads(stored, shape):
    """Merges the number and the width of the attention heads into one dimension of a shape."""
    if len(shape) == 2 and stored.removesuffix(":0").endswith("/bias"):
        return (math.prod(shape),)  # GPT-2 in TensorFlow has biases of shape [1, width].
    if "attention" not in stored or len(shape) != 3 - (not _is_matrix(stored)):
        return shape
    if not _is_matrix(stored):
        return (math.prod(shape),)
    is_output = "attention_output" in stored
    first, *widths = (math.prod(shape[:2]), shape[2]) if is_output else (shape[0], *shape[1:])
    return (first, math.prod(widths))
