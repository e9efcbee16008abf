"""Maps KerasHub backbone classes and their arguments to `EncoderConfig`."""

import dataclasses

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
_NO_MATTER = {"name", "trainable", "dtype"}  # arguments that do not change the computation
# Fields that a backbone cannot state and that do not change its computation: the first applies to
# new weights, the second is the tokenizer's, the third follows from the tensors.
_NOT_STATED = ("initializer_range", "pad_token_id", "use_pooler")


@dataclasses.dataclass(frozen=True)
class Kind:
    """A KerasHub backbone class.

    Attributes:
        backbone: str. Name of the class.
        tokenizer: str. Name of its tokenizer class.
        arguments: dict. Field of `EncoderConfig` -> argument of the class.
        fixed: dict. Fields with a fixed value in this class.
        tables: str. Layer that holds the embeddings, ending in `/`, or an empty string.
        projection: str. Layer that projects the embeddings, if any.
        has_pooler: bool. Whether the class has a pooler.
        block: str. Layer name of a block, with a placeholder for its number.
        tasks: tuple of str. Task heads that are computed the same way as ours.
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
    # The position rows begin with the first token's, and there are no segments.
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
        _ARGUMENTS
        | _SEGMENTS
        | {"vocabulary_size": "vocab_size", "embedding_dim": "embedding_dim"},
        {"architecture": "electra", "activation": "gelu_tanh"},
        projection="embeddings_projection",
        tasks=(),
    ),
)
KINDS = {kind.backbone: kind for kind in _KINDS}


def config_of(kind, arguments, source):
    """Creates the `EncoderConfig` of a backbone.

    Args:
        kind: `Kind`.
        arguments: dict returned by the backbone's `get_config`.
        source: name of the backbone in error messages.

    Raises:
        InputError: an argument is missing or not supported by our encoder.
    """
    arguments = Document(arguments, source, "config.")
    if arguments.integer("num_inner_repetitions", 1) != 1:
        raise InputError(f"{source}: num_inner_repetitions must be 1.")
    stated = set(arguments) - _NO_MATTER - {"num_inner_repetitions"}
    for what, names in (
        ("is missing", set(kind.arguments.values()) - stated),
        ("is not supported", stated - set(kind.arguments.values())),
    ):
        if names:
            names = ", ".join(f"{name:.60}" for name in sorted(names)[:20])
            raise InputError(f"{source}: {names} {what}.")
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


def arguments_of(config):
    """Finds the backbone class and arguments that compute the same as our encoder.

    Args:
        config: `EncoderConfig`.

    Returns:
        (`Kind`, dict).

    Raises:
        InputError: no backbone supports the configuration; names the fields.
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
        there["num_segments"] = 0  # adding a row of zeros to all tokens changes nothing
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
