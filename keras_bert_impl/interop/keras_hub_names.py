"""KerasHub's encoders in our terms: their arguments, and where their variables stand."""

import dataclasses
import math

import numpy as np

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.errors import InputError
from keras_bert_impl.interop.huggingface import encoder_tensors
from keras_bert_impl.interop.layouts.names import TensorName

_ARGUMENTS = {  # field of EncoderConfig -> argument of a backbone
    "vocabulary_size": "vocabulary_size",
    "num_layers": "num_layers",
    "num_heads": "num_heads",
    "hidden_dim": "hidden_dim",
    "intermediate_dim": "intermediate_dim",
    "dropout": "dropout",
    "max_length": "max_sequence_length",
}
_SEGMENTS = {"num_segments": "num_segments"}
_NO_MATTER = {"name", "trainable", "dtype"}  # arguments that do not change the arithmetic
# Fields that a backbone cannot state, and that do not change what it computes: the first is about
# new weights, the second is the tokenizer's, the third is said by the tensors.
_NOT_STATED = ("initializer_range", "pad_token_id", "use_pooler")
_BLOCK = {  # part of our block -> layer of KerasHub's
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
class Kind:
    """A class of KerasHub's backbones.

    Attributes:
        backbone: str, name of the class.
        tokenizer: str, name of the class of its tokenizer.
        arguments: dict. Field of `EncoderConfig` -> argument of the class.
        fixed: dict. Fields that the class has by its nature.
        tables: str. The layer that holds the embeddings, with a `/`, or nothing.
        projection: str. The layer after the embeddings, where there is one.
        has_pooler: bool.
        block: str. Name of the layer of a block, with a place for its number.
        tasks: dict. Suffix of a task's class -> head whose arithmetic is ours.
    """

    backbone: str
    tokenizer: str
    arguments: dict
    fixed: dict
    tables: str = ""
    projection: str = ""
    has_pooler: bool = True
    block: str = "transformer_layer_{}"
    tasks: tuple = ("classifier",)

    @property
    def architecture(self):
        return self.fixed["architecture"]

    @property
    def has_segments(self):
        return "num_segments" in self.arguments


def _roberta(prefix, architecture):
    # The rows of positions begin with the first token's, there are no segments.
    fixed = {"activation": "gelu", "layer_norm_epsilon": 1e-5, "num_segments": 1}
    return Kind(
        f"{prefix}Backbone",
        f"{prefix}Tokenizer",
        _ARGUMENTS,
        fixed | {"architecture": architecture, "pad_token_id": 1, "position_offset": 2},
        tables="embeddings/",
        has_pooler=False,
        tasks=("classifier", "masked_lm"),
    )


_KINDS = (
    Kind(
        "BertBackbone",
        "BertTokenizer",
        _ARGUMENTS | _SEGMENTS,
        {"architecture": "bert", "activation": "gelu_tanh"},
    ),
    _roberta("Roberta", "roberta"),
    _roberta("XLMRoberta", "xlm-roberta"),
    Kind(
        "AlbertBackbone",
        "AlbertTokenizer",
        _ARGUMENTS
        | _SEGMENTS
        | {"embedding_dim": "embedding_dim", "num_layer_groups": "num_groups"},
        {"architecture": "albert", "activation": "gelu_tanh"},
        projection="embedding_projection",
        block="group_{}_inner_layer_0",
    ),
    Kind(
        "DistilBertBackbone",
        "DistilBertTokenizer",
        _ARGUMENTS,
        {"architecture": "distilbert", "activation": "gelu", "num_segments": 0},
        tables="token_and_position_embedding/",
        has_pooler=False,
    ),
    Kind(
        "ElectraBackbone",
        "ElectraTokenizer",
        _ARGUMENTS | _SEGMENTS | {"vocabulary_size": "vocab_size", "embedding_dim": "embedding_dim"},
        {"architecture": "electra", "activation": "gelu_tanh"},
        projection="embeddings_projection",
        tasks=(),
    ),
)
KINDS = {kind.backbone: kind for kind in _KINDS}


def config_of(kind, arguments, source):
    """The `EncoderConfig` of a backbone.

    Args:
        kind: `Kind`.
        arguments: dict, what `get_config` of the backbone returns.
        source: what to call it in an error.

    Raises:
        InputError: an argument is missing, or is one that our encoder does not compute.
    """
    if arguments.get("num_inner_repetitions", 1) != 1:
        raise InputError(f"{source}: num_inner_repetitions must be 1.")
    stated = set(arguments) - _NO_MATTER - {"num_inner_repetitions"}
    for what, names in (
        ("is missing", set(kind.arguments.values()) - stated),
        ("is not supported", stated - set(kind.arguments.values())),
    ):
        if names:
            raise InputError(f"{source}: {', '.join(map(str, sorted(names)))} {what}.")
    fields = {ours: arguments[theirs] for ours, theirs in kind.arguments.items()}
    fields |= kind.fixed | {"attention_dropout": fields["dropout"], "use_pooler": kind.has_pooler}
    if kind.architecture == "electra" and fields["embedding_dim"] == fields["hidden_dim"]:
        fields["embedding_dim"] = None  # there is a map only where it is needed
    try:
        return EncoderConfig(**fields)
    except (InputError, TypeError) as error:
        raise InputError(f"{source}: {error}") from error


def arguments_of(config):
    """The class and the arguments of a backbone that computes what our encoder does.

    Args:
        config: `EncoderConfig`.

    Returns:
        (`Kind`, dict).

    Raises:
        InputError: there is no such backbone; names the fields.
    """
    kind = next((kind for kind in _KINDS if kind.architecture == config.architecture), None)
    if kind is None:
        raise InputError(
            f"KerasHub has no {config.architecture}; it has "
            f"{', '.join(kind.architecture for kind in _KINDS)}."
        )
    fields = config.to_dict()
    if config.architecture == "electra":
        fields["embedding_dim"] = config.embedding_dim or config.hidden_dim
    arguments = {theirs: fields[ours] for ours, theirs in kind.arguments.items()}
    there = config_of(kind, arguments, kind.backbone).to_dict()
    if kind.architecture in ("roberta", "xlm-roberta") and not config.num_segments:
        there["num_segments"] = 0  # a row of zeros for all tokens is none
    fields = config.to_dict()
    lost = [name for name in fields if there[name] != fields[name] and name not in _NOT_STATED]
    if kind.has_segments and not config.num_segments:
        lost.append("num_segments")
    if lost:
        raise InputError(
            f"KerasHub's {kind.backbone} cannot have {_listed(lost, fields)}; it would be "
            f"{_listed(lost, there)}, which Encoder.from_pretrained takes to read an encoder so."
        )
    return kind, arguments


def _listed(names, fields):
    return ", ".join(f"{name}={fields[name]!r}" for name in names)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a tensor stands in a model of KerasHub.

    Args:
        name: `TensorName`, of ours and of Hugging Face's.
        path: str, of KerasHub's variable: names of layers and of the variable; "" where KerasHub
            has none, and Hugging Face's tensor is rows of zeros.
        shape: tuple of int, of that variable.
        offset: int. Rows that Hugging Face's tensor has before KerasHub's.
    """

    name: TensorName
    path: str
    shape: tuple
    offset: int = 0

    @property
    def original_shape(self):
        """tuple of int. The shape of Hugging Face's tensor."""
        shape = self._flat
        return shape[::-1] if self.name.transpose else (shape[0] + self.offset, *shape[1:])

    @property
    def _flat(self):
        """The shape with all heads in one dimension."""
        if len(self.shape) == 3:
            hidden = math.isqrt(math.prod(self.shape))
            return hidden, hidden
        return (math.prod(self.shape),) if self.path.endswith("/bias") else self.shape

    def to_original(self, array):
        """Hugging Face's tensor of KerasHub's array."""
        array = array.reshape(self._flat)
        if self.offset:
            array = np.concatenate([np.zeros((self.offset, array.shape[1]), array.dtype), array])
        return array.T if self.name.transpose else array

    def from_original(self, array):
        """KerasHub's array of Hugging Face's tensor."""
        return (array.T if self.name.transpose else array[self.offset :]).reshape(self.shape)


def encoder_places(kind, config):
    """list of `Place` of all variables of a backbone."""
    places = []
    for name in encoder_tensors(dataclasses.replace(config, use_pooler=kind.has_pooler)):
        shape = _shape(name.variable, config)
        if "segment_embeddings" in name.variable and not kind.has_segments:
            places.append(Place(name, "", (0, shape[1]), offset=shape[0]))
        else:
            offset = config.position_offset if "position_embeddings" in name.variable else 0
            places.append(Place(name, _path(kind, name.variable), shape, offset))
    return places


def head_places(kind, config, names, num_classes):
    """list of `Place` of the variables of a head.

    Args:
        kind: `Kind`.
        config: `EncoderConfig`.
        names: list of `TensorName`.
        num_classes: int, of a classifier.
    """
    return [
        Place(name, _path(kind, name.variable), _shape(name.variable, config, num_classes))
        for name in names
    ]


def _path(kind, variable):
    """KerasHub's path of one of our variables."""
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
    """The shape that KerasHub has for one of our variables."""
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
