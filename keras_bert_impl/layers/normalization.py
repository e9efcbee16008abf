"""Layer normalization with a short gradient."""

from typing import Any

import keras
from keras import ops

from keras_bert_impl.layers.fused.attention import jax_platform
from keras_bert_impl.layers.own_gradient import own_gradient

Tensor = Any  # of any Keras backend


@keras.saving.register_keras_serializable("keras_bert_impl")
class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization` over the last axis with its gradient in closed form.

    Automatic differentiation goes back through the mean and the variance one operation at a time.
    The closed form takes two thirds of the time on a CPU. JAX compiles the long form better for a
    GPU, where it is kept (docs/decisions/layer-normalization.md).

    Args: see `keras.layers.LayerNormalization`. With another axis, or without `scale`, it is Keras's.

    Call arguments:
        inputs: `[..., width]`.
        training: whether the closed form is used. Outside of training Keras's own layer is, so that
            an exported graph has no custom gradient.

    Source: Ba et al. 2016, section 3.

    Example:
        from keras_bert_impl.layers.normalization import LayerNormalization
        LayerNormalization(epsilon=1e-12)(states, training=True)
    """

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        over_last_axis = self.axis in ([-1], [len(inputs.shape) - 1])
        if not (training and self.scale and over_last_axis) or _is_accelerated():
            return super().call(inputs)
        dtype = keras.backend.result_type(inputs.dtype, "float32")
        inputs, gamma = ops.cast(inputs, dtype), ops.cast(self.gamma, dtype)
        beta = ops.zeros_like(gamma) if self.beta is None else ops.cast(self.beta, dtype)
        outputs = _normalized(self.epsilon)(inputs, gamma, beta)
        return ops.cast(outputs, self.compute_dtype)


def _is_accelerated():
    return keras.backend.backend() == "jax" and jax_platform() != "cpu"


def _normalized(epsilon):
    """Returns the function of (inputs, gamma, beta) that normalizes."""

    @own_gradient
    def normalized(inputs, gamma, beta):
        mean = ops.mean(inputs, axis=-1, keepdims=True)
        centered = inputs - mean
        variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
        scale = ops.rsqrt(variance + epsilon)
        normal = centered * scale

        def gradient(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            # The gradient of the normal states less its parts along ones and along themselves,
            # which change only the mean and the variance.
            slope = upstream * gamma
            along_ones = ops.mean(slope, axis=-1, keepdims=True)
            along_normal = ops.mean(slope * normal, axis=-1, keepdims=True)
            of_inputs = scale * (slope - along_ones - normal * along_normal)
            axes = tuple(range(len(inputs.shape) - 1))
            return of_inputs, ops.sum(upstream * normal, axes), ops.sum(upstream, axes)

        return normal * gamma + beta, gradient

    return normalized
