"""Layers for pooling over tokens, layers or windows, and for groups such as answer choices."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_bert_impl.layers.adapters import freeze_parts
from keras_bert_impl.layers.basic import Dense

Tensor = Any  # a tensor of any Keras backend


class _TokenPooling(keras.layers.Layer):
    """Base class of layers that map `[batch, length, hidden]` to `[batch, hidden]`."""

    def compute_output_shape(
        self, inputs_shape: tuple, padding_mask_shape: tuple | None = None
    ) -> tuple:
        return (inputs_shape[0], inputs_shape[2])


@keras.saving.register_keras_serializable("keras_bert_impl")
class MeanPooling(_TokenPooling):
    """Mean of the hidden states of the real tokens.

    Call arguments:
        inputs: `[batch, length, hidden]`.
        padding_mask: int32 `[batch, length]`, 1 for a real token. None means that all tokens are
            real.

    Returns:
        `[batch, hidden]`; 0 without real tokens.
    """

    def call(self, inputs: Tensor, padding_mask: Tensor = None) -> Tensor:
        states = ops.cast(inputs, "float32")
        real = ops.ones_like(states[:, :, 0])
        if padding_mask is not None:
            real = ops.cast(ops.not_equal(padding_mask, 0), "float32")  # [batch, length]
        weights = self._compute_weights(real)
        total = ops.sum(states * weights[:, :, None], axis=1)
        number = self._compute_divisor(ops.maximum(ops.sum(weights, axis=1, keepdims=True), 1.0))
        return ops.cast(total / number, self.compute_dtype)

    def _compute_weights(self, real):
        return real

    def _compute_divisor(self, total):
        return total


@keras.saving.register_keras_serializable("keras_bert_impl")
class MeanSqrtPooling(MeanPooling):
    """Sum of the hidden states of the real tokens, divided by the square root of their number.

    Call arguments and output: same as `MeanPooling`.
    """

    def _compute_divisor(self, total):
        return ops.sqrt(total)


@keras.saving.register_keras_serializable("keras_bert_impl")
class WeightedMeanPooling(MeanPooling):
    """Mean of the hidden states of the real tokens, with weights 1, 2, 3, ... by position.

    Call arguments and output: same as `MeanPooling`.

    Source: Muennighoff 2022, "SGPT", equation 2.
    """

    def _compute_weights(self, real):
        return real * (ops.arange(ops.shape(real)[1], dtype="float32") + 1.0)


@keras.saving.register_keras_serializable("keras_bert_impl")
class LastPooling(_TokenPooling):
    """Hidden state of the last real token.

    In a causal encoder, only the last token attends to all tokens.

    Call arguments and output shape: same as `MeanPooling`. Without real tokens, the output is the
    hidden state of the first token.
    """

    def call(self, inputs: Tensor, padding_mask: Tensor = None) -> Tensor:
        if padding_mask is None:
            return inputs[:, -1]
        positions = ops.arange(ops.shape(inputs)[1])
        last = ops.max(ops.where(ops.not_equal(padding_mask, 0), positions, 0), axis=1)  # [batch]
        return ops.take_along_axis(inputs, last[:, None, None], axis=1)[:, 0]


@keras.saving.register_keras_serializable("keras_bert_impl")
class MaxPooling(_TokenPooling):
    """Maximum of each dimension over the hidden states of the real tokens.

    Call arguments and output: same as `MeanPooling`.
    """

    def call(self, inputs: Tensor, padding_mask: Tensor = None) -> Tensor:
        if padding_mask is None:
            return ops.max(inputs, axis=1)
        real = ops.not_equal(padding_mask, 0)[:, :, None]  # [batch, length, 1]
        largest = ops.max(ops.where(real, inputs, float("-inf")), axis=1)
        return ops.where(ops.any(real, axis=1), largest, ops.zeros_like(largest))


@keras.saving.register_keras_serializable("keras_bert_impl")
class LayerMix(keras.layers.Layer):
    """Weighted mean of the hidden states of several layers.

    Args:
        layer_weights: One weight per layer. Only their ratios matter.
        trainable: Whether the weights are learned. Default: True.

    Call arguments:
        inputs: list of `[batch, length, hidden]`.

    Returns:
        `[batch, length, hidden]`.
    """

    def __init__(self, layer_weights: Sequence[float], **kwargs) -> None:
        super().__init__(**kwargs)
        self.layer_weights = list(layer_weights)

    def build(self, input_shape: list[tuple]) -> None:
        self.kernel = self.add_weight(
            shape=(len(self.layer_weights),),
            initializer=lambda shape, dtype: ops.cast(self.layer_weights, dtype),
            name="kernel",
        )

    def call(self, inputs: list[Tensor]) -> Tensor:
        weights = ops.cast(self.kernel / ops.sum(self.kernel), self.compute_dtype)
        return sum(weights[number] * states for number, states in enumerate(inputs))

    def compute_output_shape(self, input_shape: list[tuple]) -> tuple:
        return input_shape[0]

    def get_config(self) -> dict:
        return {**super().get_config(), "layer_weights": self.layer_weights}


@keras.saving.register_keras_serializable("keras_bert_impl")
class Pooler(keras.layers.Layer):
    """Dense layer with tanh, applied to the hidden state of `[CLS]`.

    Args:
        initializer_range: standard deviation of the initial weights.

    Call arguments:
        inputs: `[..., hidden]`, hidden states of `[CLS]` tokens.

    Returns:
        `[..., hidden]`.

    Source: Devlin et al., "BERT", section 3 (the vector C), and the published code.
    """

    def __init__(self, initializer_range: float = 0.02, **kwargs) -> None:
        super().__init__(**kwargs)
        self.initializer_range = initializer_range

    def build(self, input_shape: tuple) -> None:
        self.dense = Dense(
            input_shape[-1],
            activation="tanh",
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_range),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.dense.build(input_shape)
        freeze_parts(self)
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        return self.dense(inputs)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

    def get_config(self) -> dict:
        return {**super().get_config(), "initializer_range": self.initializer_range}


@keras.saving.register_keras_serializable("keras_bert_impl")
class ScalarMix(keras.layers.Layer):
    """Learned weighted mean of the hidden states of several layers, times a learned scale.

    Computes `scale * sum_j softmax(weights)_j inputs_j`, which is initially the mean. Computed in
    float32.

    Call arguments:
        inputs: `[..., layers, hidden]`.

    Returns:
        `[..., hidden]`.

    Source: Peters et al. 2018, "Deep contextualized word representations", equation 1.
    """

    def build(self, inputs_shape: tuple) -> None:
        settings = {"dtype": "float32", "autocast": False}
        self.mix = self.add_weight((inputs_shape[-2],), "zeros", name="weights", **settings)
        self.scale = self.add_weight((1,), "ones", name="scale", **settings)
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        weights = self.scale * ops.softmax(self.mix[None])[0]  # [layers]
        mixed = ops.sum(ops.cast(inputs, "float32") * weights[:, None], axis=-2)
        return ops.cast(mixed, self.compute_dtype)

    def compute_output_shape(self, inputs_shape: tuple) -> tuple:
        return (*inputs_shape[:-2], inputs_shape[-1])

    def get_config(self) -> dict:  # Keras requires this for layers with a dtype policy.
        return super().get_config()


@keras.saving.register_keras_serializable("keras_bert_impl")
class PoolWindows(keras.layers.Layer):
    """Pools the vectors of all windows of a document into one vector.

    Computed in float32.

    Args:
        pooling: `"mean"`, `"max"` (of each dimension) or `"attention"`, a mean with learned
            weights. The weight of a window with vector h is `softmax(u . tanh(W h + b))` over the
            windows of the document.
        initializer_range: standard deviation of the initial weights.

    Call arguments:
        vectors: `[batch * windows, hidden]`.
        padding_mask: int32 `[batch, windows, length]`, 1 for a real token. Windows without real
            tokens are ignored.

    Returns:
        `[batch, hidden]`. For a document with one window, the result is the vector of this window.
        If a document has no window with real tokens, the result is finite, but has no meaning.

    Source: Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", section 5.3. For the
        attention: Yang et al. 2016, "Hierarchical Attention Networks", equations 8 to 10.
    """

    def __init__(self, pooling: str = "mean", initializer_range: float = 0.02, **kwargs) -> None:
        super().__init__(**kwargs)
        if pooling not in ("mean", "max", "attention"):
            raise ValueError(f"pooling must be mean, max or attention. Received: {pooling!r}")
        self.pooling = pooling
        self.initializer_range = initializer_range

    def build(self, vectors_shape: tuple, padding_mask_shape: tuple | None = None) -> None:
        if self.pooling == "attention":
            initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
            layer = {"kernel_initializer": initializer, "dtype": "float32"}
            width = vectors_shape[-1]
            self.dense = keras.layers.Dense(width, activation="tanh", name="dense", **layer)
            self.score = keras.layers.Dense(1, use_bias=False, name="score", **layer)
            self.dense.build((None, width))
            self.score.build((None, width))
        freeze_parts(self)
        self.built = True

    def call(self, vectors: Any, padding_mask: Any) -> Any:
        vectors = in_groups(ops.cast(vectors, "float32"), padding_mask)
        is_real = is_row(padding_mask)[:, :, None]  # [batch, windows, 1]
        if self.pooling == "max":
            # Without an initial value, an empty batch would fail.
            pooled = ops.max(ops.where(is_real, vectors, -1e9), axis=1, initial=-1e9)
            # A document without windows gets 0, because -1e9 overflows in float16.
            pooled = ops.where(ops.any(is_real, axis=1), pooled, 0.0)
        else:
            pooled = ops.sum(self._compute_weights(vectors, is_real) * vectors, axis=1)
        return ops.cast(pooled, self.compute_dtype)

    def _compute_weights(self, vectors, is_real):
        """Returns the weights of the windows, float32 `[batch, windows, 1]`."""
        if self.pooling == "attention":
            scores = self.score(self.dense(vectors))
            return ops.softmax(ops.where(is_real, scores, -1e9), axis=1)
        real = ops.cast(is_real, "float32")
        return real / ops.maximum(ops.sum(real, axis=1, keepdims=True), 1.0)

    def compute_output_spec(self, vectors: Any, padding_mask: Any) -> keras.KerasTensor:
        return keras.KerasTensor((padding_mask.shape[0], vectors.shape[-1]), self.compute_dtype)

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "pooling": self.pooling,
            "initializer_range": self.initializer_range,
        }


# This value is finite, so that gradients are not NaN. Its softmax is exactly 0 in float32.
_HIDDEN = -1e9


def in_groups(rows: Tensor, padding_mask: Tensor) -> Tensor:
    """Reshapes `[batch * group, dim]` to `[batch, group, dim]`.

    Args:
        padding_mask: `[batch, group, ..., length]`. Only the shape is used.
    """
    return ops.reshape(rows, (*ops.shape(padding_mask)[:2], rows.shape[-1]))


def is_row(padding_mask: Tensor) -> Tensor:
    """Returns whether each window or choice contains a real token, bool `[batch, group]`."""
    within = tuple(range(2, len(padding_mask.shape)))
    return ops.any(ops.not_equal(padding_mask, 0), axis=within)


@keras.saving.register_keras_serializable("keras_bert_impl")
class MergeGroups(keras.layers.Layer):
    """Flattens groups into one batch.

    Call arguments:
        inputs: `[batch, group, ..., length]`.

    Returns:
        `[batch * group, ..., length]`.
    """

    def call(self, inputs: Tensor) -> Tensor:
        return ops.reshape(inputs, (-1, *ops.shape(inputs)[2:]))

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor((None, *inputs.shape[2:]), dtype=inputs.dtype)

    def get_config(self) -> dict:  # Keras requires this for layers with a dtype policy.
        return super().get_config()


@keras.saving.register_keras_serializable("keras_bert_impl")
class SplitGroups(keras.layers.Layer):
    """Reshapes a batch of vectors to groups, the inverse of `MergeGroups`.

    Call arguments:
        rows: `[batch * group, dim]`.
        padding_mask: int32 `[batch, group, ..., length]`. Only the shape is used.

    Returns:
        `[batch, group, dim]`.
    """

    def call(self, rows: Tensor, padding_mask: Tensor) -> Tensor:
        return in_groups(rows, padding_mask)

    # In Keras 3.12, `compute_output_shape` does not support a separate shape for each input.
    def compute_output_spec(self, rows: Tensor, padding_mask: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor((*padding_mask.shape[:2], rows.shape[-1]), self.compute_dtype)

    def get_config(self) -> dict:  # Keras requires this for layers with a dtype policy.
        return super().get_config()


@keras.saving.register_keras_serializable("keras_bert_impl")
class ChoiceLogits(keras.layers.Layer):
    """Reshapes logits to one logit for each choice of an example.

    Call arguments:
        logits: float32 `[batch * choices, 1]`.
        padding_mask: int32 `[batch, choices, ..., length]`, 1 for a real token.

    Returns:
        float32 `[batch, choices]`. The logit of a choice without real tokens is -1e9.
    """

    def call(self, logits: Tensor, padding_mask: Tensor) -> Tensor:
        return ops.where(is_row(padding_mask), in_groups(logits, padding_mask)[:, :, 0], _HIDDEN)

    def compute_output_spec(self, logits: Tensor, padding_mask: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(padding_mask.shape[:2], dtype="float32")

    def get_config(self) -> dict:  # Keras requires this for layers with a dtype policy.
        return super().get_config()
