"""Maps KerasHub backbone classes and their arguments to `EncoderConfig`."""

import dataclasses
from pathlib import Path
from typing import Any

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.interop.layouts.bert import READ
from keras_bert_impl.io.document import Document
from keras_bert_impl.io.errors import InputError

_ARGUMENTS = {  # field of `EncoderConfig` -> backbone argument
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
_NO_MATTER = {"name", "trainable", "dtype"}  # arguments that do not change the computation
# Fields that a backbone cannot state and that do not change its computation: the first applies to
# new weights, the second is the tokenizer's, the third follows from the tensors.
_NOT_STATED = ("initializer_range", "pad_token_id", "use_pooler")


@dataclasses.dataclass(frozen=True)
class Kind:
    """A KerasHub backbone class.

    Attributes:
        prefix: Name of the class without `Backbone`; also begins the names of its tasks.
        arguments: Field of `EncoderConfig` -> argument of the class.
        fixed: Fields with a fixed value in this class.
        tables: Layer that holds the embeddings, ending in `/`, or an empty string.
        projection: Layer that projects the embeddings, if any.
        has_pooler: Whether the class has a pooler.
        block: Layer name of a block, with a placeholder for its number.
        tasks: Task heads that are computed the same way as ours.
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
        """Name of the class."""
        return f"{self.prefix}Backbone"

    @property
    def architecture(self) -> str:
        """`architecture` of its `EncoderConfig`."""
        return self.fixed["architecture"]

    @property
    def has_segments(self) -> bool:
        """Whether the class has segment embeddings."""
        return "num_segments" in self.arguments


def _roberta(prefix, architecture):
    # The position rows begin with the first token's, and there are no segments.
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
    _roberta("Roberta", "roberta"),
    _roberta("XLMRoberta", "xlm-roberta"),
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
    """Creates the `EncoderConfig` of a backbone from the result of its `get_config`."""
    arguments = Document(stated, source, "config.")
    if arguments.integer("num_inner_repetitions", 1) != 1:
        raise InputError(f"{source}: num_inner_repetitions must be 1.")
    names, known = (
        set(stated) - _NO_MATTER - {"num_inner_repetitions"},
        set(kind.arguments.values()),
    )
    for what, wrong in (("missing", known - names), ("not supported", names - known)):
        if wrong:
            listed = ", ".join(f"{name:.60}" for name in sorted(wrong)[:20])
            raise InputError(f"{source}: {listed} is {what}.")
    fields = {
        ours: READ.get(ours, READ[None])(arguments, theirs)
        for ours, theirs in kind.arguments.items()
    }
    fields |= kind.fixed | {"attention_dropout": fields["dropout"], "use_pooler": kind.has_pooler}
    if kind.architecture == "electra" and fields["embedding_dim"] == fields["hidden_dim"]:
        fields["embedding_dim"] = None  # the projection exists only if the widths differ
    try:
        return EncoderConfig(**fields)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def arguments_of(config: EncoderConfig) -> tuple[Kind, dict[str, Any]]:
    """Finds the backbone class and arguments that compute the same as our encoder."""
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
        there["num_segments"] = 0  # adding a row of zeros to all tokens changes nothing
    fields = config.to_dict()
    lost = [name for name in fields if there[name] != fields[name] and name not in _NOT_STATED]
    if kind.has_segments and not config.num_segments:
        lost.append("num_segments")
    if lost:
        command = f", or add --activation {there['activation']} to keras-bert convert"
        raise InputError(
            f"KerasHub's {kind.backbone} does not support {_listed(lost, fields)}. To use "
            f"{_listed(lost, there)} instead, pass it to Encoder.from_pretrained"
            f"{command if lost == ['activation'] else ''}."
        )
    return kind, arguments


def _listed(names, fields):
    return ", ".join(f"{name}={fields[name]!r}" for name in names)
