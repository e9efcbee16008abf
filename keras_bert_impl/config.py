"""The configuration of an encoder."""

import dataclasses
import difflib
from typing import Annotated

from keras_bert_impl.adapter import Adapter
from keras_bert_impl.first_guesses import known_fields
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.published import MODELS
from keras_bert_impl.settings import (
    NonNegativeInt,
    OneOf,
    PositiveFloat,
    PositiveInt,
    Rate,
    validate,
)

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
    "modernbert",
)


@known_fields("EncoderConfig")
@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """Everything that decides the shape and the arithmetic of an encoder.

    Args:
        vocabulary_size: int. Number of word pieces.
        hidden_dim: int. Width of every layer's input and output.
        num_layers: int. Number of transformer blocks.
        num_heads: int. Attention heads of a block; divides `hidden_dim`.
        intermediate_dim: int. Width inside the feed-forward part, usually `4 * hidden_dim`.
        max_length: int. Longest sequence, in tokens, that has positions.
        num_segments: int. Number of segment (token type) embeddings; 0 for none.
        activation: str. `"gelu"` (exact), `"gelu_tanh"` or `"relu"`.
        dropout: float in [0, 1). Rate after the embeddings and after each sub-layer.
        attention_dropout: float in [0, 1). Rate on the attention weights.
        layer_norm_epsilon: float. Added to the variance in layer normalization.
        initializer_range: float. Standard deviation of the truncated normal initializer.
        pad_token_id: int. The id of `[PAD]`.
        use_pooler: bool. Whether there is a dense layer with tanh on what `pooling` makes.
        architecture: str, one of `ARCHITECTURES`. What decides the heads, and the names of the
            tensors in a model directory; the encoder itself follows from the other fields.
        embedding_dim: int. Width of the embeddings, from which a linear map leads to
            `hidden_dim`; None for embeddings of `hidden_dim` without a map.
        position_offset: int. Row of the position embeddings that the first token has. Where it
            is not 0, padding has the row before, and tokens are counted without the padding.
        num_layer_groups: int. Number of blocks with weights of their own, each of them used for
            as many layers in turn; None for one a layer.
        pre_norm: bool. Whether a block normalizes its inputs, and not its outputs.
        final_norm: bool. Whether, with `pre_norm`, the last block's outputs are normalized, and
            not the inputs of the first block's attention, which the embeddings have normalized.
        pooling: str. What `pooled_output` is made of: `"cls"`, the first token's last hidden
            state, or `"mean"`, the mean of those of the real tokens.
        use_bias: bool. Whether dense layers and normalizations of the encoder add a bias.
        gated: bool. Whether the feed-forward part multiplies its activation by a second map of
            its inputs.
        rotary_base: float. Base of the angles by which queries and keys are turned with their
            positions, in place of position embeddings; None for those.
        global_every: int. Of so many blocks in turn the first attends to the whole sequence, and
            the others are local.
        window: int. How many tokens to each side a token sees in local blocks; None if there are
            none.
        local_rotary_base: float. `rotary_base` of local blocks; None for the same.
        causal: bool. Whether a token sees only itself and those before it.
        adapter: `Adapter`, or a dict of its fields: weights that are added, and learn in place of
            the encoder's own; None for none.

    Raises:
        InputError: a value that no encoder can have.

    Source: Devlin et al., "BERT", section 3 and appendix A; from `final_norm` on: Warner et al.
    2024 (arXiv:2412.13663), section 2.1.

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
    pooling: Annotated[str, OneOf(*_POOLINGS)] = "cls"
    use_bias: bool = True
    gated: bool = False
    rotary_base: PositiveFloat | None = None
    global_every: PositiveInt = 1
    window: PositiveInt | None = None
    local_rotary_base: PositiveFloat | None = None
    causal: bool = False
    adapter: Adapter | None = None

    def __post_init__(self):
        object.__setattr__(self, "adapter", Adapter.of(self.adapter))
        validate(self)
        if self.pad_token_id >= self.vocabulary_size:
            raise InputError(
                "pad_token_id must be less than vocabulary_size. Received: "
                f"pad_token_id={self.pad_token_id}, vocabulary_size={self.vocabulary_size}"
            )
        if self.num_layers % (self.num_layer_groups or 1):
            raise InputError(
                "num_layers must be a multiple of num_layer_groups. Received: "
                f"num_layers={self.num_layers}, num_layer_groups={self.num_layer_groups}"
            )
        if self.hidden_dim % self.num_heads:
            raise InputError(
                "hidden_dim must be a multiple of num_heads. "
                f"Received: hidden_dim={self.hidden_dim}, num_heads={self.num_heads}"
            )
        if self.final_norm and not self.pre_norm:
            raise InputError("final_norm=True takes pre_norm=True.")
        self._check_positions()

    def _check_positions(self):
        if self.rotary_base is not None:
            if self.position_offset or self.hidden_dim // self.num_heads % 2:
                raise InputError("rotary_base takes heads of an even width and no position_offset.")
        if self.local_rotary_base is not None:
            if self.rotary_base is None or self.window is None:
                raise InputError("local_rotary_base takes a rotary_base and a window.")
        if (self.window is None) != (self.global_every == 1):
            raise InputError(
                "a window takes global_every of more than 1, and the other way around. "
                f"Received: window={self.window}, global_every={self.global_every}"
            )
        if self.window is not None and self.num_layer_groups is not None:
            raise InputError("num_layer_groups and a window cannot be had together.")

    @property
    def pooled_by(self):
        """str. `pooling`; of a causal ModernBERT `"last"`, the last real token's last hidden state,
        whatever `pooling` is, as in `ModernBertDecoderForSequenceClassification`."""
        return "last" if self.causal and self.architecture == "modernbert" else self.pooling

    def is_local(self, index):
        """bool. Whether the block with this number sees only the tokens within `window`."""
        return index % self.global_every != 0

    def rotary_base_of(self, index):
        """The base of rotary positions in the block with this number, or None."""
        if self.is_local(index) and self.local_rotary_base is not None:
            return self.local_rotary_base
        return self.rotary_base

    @classmethod
    def named(cls, name, **overrides):
        """The configuration of a published model; `keras-bert models` lists the names.

        Args:
            name: str, such as `"bert-base-uncased"`.
            **overrides: fields to change, such as `dropout=0.0`.

        Raises:
            InputError: no model has that name.
        """
        if name not in MODELS:
            near = difflib.get_close_matches(name, MODELS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise InputError(f"No published model is named {name!r}.{hint}")
        return cls(**MODELS[name].fields | overrides)

    def num_parameters(self):
        """int. Parameters of the encoder, with the pooler where it has one, and no adapter."""
        hidden, inner = self.hidden_dim, self.intermediate_dim
        width = self.embedding_dim or hidden
        rows = self.vocabulary_size + self.num_segments
        if self.rotary_base is None:
            rows += self.max_length + self.position_offset

        def dense(inputs, outputs):
            return (inputs + self.use_bias) * outputs

        def norm(width):
            return (1 + self.use_bias) * width

        embeddings = rows * width + norm(width)
        if self.embedding_dim:
            embeddings += dense(width, hidden)
        attention = 4 * dense(hidden, hidden)
        feed_forward = (1 + self.gated) * dense(hidden, inner) + dense(inner, hidden)
        blocks = self.num_layer_groups or self.num_layers
        # A final normalization takes the place of the first.
        blocks *= attention + feed_forward + 2 * norm(hidden)
        pooler = hidden * hidden + hidden if self.use_pooler else 0
        return embeddings + blocks + pooler

    def to_dict(self):
        """dict of all fields; `EncoderConfig(**d)` makes an equal configuration."""
        return dataclasses.asdict(self)
