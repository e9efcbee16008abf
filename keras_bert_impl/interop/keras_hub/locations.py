"""Maps variables of KerasHub models to Hugging Face tensors."""

import dataclasses
import math

import numpy as np

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.interop.huggingface import encoder_tensors
from keras_bert_impl.interop.keras_hub.names import Kind
from keras_bert_impl.interop.layouts.names import TensorName

_BLOCK = {  # part of our block -> KerasHub layer
    "attention/query": "self_attention_layer/query",
    "attention/key": "self_attention_layer/key",
    "attention/value": "self_attention_layer/value",
    "attention/output": "self_attention_layer/attention_output",
    "attention_layer_norm": "self_attention_layer_norm",
    "intermediate": "feedforward_intermediate_dense",
    "output": "feedforward_output_dense",
    "output_layer_norm": "feedforward_layer_norm",
}
_HEADS = {
    "masked_lm/dense": "mlm_head/intermediate_dense",
    "masked_lm/layer_norm": "mlm_head/intermediate_layer_norm",
    "masked_lm": "mlm_head",
    "classifier/transform": "pooled_dense",
    "classifier/dense": "logits",
}


@dataclasses.dataclass(frozen=True)
class Location:
    """Location of a tensor in a KerasHub model.

    Args:
        name: Maps our variable to the Hugging Face tensor.
        path: KerasHub variable path of layer names and variable name; "" if KerasHub has no such
            variable, and the Hugging Face tensor is rows of zeros.
        shape: Shape of the KerasHub variable.
        offset: Number of rows in the Hugging Face tensor before KerasHub's.
    """

    name: TensorName
    path: str
    shape: tuple[int, ...]
    offset: int = 0

    @property
    def original_shape(self) -> tuple[int, ...]:
        """Shape of the Hugging Face tensor."""
        shape = self._flat
        return shape[::-1] if self.name.transpose else (shape[0] + self.offset, *shape[1:])

    @property
    def _flat(self) -> tuple[int, ...]:
        """Shape with all attention heads in one dimension."""
        if len(self.shape) == 3:
            hidden = math.isqrt(math.prod(self.shape))
            return hidden, hidden
        return (math.prod(self.shape),) if self.path.endswith("/bias") else self.shape

    def to_original(self, array: np.ndarray) -> np.ndarray:
        """Converts a KerasHub array to the Hugging Face tensor."""
        array = array.reshape(self._flat)
        if self.offset:
            array = np.concatenate([np.zeros((self.offset, array.shape[1]), array.dtype), array])
        return array.T if self.name.transpose else array

    def from_original(self, array: np.ndarray) -> np.ndarray:
        """Converts a Hugging Face tensor to the KerasHub array."""
        return (array.T if self.name.transpose else array[self.offset :]).reshape(self.shape)


def encoder_locations(kind: Kind, config: EncoderConfig) -> list[Location]:
    """Returns a list of the `Location` of every variable in a backbone."""
    locations = []
    for name in encoder_tensors(dataclasses.replace(config, use_pooler=kind.has_pooler)):
        shape = _shape(name.variable, config)
        if "segment_embeddings" in name.variable and not kind.has_segments:
            locations.append(Location(name, "", (0, shape[1]), offset=shape[0]))
        else:
            offset = config.position_offset if "position_embeddings" in name.variable else 0
            locations.append(Location(name, _path(kind, name.variable), shape, offset))
    return locations


def head_locations(
    kind: Kind, config: EncoderConfig, names: list[TensorName], num_classes: int
) -> list[Location]:
    """Returns a list of the `Location` of every variable in a head."""
    return [
        Location(name, _path(kind, name.variable), _shape(name.variable, config, num_classes))
        for name in names
    ]


def _path(kind, variable):
    """Returns the KerasHub path of one of our variables."""
    if variable.startswith("layer_"):
        layer, part = variable.split("/", 1)
        part, last = part.rsplit("/", 1)
        block = kind.block.format(layer.removeprefix("layer_"))
        return f"{block}/{_BLOCK[part]}/{last}"
    layer, last = variable.rsplit("/", 1)
    if last.endswith("_embeddings"):
        tables = "" if last == "segment_embeddings" else kind.tables
        return f"{tables}{last.removesuffix('s')}/embeddings"
    layers = {
        "embeddings/layer_norm": "embeddings_layer_norm",
        "embeddings/projection": kind.projection,
        "pooler/dense": "pooled_dense",
    }
    return f"{(layers | _HEADS)[layer]}/{last}"


def _shape(variable, config, num_classes=0):
    """Returns the KerasHub shape of one of our variables."""
    hidden, heads = config.hidden_dim, config.num_heads
    width = config.embedding_dim or hidden
    layer, last = variable.rsplit("/", 1)
    part = layer.split("/", 1)[1] if layer.startswith("layer_") else layer
    tables = {
        "token_embeddings": (config.vocabulary_size, width),
        "position_embeddings": (config.max_length, width),
        "segment_embeddings": (config.num_segments, width),
        "output_bias": (config.vocabulary_size,),
    }
    kernels = {
        "attention/output": (heads, hidden // heads, hidden),
        "intermediate": (hidden, config.intermediate_dim),
        "output": (config.intermediate_dim, hidden),
        "embeddings/projection": (width, hidden),
        "pooler/dense": (hidden, hidden),
        "masked_lm/dense": (hidden, width),
        "classifier/transform": (hidden, hidden),
        "classifier/dense": (hidden, num_classes),
    }
    by_head = {f"attention/{name}": (heads, hidden // heads) for name in ("query", "key", "value")}
    if last in tables:
        return tables[last]
    if last in ("gamma", "beta"):
        return (width if part in ("embeddings/layer_norm", "masked_lm/layer_norm") else hidden,)
    if part in by_head:
        return (hidden, *by_head[part]) if last == "kernel" else by_head[part]
    return kernels[part] if last == "kernel" else kernels[part][-1:]
