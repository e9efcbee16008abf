"""Pooling over the windows of a document longer than a row."""

from typing import Any

import keras
from keras import ops

from keras_bert_impl.layers.freezing import freeze_parts
from keras_bert_impl.layers.groups import in_groups, is_row


@keras.saving.register_keras_serializable("keras_bert_impl")
class PoolWindows(keras.layers.Layer):
    """Pools the vectors of a document's windows into one: mean, maximum or attention.

    Computed in float32.

    Args:
        pooling: `"mean"`, `"max"` (of each dimension), or `"attention"`: a mean with learned
            weights, where a window with vector h has the weight `softmax(u . tanh(W h + b))` over
            the windows of its document.
        initializer_range: standard deviation of the initial weights.

    Call arguments:
        vectors: `[batch * windows, hidden]`.
        padding_mask: int32 `[batch, windows, length]`, 1 for a real token. Windows without real
            tokens are ignored.

    Returns:
        `[batch, hidden]`. A document with one window gives that window's vector; one without any
        gives finite numbers.

    Source: Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", section 5.3; the
    weights: Yang et al. 2016, "Hierarchical Attention Networks", equations 8 to 10.
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
            # The initial value allows an empty batch.
            pooled = ops.max(ops.where(is_real, vectors, -1e9), axis=1, initial=-1e9)
            pooled = ops.where(ops.any(is_real, axis=1), pooled, 0.0)  # -1e9 overflows in float16
        else:
            pooled = ops.sum(self._weights(vectors, is_real) * vectors, axis=1)
        return ops.cast(pooled, self.compute_dtype)

    def _weights(self, vectors, is_real):
        """Returns float32 `[batch, windows, 1]`, which sum to 1 (to 0 for a mean of no windows)."""
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
