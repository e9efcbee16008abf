"""Heads that map hidden states to logits. Logits are always float32.

On JAX, logits over a vocabulary may be returned as factors, to save memory.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import keras
from keras import ops

from keras_bert_impl.layers.adapters import freeze_parts
from keras_bert_impl.layers.basic import (
    ACTIVATIONS,
    HEAD_ACTIVATIONS,
    Dense,
    Dropout,
    LayerNormalization,
    ThreadValue,
)
from keras_bert_impl.layers.embeddings import Embeddings
from keras_bert_impl.utils.errors import InputError

Tensor = Any  # a tensor of any Keras backend
_on = ThreadValue(False)


@dataclasses.dataclass(frozen=True)
class VocabularyLogits:
    """Logits `states @ table^T + bias`, stored as factors to save memory.

    Attributes:
        states: `[..., width]`, in the compute dtype.
        table: `[vocabulary, width]`, in the variable dtype.
        bias: float32 `[vocabulary]`.
    """

    states: Tensor
    table: Tensor
    bias: Tensor


@dataclasses.dataclass(frozen=True)
class VocabularyScores:
    """Cross-entropies and hits computed from `VocabularyLogits`, for a loss and its metrics.

    Attributes:
        losses: float32 `[...]`, the cross-entropy at each position, in nats.
        hits: float32 `[...]`, 1 where the label has the largest logit.
    """

    losses: Tensor
    hits: Tensor


if keras.backend.backend() == "jax":
    import jax

    # On JAX, Keras must treat an instance as a single value, like a tensor of logits.
    jax.tree_util.register_dataclass(VocabularyLogits, ["states", "table", "bias"], [])
    jax.tree_util.register_dataclass(VocabularyScores, ["losses", "hits"], [])


@contextlib.contextmanager
def factored_logits() -> Iterator[None]:
    """Context in which heads with `factored=True` return `VocabularyLogits` on the JAX backend."""
    with _on.set(keras.backend.backend() == "jax"):
        yield


def are_logits_factored() -> bool:
    return _on.value


@keras.saving.register_keras_serializable("keras_bert_impl")
class GatherPositions(keras.layers.Layer):
    """Gathers the hidden states at the given positions of each sequence.

    Call arguments:
        sequence: `[batch, length, hidden]`.
        positions: int32 `[batch, num_positions]`.

    Returns:
        `[batch, num_positions, hidden]`.
    """

    def call(self, sequence: Tensor, positions: Tensor) -> Tensor:
        batch, length = ops.shape(sequence)[0], ops.shape(sequence)[1]
        rows = ops.reshape(sequence, (-1, sequence.shape[-1]))  # [batch * length, hidden]
        first = length * ops.arange(batch, dtype=positions.dtype)[:, None]  # [batch, 1]
        return ops.take(rows, positions + first, axis=0)

    def compute_output_shape(self, sequence_shape: tuple, positions_shape: tuple) -> tuple:
        return (*positions_shape, sequence_shape[-1])

    def get_config(self) -> dict:  # Keras requires this for layers with a dtype policy.
        return super().get_config()


@keras.saving.register_keras_serializable("keras_bert_impl")
class MaskedLMHead(keras.layers.Layer):
    """Masked LM head: dense layer, activation, normalization and an output matrix.

    Args:
        embeddings: layer whose token embeddings are the output matrix.
        activation: a key of `ACTIVATIONS`. None means only the output matrix and bias, without the
            dense layer and normalization.
        initializer_range: standard deviation of the initial weights.
        use_bias: whether the dense layer and the normalization add a bias.
        has_output_bias: whether to add a bias to the logits.
        factored: whether to return `VocabularyLogits` inside `factored_logits`.

    Call arguments:
        inputs: `[batch, num_positions, hidden]`, hidden states of the tokens to predict.

    Returns:
        float32 `[batch, num_positions, vocabulary]`.

    Source: Devlin et al., "BERT", section 3.1, and the published code.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        activation: str | None = "gelu",
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        use_bias: bool = True,
        has_output_bias: bool = True,
        factored: bool = False,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        self.embeddings = embeddings
        self.has_output_bias = has_output_bias
        self.output_bias = None
        self.factored = factored
        self.dense = None
        if activation is not None:
            self.dense = Dense(
                embeddings.embedding_dim,
                activation=ACTIVATIONS[activation],
                use_bias=use_bias,
                kernel_initializer=keras.initializers.TruncatedNormal(stddev=initializer_range),
                dtype=self.dtype_policy,
                name="dense",
            )
            self.layer_norm = LayerNormalization(
                epsilon=layer_norm_epsilon,
                center=use_bias,
                dtype=self.dtype_policy,
                name="layer_norm",
            )

    def build(self, input_shape: tuple) -> None:
        if self.dense is not None:
            self.dense.build(input_shape)
            self.layer_norm.build((*input_shape[:-1], self.embeddings.embedding_dim))
        if self.has_output_bias:
            self.output_bias = self.add_weight(
                shape=(self.embeddings.vocabulary_size,),
                initializer="zeros",
                autocast=False,
                name="output_bias",
            )
        self.built = True

    def call(self, inputs: Tensor) -> Tensor | VocabularyLogits:
        if self.dense is not None:
            inputs = self.layer_norm(self.dense(inputs))  # [batch, num_positions, embedding width]
        bias = self.output_bias
        if bias is None:
            bias = ops.zeros(self.embeddings.vocabulary_size)
        if self.factored and are_logits_factored():
            table = self.embeddings.token_embeddings
            return VocabularyLogits(inputs, *map(ops.convert_to_tensor, (table, bias)))
        table = ops.cast(self.embeddings.token_embeddings, self.compute_dtype)
        logits = ops.matmul(inputs, ops.transpose(table))
        return ops.cast(logits, "float32") + ops.cast(bias, "float32")

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        shape = (*inputs.shape[:-1], self.embeddings.vocabulary_size)
        return keras.KerasTensor(shape, dtype="float32")

    def get_config(self) -> dict:
        raise InputError(
            "a masked LM head shares the token table of its encoder and cannot be cloned or "
            "saved alone. Write copy.deepcopy(model), or save the whole model."
        )


@keras.saving.register_keras_serializable("keras_bert_impl")
class ClassificationHead(keras.layers.Layer):
    """Classification head: dropout and a linear layer, optionally after a dense transform.

    The transform consists of dropout, a dense layer and an activation.

    Args:
        num_classes: number of logits.
        dropout: rate before each dense layer.
        transform: activation of the transform, a key of `HEAD_ACTIVATIONS`. None means no
            transform.
        transform_dim: width of the transform. None means the width of the inputs.
        initializer_range: standard deviation of the initial weights.
        layer_norm_epsilon: epsilon of a normalization after the transform; None means no
            normalization. If there is a normalization, it has no bias, and the transform has
            neither bias nor dropout.
        use_bias: whether the linear layer adds a bias.

    Call arguments:
        inputs: `[..., hidden]`.

    Returns:
        float32 `[..., num_classes]`.

    Source: Devlin et al., "BERT", section 4.1; for the transform, the code of RoBERTa and ELECTRA,
        and with a normalization, the code of ModernBERT.
    """

    def __init__(
        self,
        num_classes: int,
        dropout: float = 0.1,
        transform: str | None = None,
        transform_dim: int | None = None,
        initializer_range: float = 0.02,
        layer_norm_epsilon: float | None = None,
        use_bias: bool = True,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        if layer_norm_epsilon is not None and transform is None:
            raise ValueError("layer_norm_epsilon needs a transform. Received: transform=None")
        self.supports_masking = True
        self.num_classes = num_classes
        self.activation = transform
        self.transform_dim = transform_dim
        self.initializer_range = initializer_range
        self.layer_norm_epsilon = layer_norm_epsilon
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.transform: Dense | None = None
        self.layer_norm = None
        if layer_norm_epsilon is not None:
            self.layer_norm = LayerNormalization(
                epsilon=layer_norm_epsilon,
                center=False,
                dtype=self.dtype_policy,
                name="layer_norm",
            )
        self.dense = self._create_dense(num_classes, "dense", use_bias=use_bias)

    def _create_dense(self, units, name, activation=None, use_bias=True):
        return Dense(
            units,
            activation=activation,
            use_bias=use_bias,
            # The normal distribution is not truncated; see docs/decisions/normal-heads.md.
            kernel_initializer=keras.initializers.RandomNormal(stddev=self.initializer_range),
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, input_shape: tuple) -> None:
        if self.activation is not None:
            activation = HEAD_ACTIVATIONS[self.activation]
            width = self.transform_dim or input_shape[-1]
            use_bias = self.layer_norm is None
            self.transform = self._create_dense(width, "transform", activation, use_bias)
            self.transform.build(input_shape)
            input_shape = (*input_shape[:-1], width)
        if self.layer_norm is not None:
            self.layer_norm.build(input_shape)
        self.dense.build(input_shape)
        self.dropout.build()
        freeze_parts(self)
        self.built = True

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if self.layer_norm is not None:
            inputs = self.layer_norm(self.transform(inputs))
        elif self.transform is not None:
            inputs = self.transform(self.dropout(inputs, training=training))
        return ops.cast(self.dense(self.dropout(inputs, training=training)), "float32")

    def compute_output_spec(self, inputs: Tensor, training: bool = False) -> keras.KerasTensor:
        return keras.KerasTensor((*inputs.shape[:-1], self.num_classes), dtype="float32")

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None) -> None:
        return None  # Tasks use sample weights to mask logits in a loss.

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "dropout": self.dropout.rate,
            "transform": self.activation,
            "transform_dim": self.transform_dim,
            "initializer_range": self.initializer_range,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "use_bias": self.dense.use_bias,
        }


@keras.saving.register_keras_serializable("keras_bert_impl")
class ResidualHead(ClassificationHead):
    """Feed-forward network with residual connection, normalization and a `ClassificationHead`.

    Args:
        intermediate_dim: width of the feed-forward network.
        activation: a key of `ACTIVATIONS`.
        residual_epsilon: epsilon of the normalization.
        others: see `ClassificationHead`; `transform` is not supported. Dropout is applied first.

    Source: the code of BigBird's question answering in `transformers`.
    """

    def __init__(
        self,
        num_classes: int,
        intermediate_dim: int,
        activation: str = "gelu",
        residual_epsilon: float = 1e-12,
        **kwargs,
    ) -> None:
        super().__init__(num_classes, **kwargs)
        self.intermediate = self._create_dense(
            intermediate_dim, "intermediate", ACTIVATIONS[activation]
        )
        self.residual_norm = LayerNormalization(
            epsilon=residual_epsilon, dtype=self.dtype_policy, name="layer_norm"
        )
        rate = self.dropout.rate  # One shared dropout layer would drop the same units twice.
        self.output_dropout = Dropout(rate, dtype=self.dtype_policy, name="output_dropout")
        self.settings = {
            "intermediate_dim": intermediate_dim,
            "activation": activation,
            "residual_epsilon": residual_epsilon,
        }

    def build(self, input_shape: tuple) -> None:
        self.output_dense = self._create_dense(input_shape[-1], "output")
        self.intermediate.build(input_shape)
        self.output_dense.build((*input_shape[:-1], self.intermediate.units))
        self.residual_norm.build(input_shape)
        self.output_dropout.build()
        super().build(input_shape)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        outputs = self.output_dense(self.intermediate(self.dropout(inputs, training=training)))
        outputs = inputs + self.output_dropout(outputs, training=training)
        return ops.cast(self.dense(self.residual_norm(outputs)), "float32")

    def get_config(self) -> dict:
        return super().get_config() | self.settings
