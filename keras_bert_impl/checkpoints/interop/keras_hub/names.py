"""Names of KerasHub's backbones, arguments, variables and heads."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop.huggingface import (
    classifier_dropout_key,
    encoder_tensors,
    head_tensors,
    huggingface_config,
)
from keras_bert_impl.checkpoints.interop.layouts.bert import READ, TensorName
from keras_bert_impl.checkpoints.interop.source import Tensors
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import Document

_ARGUMENTS = {  # field of `EncoderConfig` -> argument of the backbone
    "vocabulary_size": "vocabulary_size",
    "num_layers": "num_layers",
    "num_heads": "num_heads",
    "hidden_dim": "hidden_dim",
    "intermediate_dim": "intermediate_dim",
    "dropout": "dropout",
    "max_length": "max_sequence_length",
}
_SEGMENTS = {"num_segments": "num_segments"}
_EMBEDDINGS = {"embedding_dim": "embedding_dim"}
_NO_MATTER = {"name", "trainable", "dtype"}  # Arguments that do not change the computation.
# Fields that no backbone has and that do not change its outputs. The first affects only new
# weights, the second belongs to the tokenizer, and the third follows from the tensors.
_NOT_STATED = ("initializer_range", "pad_token_id", "use_pooler")


@dataclasses.dataclass(frozen=True)
class Kind:
    """A KerasHub backbone class.

    Attributes:
        prefix: Start of the class names, such as `Bert` in `BertBackbone` and `BertMaskedLM`.
        arguments: Constructor arguments of the class, keyed by `EncoderConfig` field.
        fixed: `EncoderConfig` fields for which the class supports only one value, and this value.
        tables: Path prefix of the token and position embeddings, such as `embeddings/`.
        projection: Layer that projects the embeddings; empty without a projection.
        has_pooler: Whether the class has a pooler.
        block: Layer name of a block, with a placeholder for its number.
        tasks: Heads for which KerasHub has a task with the same outputs as in this package.
    """

    prefix: str
    arguments: dict[str, str]
    fixed: dict[str, Any]
    tables: str = ""
    projection: str = ""
    has_pooler: bool = True
    block: str = "transformer_layer_{}"
    tasks: tuple[str, ...] = ("classifier",)

    @property
    def backbone(self) -> str:
        return f"{self.prefix}Backbone"

    @property
    def architecture(self) -> str:
        return self.fixed["architecture"]

    @property
    def has_segments(self) -> bool:
        return "num_segments" in self.arguments


def _create_roberta(prefix, architecture):
    # Position embeddings start at 0, and there are no segment embeddings.
    fixed = {"activation": "gelu", "layer_norm_epsilon": 1e-5, "num_segments": 1}
    return Kind(
        prefix,
        _ARGUMENTS,
        fixed | {"architecture": architecture, "pad_token_id": 1, "position_offset": 2},
        tables="embeddings/",
        has_pooler=False,
        tasks=("classifier", "masked_lm"),
    )


_TANH = {"activation": "gelu_tanh"}
_KINDS = (
    Kind("Bert", _ARGUMENTS | _SEGMENTS, _TANH | {"architecture": "bert"}),
    _create_roberta("Roberta", "roberta"),
    _create_roberta("XLMRoberta", "xlm-roberta"),
    Kind(
        "Albert",
        _ARGUMENTS | _SEGMENTS | _EMBEDDINGS | {"num_layer_groups": "num_groups"},
        _TANH | {"architecture": "albert"},
        projection="embedding_projection",
        block="group_{}_inner_layer_0",
    ),
    Kind(
        "DistilBert",
        _ARGUMENTS,
        {"architecture": "distilbert", "activation": "gelu", "num_segments": 0},
        tables="token_and_position_embedding/",
        has_pooler=False,
    ),
    Kind(
        "Electra",
        _ARGUMENTS | _SEGMENTS | _EMBEDDINGS | {"vocabulary_size": "vocab_size"},
        _TANH | {"architecture": "electra"},
        projection="embeddings_projection",
        tasks=(),
    ),
)
KINDS = {kind.backbone: kind for kind in _KINDS}


def config_of(kind: Kind, stated: dict[str, Any], source: str | Path) -> EncoderConfig:
    arguments = Document(stated, source, "config.")
    if arguments.integer("num_inner_repetitions", 1) != 1:
        raise InputError(f"{source}: num_inner_repetitions must be 1.")
    names, supported = (
        set(stated) - _NO_MATTER - {"num_inner_repetitions"},
        set(kind.arguments.values()),
    )
    for problem, wrong in (("missing", supported - names), ("not supported", names - supported)):
        if wrong:
            listed = ", ".join(f"{name:.60}" for name in sorted(wrong)[:20])
            raise InputError(f"{source}: {listed} is {problem}.")
    fields = {
        ours: READ.get(ours, READ[None])(arguments, theirs)
        for ours, theirs in kind.arguments.items()
    }
    fields |= kind.fixed | {"attention_dropout": fields["dropout"], "use_pooler": kind.has_pooler}
    if kind.architecture == "electra" and fields["embedding_dim"] == fields["hidden_dim"]:
        fields["embedding_dim"] = None  # There is no projection if the dimensions are equal.
    try:
        return EncoderConfig(**fields)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def arguments_of(config: EncoderConfig) -> tuple[Kind, dict[str, Any]]:
    """Returns the equivalent backbone class of an encoder, and its arguments."""
    kind = next((kind for kind in _KINDS if kind.architecture == config.architecture), None)
    if kind is None:
        raise InputError(
            f"KerasHub has no {config.architecture} backbone, only "
            f"{', '.join(kind.architecture for kind in _KINDS)}."
        )
    fields = config.to_dict()
    if config.architecture == "electra":
        fields["embedding_dim"] = config.embedding_dim or config.hidden_dim
    arguments = {theirs: fields[ours] for ours, theirs in kind.arguments.items()}
    there = config_of(kind, arguments, kind.backbone).to_dict()
    if kind.architecture in ("roberta", "xlm-roberta") and not config.num_segments:
        there["num_segments"] = 0  # A row of zeros does not change the outputs.
    fields = config.to_dict()
    lost = [name for name in fields if there[name] != fields[name] and name not in _NOT_STATED]
    if kind.has_segments and not config.num_segments:
        lost.append("num_segments")
    if lost:
        command = f", or add --activation {there['activation']} to keras-bert convert"
        raise InputError(
            f"KerasHub's {kind.backbone} does not support {_format_fields(lost, fields)}. To use "
            f"{_format_fields(lost, there)} instead, pass this to Encoder.from_pretrained"
            f"{command if lost == ['activation'] else ''}."
        )
    return kind, arguments


def _format_fields(names, fields):
    return ", ".join(f"{name}={fields[name]!r}" for name in names)


_BLOCK = {  # layer in a block of this package -> KerasHub layer
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
        name: Variable path in this package, and name of the Hugging Face tensor.
        path: Path of the KerasHub variable (layer names and variable name). If KerasHub has no such
            variable, the path is "", and the Hugging Face tensor is all zeros.
        shape: Shape of the KerasHub variable.
        offset: Number of rows at the start of the Hugging Face tensor that KerasHub does not store.
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
        # KerasHub's attention has separate dimensions for the heads and their width.
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
    locations = []
    for name in encoder_tensors(dataclasses.replace(config, use_pooler=kind.has_pooler)):
        shape = _compute_shape(name.variable, config)
        if "segment_embeddings" in name.variable and not kind.has_segments:
            locations.append(Location(name, "", (0, shape[1]), offset=shape[0]))
        else:
            offset = config.position_offset if "position_embeddings" in name.variable else 0
            locations.append(Location(name, _find_path(kind, name.variable), shape, offset))
    return locations


def head_locations(
    kind: Kind, config: EncoderConfig, names: list[TensorName], num_classes: int
) -> list[Location]:
    return [
        Location(
            name,
            _find_path(kind, name.variable),
            _compute_shape(name.variable, config, num_classes),
        )
        for name in names
    ]


def _find_path(kind, variable):
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


def _compute_shape(variable, config, num_classes=0):
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


# Class name suffix -> head; old presets use the last suffix.
_TASKS = {"TextClassifier": "classifier", "MaskedLM": "masked_lm", "Classifier": "classifier"}
# Keys of `config.json` that KerasHub's files do not support. They are stored in task.json, where
# KerasHub ignores them.
NOTES = ("id2label", "label2id", "problem_type")


class Head:
    """A KerasHub task head, or the reason why there is no equivalent."""

    def __init__(
        self, kind: Kind, config: EncoderConfig, task: str, arguments: dict[str, Any]
    ) -> None:
        is_of_kind = task.startswith(kind.prefix)
        self.name = _TASKS.get(task.removeprefix(kind.prefix)) if is_of_kind else None
        self.task, self.arguments = task, arguments
        self.locations: list[Location] = []
        self.reason = self._find_difference(kind, config, task, arguments)
        head_settings: dict[str, Any] = {}
        if self.reason:
            self.name = None
        else:
            num_classes = arguments.get("num_classes", 0)
            names = head_tensors(config, self.name)
            self.locations = head_locations(kind, config, names, num_classes)
            if self.name == "classifier":
                head_settings = {
                    "id2label": {str(i): f"LABEL_{i}" for i in range(num_classes)},
                    "label2id": {f"LABEL_{i}": i for i in range(num_classes)},
                    classifier_dropout_key(config): arguments.get("dropout"),
                }
        self.config = huggingface_config(config, self.name, **head_settings)

    def _find_difference(
        self, kind: Kind, config: EncoderConfig, task: str, arguments: dict[str, Any]
    ) -> str | None:
        if self.name is None:
            return f"{task} has no supported head"
        if self.name not in kind.tasks:
            return f"the head of {task} uses a different GELU or epsilon than the encoder"
        if self.name == "masked_lm":
            return None
        if arguments.get("activation") not in (None, "linear"):
            return f"{task} has an activation on its logits: {arguments['activation']!r:.60}"
        if arguments.get("hidden_dim", config.hidden_dim) != config.hidden_dim:
            return f"{task} has hidden_dim={arguments['hidden_dim']!r:.60}, not the encoder's"
        classes, dropout = arguments.get("num_classes"), arguments.get("dropout")
        if type(classes) is not int or not 0 < classes < 1 << 20:
            return f"{task} has num_classes={classes!r:.60}"
        if type(dropout) not in (int, float) or not 0 <= dropout < 1:
            return f"{task} has dropout={dropout!r:.60}"
        return None


def head_of(
    kind: Kind, config: EncoderConfig, described: dict[str, Any], tensors: Tensors
) -> Head | None:
    """Returns the KerasHub task head for a model directory, or None if it has no head."""
    for end, name in _TASKS.items():
        classes = huggingface_config(config, name)["architectures"]
        names = [tensor.tensor for tensor in head_tensors(config, name)]
        if described.get("architectures") != classes or not set(names) <= set(tensors):
            continue
        arguments: dict[str, Any] = {}
        if name == "classifier":
            dropout = described.get(classifier_dropout_key(config))
            arguments["num_classes"] = len(tensors[names[-1]])  # The last tensor is the bias.
            arguments["dropout"] = config.dropout if dropout is None else dropout
        return Head(kind, config, kind.prefix + end, arguments)
    return None
