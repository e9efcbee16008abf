"""Configurations of encoders and adapters."""

import dataclasses
import difflib
from typing import Annotated, Any

from keras_bert_impl.checkpoints.published import MODELS, published_name
from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.first_guesses import known_arguments
from keras_bert_impl.utils.settings import (
    NonNegativeInt,
    OneOf,
    PositiveFloat,
    PositiveInt,
    Rate,
    validate,
)

# Adapter kind -> default learning rate of the adapter weights.
ADAPTER_RATES = {
    "lora": 1e-3,
    "houlsby": 5e-4,
    "pfeiffer": 5e-4,
    "prefix": 5e-3,
    "prompt": 3e-2,
}
# Adapter kind -> default learning rate of the pooler and head, if different.
HEAD_RATES = {"prefix": 1e-3, "prompt": 1e-3}
ADAPTER_KINDS = tuple(ADAPTER_RATES)
_SIZES = {"lora": 4, "houlsby": 64, "pfeiffer": 64, "prefix": 20, "prompt": 20}
PROJECTIONS = ("query", "key", "value", "attention_output", "intermediate", "gate", "output")


@known_arguments("Adapter")
@dataclasses.dataclass(frozen=True)
class Adapter:
    """Configuration of an adapter for parameter-efficient fine-tuning.

    Args:
        kind: `"lora"`: a low-rank product added to some weight matrices of the blocks. `"houlsby"`:
            a residual bottleneck network after the attention and after the feed-forward layer of
            each block, before the residual connection of the block. `"pfeiffer"`: only the network
            after the feed-forward layer. `"prefix"`: trained keys and values prepended to the keys
            and values of each attention layer. `"prompt"`: trained vectors prepended to the
            embeddings. A task model initializes these vectors with embeddings of common words.
        size: LoRA rank (default 4), bottleneck width (default 64) or number of vectors (default
            20).
        alpha: The LoRA product is multiplied by `alpha / size`.
        dropout: Dropout rate, in [0, 1), on the inputs of the LoRA product.
        projections: Matrices with LoRA, from `PROJECTIONS`. `"gate"` has no effect in blocks
            without gates.
        activation: `"gelu"`, `"relu"` or `"silu"`, in the bottleneck. Default: gelu for
            `"houlsby"`, relu for `"pfeiffer"`.
        after_norm: For `"pfeiffer"`: whether the bottleneck network is placed after the residual
            connection and its layer normalization, as in AdapterHub's files. Requires an encoder
            with `pre_norm=False`.

    Blocks that share weights, as in ALBERT, also share adapter weights.

    Raises:
        InputError: a value is invalid.

    Source: Hu et al. 2021 (arXiv:2106.09685), section 4; Houlsby et al. 2019 (arXiv:1902.00751),
    section 2; Pfeiffer et al. 2021 (arXiv:2005.00247), for the position after the feed-forward
    layer; Li & Liang 2021 (arXiv:2101.00190), without the reparameterization network; Lester et
    al. 2021 (arXiv:2104.08691), section 2.

    Example:
        TextClassifier.from_pretrained("model", num_classes=2, adapter=Adapter("lora"))
    """

    kind: Annotated[str, OneOf(*ADAPTER_KINDS)]
    size: PositiveInt | None = None
    alpha: PositiveFloat = 16.0
    dropout: Rate = 0.0
    projections: tuple[Annotated[str, OneOf(*PROJECTIONS)], ...] = PROJECTIONS
    activation: Annotated[str, OneOf("gelu", "relu", "silu")] | None = None
    after_norm: bool = False

    def __post_init__(self) -> None:
        validate(self)
        if self.after_norm and self.kind != "pfeiffer":
            raise InputError(f"after_norm requires a pfeiffer adapter, not {self.kind}.")
        if self.size is None:
            object.__setattr__(self, "size", _SIZES[self.kind])

    @classmethod
    def of(cls, value: Any, source: str = "adapter") -> "Adapter | None":
        """Converts a dict of fields to an `Adapter`; returns an `Adapter` or None unchanged.

        Args:
            value: a dict, an `Adapter` or None.
            source: name of the setting, for error messages.

        Raises:
            InputError: The value has the wrong type or invalid fields.
        """
        if value is None or isinstance(value, cls):
            return value
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(value, dict) or not {"kind"} <= set(value) <= set(names):
            odd = sorted(set(value) - set(names)) if isinstance(value, dict) else value
            raise InputError(
                f"{source} must be an Adapter, or a dict of its fields ({', '.join(names)}); kind "
                f"is required. Received: {shown(odd)}"
            )
        try:
            return cls(**value)
        except (InputError, TypeError) as error:
            raise InputError(f"{source}: {error}") from error

    @property
    def num_virtual_tokens(self) -> int:
        """Number of vectors prepended to the embeddings."""
        return self.size if self.kind == "prompt" else 0


_ACTIVATIONS = ("gelu", "gelu_tanh", "relu")
_POOLINGS = ("cls", "mean")
ARCHITECTURES = (
    "bert",
    "roberta",
    "xlm-roberta",
    "camembert",
    "albert",
    "distilbert",
    "electra",
    "flaubert",
    "xlm",
    "modernbert",
    "longformer",
    "big_bird",
    "gpt2",
)


@known_arguments("EncoderConfig")
@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """Configuration of an encoder.

    Args:
        vocabulary_size: Number of tokens in the vocabulary.
        hidden_dim: Width of every layer's input and output.
        num_layers: Number of transformer blocks.
        num_heads: Number of attention heads in each block; must divide `hidden_dim`.
        intermediate_dim: Width of the feed-forward layer, usually `4 * hidden_dim`.
        max_length: Maximum sequence length in tokens.
        num_segments: Number of segment (token type) embeddings; 0 for none. In XLM, segments are
            languages.
        activation: `"gelu"` (exact), `"gelu_tanh"` or `"relu"`.
        dropout: Dropout rate, in [0, 1), after the embeddings and after each sub-layer.
        attention_dropout: Dropout rate, in [0, 1), on the attention weights.
        layer_norm_epsilon: Added to the variance in layer normalization.
        initializer_range: Standard deviation of the truncated normal initializer.
        pad_token_id: Id of the `[PAD]` token.
        use_pooler: Whether to apply a tanh dense layer to the output of `pooling`.
        architecture: One of `ARCHITECTURES`. Determines the layers of the task heads and the names
            of the tensors in files. The other fields determine the layers of the encoder.
        embedding_dim: Width of the embeddings, which a linear layer projects to `hidden_dim`. If
            None, the width is `hidden_dim` and there is no projection.
        position_offset: Index of the position embedding of the first token. If `position_offset` is
            not 0, padding tokens are not counted and use the index `position_offset - 1`.
        num_layer_groups: Number of groups of consecutive layers that share weights. All groups have
            the same size. None if no layers share weights.
        pre_norm: Whether a block normalizes its inputs instead of its outputs.
        final_norm: Whether to normalize the outputs of the last block. Requires `pre_norm`. If
            `final_norm` and `embedding_norm` are True, the attention inputs of the first block are
            not normalized again.
        embedding_norm: Whether to normalize the embeddings. False requires `pre_norm`.
        pooling: Source of `pooled_output`: `"cls"`, the last hidden state of the first token, or
            `"mean"`, the mean of the last hidden states of all tokens except padding.
        use_bias: Whether the encoder's dense and normalization layers have a bias.
        gated: Whether the feed-forward layer multiplies its activation by a second linear
            projection of the inputs.
        rotary_base: Base of the rotary position embedding of queries and keys. None for learned
            position embeddings.
        global_every: The first of every `global_every` blocks attends to the whole sequence; the
            others use local attention.
        window: Number of tokens visible on each side in local attention; None if no block is local.
        max_global_tokens: Maximum number of global tokens per sequence; only for Longformer. All
            blocks use local attention. Global tokens attend to all tokens, and all tokens attend to
            global tokens. None for other architectures.
        local_rotary_base: Base of the rotary position embedding in blocks with local attention.
            None to use `rotary_base`.
        block_size: Number of tokens in a block of block-sparse attention, for BigBird only. None
            for full attention.
        num_random_blocks: Number of random blocks that each block attends to in training. Only for
            block-sparse attention; see `BigBirdAttention`.
        causal: Whether a token attends only to itself and earlier tokens.
        adapter: `Adapter`, or a dict of its fields, for parameter-efficient fine-tuning.

    Raises:
        InputError: a value or a combination of values is invalid.

    Source: Devlin et al., "BERT", section 3 and appendix A; `final_norm` and later fields: Warner
    et al. 2024 (arXiv:2412.13663), section 2.1; `max_global_tokens`: `LongformerAttention`;
    `block_size`: `BigBirdAttention`.

    Example:
        >>> EncoderConfig.named("bert-base-uncased").hidden_dim
        768
    """

    vocabulary_size: PositiveInt
    hidden_dim: PositiveInt
    num_layers: PositiveInt
    num_heads: PositiveInt
    intermediate_dim: PositiveInt
    max_length: PositiveInt = 512
    num_segments: NonNegativeInt = 2
    activation: Annotated[str, OneOf(*_ACTIVATIONS)] = "gelu"
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.1
    layer_norm_epsilon: PositiveFloat = 1e-12
    initializer_range: PositiveFloat = 0.02
    pad_token_id: NonNegativeInt = 0
    use_pooler: bool = True
    architecture: Annotated[str, OneOf(*ARCHITECTURES)] = "bert"
    embedding_dim: PositiveInt | None = None
    position_offset: NonNegativeInt = 0
    num_layer_groups: PositiveInt | None = None
    pre_norm: bool = False
    final_norm: bool = False
    embedding_norm: bool = True
    pooling: Annotated[str, OneOf(*_POOLINGS)] = "cls"
    use_bias: bool = True
    gated: bool = False
    rotary_base: PositiveFloat | None = None
    global_every: PositiveInt = 1
    window: PositiveInt | None = None
    local_rotary_base: PositiveFloat | None = None
    causal: bool = False
    max_global_tokens: PositiveInt | None = None
    block_size: PositiveInt | None = None
    num_random_blocks: PositiveInt = 3
    adapter: Adapter | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "adapter", Adapter.of(self.adapter))
        validate(self)
        if self.pad_token_id >= self.vocabulary_size:
            rule = "pad_token_id must be less than vocabulary_size"
            raise self._make_error(rule, "pad_token_id", "vocabulary_size")
        if self.num_layers % (self.num_layer_groups or 1):
            rule = "num_layers must be a multiple of num_layer_groups"
            raise self._make_error(rule, "num_layers", "num_layer_groups")
        if self.hidden_dim % self.num_heads:
            rule = "hidden_dim must be a multiple of num_heads"
            raise self._make_error(rule, "hidden_dim", "num_heads")
        if self.pre_norm and self.adapter is not None and self.adapter.after_norm:
            raise InputError("an adapter with after_norm requires an encoder with pre_norm=False.")
        if self.final_norm and not self.pre_norm:
            raise InputError("final_norm=True requires pre_norm=True.")
        if not (self.embedding_norm or self.pre_norm):
            raise InputError("embedding_norm=False requires pre_norm=True.")
        self._check_positions()

    def _check_positions(self) -> None:
        if self.rotary_base is not None:
            if self.position_offset or self.hidden_dim // self.num_heads % 2:
                raise InputError(
                    "rotary_base requires an even hidden_dim / num_heads, and position_offset=0."
                )
        if self.local_rotary_base is not None:
            if self.rotary_base is None or self.window is None:
                raise InputError("local_rotary_base requires rotary_base and window.")
        if (self.architecture == "longformer") != (self.max_global_tokens is not None):
            rule = (
                "max_global_tokens is required for a longformer, and not allowed for other "
                "architectures"
            )
            raise self._make_error(rule, "architecture", "max_global_tokens")
        if self.max_global_tokens is not None:
            self._check_longformer()
        elif (self.window is None) != (self.global_every == 1):
            rule = "window requires global_every > 1, and global_every > 1 requires window"
            raise self._make_error(rule, "window", "global_every")
        self._check_block_size()
        if self.window is not None and self.num_layer_groups is not None:
            raise InputError("num_layer_groups and window cannot be used together.")

    def _check_longformer(self) -> None:
        if self.window is None or self.global_every != 1 or self.rotary_base is not None:
            rule = "a longformer requires window, global_every=1 and learned position embeddings"
            raise self._make_error(rule, "window", "global_every", "rotary_base")
        self._check_sparse("a longformer")

    def _check_block_size(self) -> None:
        if self.block_size is None:
            return
        names = ("window", "rotary_base", "num_layer_groups")
        if self.architecture != "big_bird" or any(getattr(self, name) for name in names):
            rule = f"block_size requires the architecture big_bird, without {', '.join(names)}"
            raise self._make_error(rule, "architecture", *names)
        self._check_sparse("an encoder with a block_size")

    def _check_sparse(self, model: str) -> None:
        if self.causal:
            raise InputError(f"{model} cannot be causal.")
        if self.adapter is not None and self.adapter.kind in ("prefix", "prompt"):
            raise InputError(
                f"{model} does not support {self.adapter.kind} adapters. Use lora, houlsby or pfeiffer."
            )

    def _make_error(self, rule: str, *names: str) -> InputError:
        values = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return InputError(f"{rule}. Received: {values}")

    @property
    def pooled_by(self) -> str:
        """`"last"` for a causal ModernBERT, `pooling` for other encoders.

        `"last"` is the last hidden state of the last token before padding, as in
        `ModernBertDecoderForSequenceClassification`.
        """
        return "last" if self.causal and self.architecture == "modernbert" else self.pooling

    @property
    def has_pair_segments(self) -> bool:
        """Whether the second text of a pair has segment id 1. In XLM, segments are languages."""
        return self.num_segments != 1 and self.architecture != "xlm"

    def has_attention_norm(self, index: int) -> bool:
        """Returns whether the block at this index normalizes the inputs of its attention."""
        return index > 0 or not (self.final_norm and self.embedding_norm)

    def is_local(self, index: int) -> bool:
        """Returns whether the block at this index uses local attention."""
        return self.max_global_tokens is not None or index % self.global_every != 0

    def rotary_base_of(self, index: int) -> float | None:
        """Returns the rotary base of the block at this index, or None for learned positions."""
        if self.is_local(index) and self.local_rotary_base is not None:
            return self.local_rotary_base
        return self.rotary_base

    @classmethod
    def named(cls, name: str, **overrides: Any) -> "EncoderConfig":
        """Creates the configuration of a published model; `overrides` replaces fields.

        `keras-bert models` lists the names. `owner/name` is also accepted.

        Raises:
            InputError: no published model has that name.
        """
        published = published_name(name)
        if published is None:
            near = difflib.get_close_matches(name, MODELS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise InputError(f"No published model is named {name!r}.{hint}")
        return cls(**MODELS[published].fields | overrides)

    def num_parameters(self) -> int:
        """Returns the number of parameters with the pooler, but without the adapter."""
        hidden, inner = self.hidden_dim, self.intermediate_dim
        width = self.embedding_dim or hidden
        rows = self.vocabulary_size + self.num_segments
        if self.rotary_base is None:
            rows += self.max_length + self.position_offset

        def count_dense(inputs, outputs):
            return (inputs + self.use_bias) * outputs

        def count_norm(width):
            return (1 + self.use_bias) * width

        embeddings = rows * width + self.embedding_norm * count_norm(width)
        if self.embedding_dim:
            embeddings += count_dense(width, hidden)
        projections = 4 if self.max_global_tokens is None else 7
        attention = projections * count_dense(hidden, hidden)
        feed_forward = (1 + self.gated) * count_dense(hidden, inner) + count_dense(inner, hidden)
        blocks = self.num_layer_groups or self.num_layers
        blocks *= attention + feed_forward + 2 * count_norm(hidden)
        # Usually, the final normalization replaces the attention normalization of the first block.
        blocks += (self.final_norm and not self.embedding_norm) * count_norm(hidden)
        pooler = hidden * hidden + hidden if self.use_pooler else 0
        return embeddings + blocks + pooler

    def to_dict(self) -> dict[str, Any]:
        """Returns a dict of all fields; `EncoderConfig(**d)` creates an equal configuration."""
        return dataclasses.asdict(self)
