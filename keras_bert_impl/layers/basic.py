"""Basic layers of blocks and heads, with custom gradients and reproducible dropout.

Contains thread-local values, custom gradients, activations, `Dense`, `LayerNormalization`,
`Dropout` and recomputation.
"""

import collections
import contextlib
import functools
import threading
import weakref
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

from keras_bert_impl.io.settings import Rate, check
from keras_bert_impl.layers.fused_attention import jax_platform


class ThreadValue(threading.local):
    """A thread-local value, so that models in several threads do not affect each other."""

    def __init__(self, value: Any) -> None:  # runs again in each thread, with the same value
        self.value = value

    @contextlib.contextmanager
    def set(self, value: Any) -> Iterator[None]:
        """Context in which the value differs in this thread."""
        before, self.value = self.value, value
        try:
            yield
        finally:
            self.value = before


def own_gradient(function: Callable) -> Callable:
    """Same as `ops.custom_gradient`, a decorator.

    On TensorFlow, a gradient function is released together with its graph, so the memory of a
    program that fits many models does not grow.

    Args:
        function: Returns (outputs, function that returns the gradients of its arguments).

    Example:
        from keras_bert_impl.layers.basic import own_gradient
        @own_gradient
        def half(x):
            return x / 2, lambda upstream: upstream / 2
    """
    if keras.backend.backend() != "tensorflow":
        return ops.custom_gradient(function)
    import tensorflow as tf

    @functools.wraps(function)
    def call(*args):
        if tf.executing_eagerly():
            return ops.custom_gradient(function)(*args)
        # TensorFlow keeps the gradient function for good, and before 2.22 the outputs too; each of
        # them holds the graph. It gets a weak reference and a list that is overwritten.
        kept = []

        def with_weak_gradient(*args):
            outputs, gradient = function(*args)
            graph = tf.compat.v1.get_default_graph()
            graph.own_gradients = [*getattr(graph, "own_gradients", ()), gradient]
            reference = weakref.ref(gradient)
            kept.append(outputs)
            return kept, lambda *upstream: reference()(*upstream)

        (outputs,) = ops.custom_gradient(with_weak_gradient)(*args)
        kept[:] = [0] * len(tf.nest.flatten(kept))
        return outputs

    return call


@keras.saving.register_keras_serializable("keras_bert_impl")
def gelu(inputs: Any) -> Any:
    """Computes exact GELU, `x * Phi(x)` (Hendrycks and Gimpel 2016, section 2), with `erf`."""
    return 0.5 * (ops.erf(inputs * 0.7071067811865476) + 1.0) * inputs


@keras.saving.register_keras_serializable("keras_bert_impl")
def gelu_tanh(inputs: Any) -> Any:
    """Computes GELU's tanh approximation (Hendrycks and Gimpel 2016), as in the first BERT code."""
    inner = 0.7978845608028654 * (inputs + 0.044715 * inputs * inputs * inputs)
    return 0.5 * inputs * (1.0 + ops.tanh(inner))


@own_gradient
def _gelu_and_slope(inputs):
    """Computes `gelu` and, in the same pass, its derivative `Phi(x) + x * phi(x)`."""
    x = ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
    probability = 0.5 * ops.erf(x * 0.7071067811865476) + 0.5
    # A product instead of `square` and `negative`, which TensorFlow would fuse into a slower
    # operation.
    density = 0.3989422804014327 * ops.exp(x * (-0.5 * x))
    slope = ops.cast(probability + x * density, inputs.dtype)

    def gradient(upstream):
        return upstream * slope

    return ops.cast(x * probability, inputs.dtype), gradient


def in_training(activation: Any) -> Any:
    """Returns a version of an activation whose gradient needs fewer operations."""
    is_long = activation is gelu and keras.backend.backend() == "tensorflow"
    return _gelu_and_slope if is_long else activation


ACTIVATIONS = {"gelu": gelu, "gelu_tanh": gelu_tanh, "relu": ops.relu}
# Activations of dense layers in heads.
HEAD_ACTIVATIONS = ACTIVATIONS | {"tanh": ops.tanh, "linear": keras.activations.linear}


_has_gradients = ThreadValue(True)


@contextlib.contextmanager
def without_gradients() -> Iterator[None]:
    """Context for graphs without gradients, in which `Dense` is faster in bfloat16."""
    with _has_gradients.set(False):
        yield


@keras.saving.register_keras_serializable("keras_bert_impl")
class Dense(keras.layers.Dense):
    """`keras.layers.Dense` with the gradient of a bfloat16 bias summed in float32.

    Keras's layer adds the bias with TensorFlow's `BiasAdd`. On a CPU, its gradient is a sum over
    all tokens in the precision of the inputs. In bfloat16 this sum ignores everything after the
    first few hundred tokens, at least a third of the gradient.

    In training, the activation is `in_training`. Otherwise the graph has no custom gradient, so
    that it can be exported. With `training=False`, in float32 or inside `without_gradients`, the
    layer computes product, bias and activation directly after each other on a matrix, so that
    TensorFlow fuses them into one oneDNN operation.

    Args: see `keras.layers.Dense`.

    Example:
        from keras_bert_impl.layers import Dense
        Dense(384, dtype="mixed_bfloat16")(states)
    """

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        is_float32 = self.compute_dtype == "float32"
        may_join = is_float32 or not _has_gradients.value
        if training is False and may_join and len(inputs.shape) > 2:
            return self._joined(inputs)
        activation = in_training(self.activation) if training else self.activation
        if activation is self.activation and (is_float32 or self.bias is None):
            return super().call(inputs, training=training)
        outputs = ops.matmul(inputs, self.kernel)
        if self.bias is not None:
            # In bfloat16 and float16, this order of operands avoids `BiasAdd`.
            outputs = ops.add(*((outputs, self.bias) if is_float32 else (self.bias, outputs)))
        return outputs if activation is None else activation(outputs)

    def _joined(self, inputs):
        rows = super().call(ops.reshape(inputs, (-1, inputs.shape[-1])), training=False)
        return ops.reshape(rows, (*ops.shape(inputs)[:-1], self.units))


Tensor = Any  # of any Keras backend


@keras.saving.register_keras_serializable("keras_bert_impl")
class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization` over the last axis with its gradient in closed form.

    On a CPU, the closed form is 1.5× faster than automatic differentiation, which goes back through
    the mean and the variance one operation at a time. On a GPU with JAX, automatic differentiation
    is faster and therefore used (docs/decisions/layer-normalization.md).

    It takes the arguments of `keras.layers.LayerNormalization`. With a different axis, or without
    `scale`, Keras's layer is used.

    Call arguments:
        inputs: `[..., width]`.
        training: Whether to use the closed form. Otherwise Keras's layer is used, so that an
            exported graph has no custom gradient.

    Source: Ba et al. 2016, section 3.

    Example:
        from keras_bert_impl.layers.basic import LayerNormalization
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
            # The gradient of the normalized states, without its components along the vector of ones
            # and along the states themselves, which change only the mean and the variance.
            slope = upstream * gamma
            along_ones = ops.mean(slope, axis=-1, keepdims=True)
            along_normal = ops.mean(slope * normal, axis=-1, keepdims=True)
            of_inputs = scale * (slope - along_ones - normal * along_normal)
            axes = tuple(range(len(inputs.shape) - 1))
            return of_inputs, ops.sum(upstream * normal, axes), ops.sum(upstream, axes)

        return normal * gamma + beta, gradient

    return normalized


# (seed, number of draws of each path) inside `dropout_seed`, otherwise None.
_step = ThreadValue(None)


@contextlib.contextmanager
def dropout_seed(seed: Tensor) -> Iterator[None]:
    """Context in which `Dropout` depends only on `seed`, its path and its number of earlier draws.

    If a training step derives `seed` from (run seed, step, micro-batch, replica), replicas drop
    different units, and a resumed run drops the same units as an uninterrupted run. Keras's seed
    generators are not part of any checkpoint format and are equal on all replicas.

    Args:
        seed: int32 or uint32 tensor `[2]`.
    """
    with _step.set((seed, collections.Counter())):
        yield


def repeated(function: Callable) -> Callable:
    """Wraps `function` so that dropout draws the same units in every call."""
    seed, draws = _step.value
    before = draws.copy()

    def again(*inputs):
        with _step.set((seed, before.copy())):
            outputs = function(*inputs)
            draws.update(_step.value[1] - draws)
        return outputs

    return again


class _GivenSeed(keras.random.SeedGenerator):
    """Passes a seed tensor to `keras.random`, which accepts only integers and generators."""

    def __init__(self, seed: Tensor) -> None:
        self.given = seed

    def next(self, ordered: bool = True) -> Tensor:
        return self.given


if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    def _random_int32(shape, seed):
        # The full range, which takes 25% less time than Keras's draw, because that scales the
        # numbers.
        return tf.random.stateless_uniform(
            shape, tf.cast(seed.next(), "int32"), None, None, "int32"
        )
else:

    def _random_int32(shape, seed):
        return keras.random.randint(shape, -(2**31), 2**31 - 1, dtype="int32", seed=seed)


@keras.saving.register_keras_serializable("keras_bert_impl")
class Dropout(keras.layers.Layer):
    """Sets a random fraction of the inputs to zero and scales the others by `1 / (1 - rate)`.

    Inside `dropout_seed` the draw is stateless. Outside, a Keras seed generator is used.

    Args:
        rate: Fraction of units to drop, in [0, 1).
        seed: Seed of the generator for calls outside `dropout_seed`.
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs) -> None:
        super().__init__(**kwargs)
        self.rate = check("dropout", rate, Rate)
        self.seed = seed
        self.supports_masking = True
        if self.rate > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, inputs_shape: tuple | None = None) -> None:
        """Sets the path. The parent layer calls this in its `build`, so that paths are unique."""
        self.built = True

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if not training or self.rate == 0:
            return inputs
        keep = max(1, round((1 - self.rate) * 65536))
        kept = self._kept(inputs, keep)
        return ops.where(kept, inputs * (65536 / keep), ops.zeros((), inputs.dtype))

    def _kept(self, inputs, keep):
        """Returns bools in the shape of `inputs`, True with probability `keep / 65536`."""
        # On a CPU, random draws dominate the cost of dropout, so each unit gets only 8 random bits.
        # They are compared with a threshold of 16 bits, whose lower 8 bits are randomly rounded,
        # once per row.
        threshold, fraction = divmod(min(keep, 65536 - keep), 256)
        size, width = ops.size(inputs), ops.shape(inputs)[-1]
        rows = size // width
        drawn = self._random_int8(size + rows)
        rounded_up = ops.cast(ops.less(drawn[size : size + rows], fraction - 128), "int8")
        thresholds = ops.reshape(rounded_up + (threshold - 128), (rows, 1))
        # The less frequent outcome is below the threshold, which therefore fits an int8.
        compare = ops.less if keep < 32768 else ops.greater_equal
        kept = compare(ops.reshape(drawn[:size], (rows, width)), thresholds)
        return ops.reshape(kept, ops.shape(inputs))

    def _random_int8(self, size):
        """Returns at least `size` random numbers, `[numbers]`."""
        seed = self.seed_generator
        if _step.value is not None:
            seed = _GivenSeed(self._fold_path(*_step.value))
        return ops.reshape(ops.view(_random_int32(((size + 3) // 4, 1), seed), "int8"), (-1,))

    def _fold_path(self, seed, draws):
        # The path is used instead of the order of calls, so adding a layer does not change the
        # draws of other layers. A block shared by several encoder layers drops different units in
        # each.
        offset = zlib.crc32(f"{self.path}{draws[self.path] or ''}".encode()) % 2**31
        draws[self.path] += 1
        # The only dtype that the backend's stateless draws accept on all devices.
        dtype = "uint32" if keras.backend.backend() == "jax" else "int32"
        return ops.cast(seed, dtype) + ops.convert_to_tensor([0, offset], dtype=dtype)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

    def get_config(self) -> dict:
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


_on = ThreadValue(False)


@contextlib.contextmanager
def recomputation(on: bool = True) -> Iterator[None]:
    """Context in which every `TransformerBlock` stores only its inputs for the backward pass.

    Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", section 3.
    """
    with _on.set(on):
        yield


def is_recomputed() -> bool:
    """Returns whether the call is inside `recomputation` but not inside `recomputed`."""
    return _on.value


def recomputed(function: Callable, inputs: Any) -> Any:
    """Returns `function(inputs)` and recomputes it in the backward pass."""

    def outputs(inputs):
        with _on.set(False):
            return function(inputs)

    # `keras.remat` alone would draw different dropout units the second time and give a wrong
    # gradient.
    return keras.remat(repeated(outputs))(inputs)
