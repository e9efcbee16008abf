"""Layers with custom gradients, and reproducible dropout."""

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

from keras_bert_impl.layers.fused_attention import jax_platform
from keras_bert_impl.utils.settings import Rate, check


class ThreadValue(threading.local):
    """A thread-local value. Models in different threads do not affect each other."""

    def __init__(self, value: Any) -> None:  # Python calls this again in each thread.
        self.value = value

    @contextlib.contextmanager
    def set(self, value: Any) -> Iterator[None]:
        before, self.value = self.value, value
        try:
            yield
        finally:
            self.value = before


def own_gradient(function: Callable) -> Callable:
    """Decorator like `ops.custom_gradient`, without its memory leak on TensorFlow.

    Args:
        function: Function that returns (outputs, gradient function). The gradient function gets
            the gradient with respect to the outputs, and returns the gradients with respect to the
            arguments.

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
        # TensorFlow never releases the gradient function. Before version 2.22, it does not release
        # the outputs either. Both reference the graph. TensorFlow therefore gets a weak reference
        # to the function, and a list of outputs that is overwritten.
        held_outputs = []

        def with_weak_gradient(*args):
            outputs, gradient = function(*args)
            graph = tf.compat.v1.get_default_graph()
            graph.own_gradients = [*getattr(graph, "own_gradients", ()), gradient]
            reference = weakref.ref(gradient)
            held_outputs.append(outputs)
            return held_outputs, lambda *upstream: reference()(*upstream)

        (outputs,) = ops.custom_gradient(with_weak_gradient)(*args)
        held_outputs[:] = [0] * len(tf.nest.flatten(held_outputs))
        return outputs

    return call


@keras.saving.register_keras_serializable("keras_bert_impl")
def gelu(inputs: Any) -> Any:
    """Exact GELU, `x * Phi(x)` (Hendrycks and Gimpel 2016, section 2)."""
    return 0.5 * (ops.erf(inputs * 0.7071067811865476) + 1.0) * inputs


@keras.saving.register_keras_serializable("keras_bert_impl")
def gelu_tanh(inputs: Any) -> Any:
    """Tanh approximation of GELU (Hendrycks and Gimpel 2016, section 2)."""
    inner = 0.7978845608028654 * (inputs + 0.044715 * inputs * inputs * inputs)
    return 0.5 * inputs * (1.0 + ops.tanh(inner))


@own_gradient
def _compute_gelu_and_slope(inputs):
    """Returns `gelu` and its derivative `Phi(x) + x * phi(x)`."""
    x = ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
    probability = 0.5 * ops.erf(x * 0.7071067811865476) + 0.5
    # TensorFlow would fuse `square` and `negative` into a slower operation.
    density = 0.3989422804014327 * ops.exp(x * (-0.5 * x))
    slope = ops.cast(probability + x * density, inputs.dtype)

    def gradient(upstream):
        return upstream * slope

    return ops.cast(x * probability, inputs.dtype), gradient


def in_training(activation: Any) -> Any:
    """Returns the activation with a faster gradient, if there is one."""
    is_long = activation is gelu and keras.backend.backend() == "tensorflow"
    return _compute_gelu_and_slope if is_long else activation


ACTIVATIONS = {"gelu": gelu, "gelu_tanh": gelu_tanh, "relu": ops.relu}
# Activations of dense layers in heads.
HEAD_ACTIVATIONS = ACTIVATIONS | {"tanh": ops.tanh, "linear": keras.activations.linear}


_has_gradients = ThreadValue(True)


@contextlib.contextmanager
def without_gradients() -> Iterator[None]:
    """Context for graphs that are never differentiated. `Dense` is then faster in bfloat16."""
    with _has_gradients.set(False):
        yield


@keras.saving.register_keras_serializable("keras_bert_impl")
class Dense(keras.layers.Dense):
    """`keras.layers.Dense` that sums the gradient of a bfloat16 bias in float32.

    `keras.layers.Dense` adds the bias with TensorFlow's `BiasAdd`. On a CPU, the gradient of
    `BiasAdd` is a sum over all tokens in the dtype of the inputs. With more than a few hundred
    tokens, a sum in bfloat16 loses at least a third of the gradient.

    With `training=True`, GELU has a custom gradient on TensorFlow, which needs fewer operations.
    Otherwise, the graph contains no custom gradient and can be exported.

    With `training=False`, the layer reshapes the inputs to a matrix if the dtype is float32 or the
    call is inside `without_gradients`. For a matrix, TensorFlow fuses the product, bias and
    activation into one oneDNN operation.

    Args: see `keras.layers.Dense`.

    Example:
        from keras_bert_impl.layers import Dense
        Dense(384, dtype="mixed_bfloat16")(states)
    """

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        is_float32 = self.compute_dtype == "float32"
        may_join = is_float32 or not _has_gradients.value
        if training is False and may_join and len(inputs.shape) > 2:
            return self._call_on_rows(inputs)
        activation = in_training(self.activation) if training else self.activation
        if activation is self.activation and (is_float32 or self.bias is None):
            return super().call(inputs, training=training)
        outputs = ops.matmul(inputs, self.kernel)
        if self.bias is not None:
            # In bfloat16 and float16, this order of operands avoids `BiasAdd`.
            outputs = ops.add(*((outputs, self.bias) if is_float32 else (self.bias, outputs)))
        return outputs if activation is None else activation(outputs)

    def _call_on_rows(self, inputs):
        rows = super().call(ops.reshape(inputs, (-1, inputs.shape[-1])), training=False)
        return ops.reshape(rows, (*ops.shape(inputs)[:-1], self.units))


Tensor = Any  # a tensor of any Keras backend


@keras.saving.register_keras_serializable("keras_bert_impl")
class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization` over the last axis, with a closed-form gradient.

    On a CPU, the closed form is 1.5× faster than automatic differentiation. On a GPU with JAX,
    automatic differentiation is faster and is therefore used
    (docs/decisions/layer-normalization.md).

    The arguments are the same as in `keras.layers.LayerNormalization`. If `axis` is not the last
    axis, or `scale` is False, automatic differentiation is used.

    Call arguments:
        inputs: `[..., width]`.
        training: Whether to use the closed-form gradient. Pass False for an export, which must not
            contain a custom gradient.

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
        outputs = _make_normalization(self.epsilon)(inputs, gamma, beta)
        return ops.cast(outputs, self.compute_dtype)


def _is_accelerated():
    return keras.backend.backend() == "jax" and jax_platform() != "cpu"


def _make_normalization(epsilon):
    """Returns the normalization as a function of (inputs, gamma, beta)."""

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
            # The inputs cannot change the mean and variance of the normalized states. The gradient
            # therefore loses its components along the vector of ones and along the normalized
            # states.
            slope = upstream * gamma
            along_ones = ops.mean(slope, axis=-1, keepdims=True)
            along_normal = ops.mean(slope * normal, axis=-1, keepdims=True)
            input_gradient = scale * (slope - along_ones - normal * along_normal)
            axes = tuple(range(len(inputs.shape) - 1))
            return input_gradient, ops.sum(upstream * normal, axes), ops.sum(upstream, axes)

        return normal * gamma + beta, gradient

    return normalized


# (seed, number of draws for each path) inside `dropout_seed`, otherwise None.
_step = ThreadValue(None)


@contextlib.contextmanager
def dropout_seed(seed: Tensor) -> Iterator[None]:
    """Context in which the units that `Dropout` layers drop are determined by `seed`.

    Different layers, and different calls of one layer, drop different units. A training step
    derives `seed` from (run seed, step, micro-batch, replica). Replicas then drop different units,
    and a resumed run drops the same units as an uninterrupted run. In contrast, Keras's seed
    generators are not saved in checkpoints, and produce the same numbers on all replicas.

    Args:
        seed: int32 or uint32 tensor `[2]`.
    """
    with _step.set((seed, collections.Counter())):
        yield


def repeated(function: Callable) -> Callable:
    """Returns a function with the same dropout masks in every call, for recomputation."""
    seed, draws = _step.value
    before = draws.copy()

    def again(*inputs):
        with _step.set((seed, before.copy())):
            outputs = function(*inputs)
            draws.update(_step.value[1] - draws)
        return outputs

    return again


class _GivenSeed(keras.random.SeedGenerator):
    """Passes a seed tensor to `keras.random`, which accepts only an int or a `SeedGenerator`."""

    def __init__(self, seed: Tensor) -> None:
        self.given = seed

    def next(self, ordered: bool = True) -> Tensor:
        return self.given


if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    def _sample_int32(shape, seed):
        # This takes 25% less time than Keras's function, which also scales the numbers.
        return tf.random.stateless_uniform(
            shape, tf.cast(seed.next(), "int32"), None, None, "int32"
        )
else:

    def _sample_int32(shape, seed):
        return keras.random.randint(shape, -(2**31), 2**31 - 1, dtype="int32", seed=seed)


@keras.saving.register_keras_serializable("keras_bert_impl")
class Dropout(keras.layers.Layer):
    """Sets a random fraction of the inputs to zero and scales the others by `1 / (1 - rate)`.

    Inside the context `dropout_seed`, the random numbers depend on the seed of the context. Outside
    the context, the layer uses a Keras seed generator.

    Args:
        rate: Fraction of units to drop, in [0, 1).
        seed: Seed of the Keras seed generator.
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs) -> None:
        super().__init__(**kwargs)
        self.rate = check("dropout", rate, Rate)
        self.seed = seed
        self.supports_masking = True
        if self.rate > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, inputs_shape: tuple | None = None) -> None:
        """Call this in `build` of the parent layer, so that Keras gives the layer a unique path."""
        self.built = True

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if not training or self.rate == 0:
            return inputs
        keep = max(1, round((1 - self.rate) * 65536))
        mask = self._sample_mask(inputs, keep)
        return ops.where(mask, inputs * (65536 / keep), ops.zeros((), inputs.dtype))

    def _sample_mask(self, inputs, keep):
        """Returns a mask for `inputs`. Each element is True with probability `keep / 65536`."""
        # On a CPU, random numbers dominate the cost of dropout, so each unit gets only 8 random
        # bits. The threshold has 16 bits. It is randomly rounded to 8 bits once per row.
        threshold, fraction = divmod(min(keep, 65536 - keep), 256)
        size, width = ops.size(inputs), ops.shape(inputs)[-1]
        rows = size // width
        drawn = self._sample_int8(size + rows)
        rounded_up = ops.cast(ops.less(drawn[size : size + rows], fraction - 128), "int8")
        thresholds = ops.reshape(rounded_up + (threshold - 128), (rows, 1))
        # The less frequent outcome is below the threshold, so the rounded threshold fits an int8.
        compare = ops.less if keep < 32768 else ops.greater_equal
        mask = compare(ops.reshape(drawn[:size], (rows, width)), thresholds)
        return ops.reshape(mask, ops.shape(inputs))

    def _sample_int8(self, size):
        seed = self.seed_generator
        if _step.value is not None:
            seed = _GivenSeed(self._fold_path(*_step.value))
        return ops.reshape(ops.view(_sample_int32(((size + 3) // 4, 1), seed), "int8"), (-1,))

    def _fold_path(self, seed, draws):
        # The seed depends on the path, not on the order of calls. An additional layer therefore
        # does not change which units other layers drop. If several encoder layers share a block, it
        # drops different units in each of them.
        offset = zlib.crc32(f"{self.path}{draws[self.path] or ''}".encode()) % 2**31
        draws[self.path] += 1
        # The backend's stateless functions accept only this dtype on all devices.
        dtype = "uint32" if keras.backend.backend() == "jax" else "int32"
        return ops.cast(seed, dtype) + ops.convert_to_tensor([0, offset], dtype=dtype)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

    def get_config(self) -> dict:
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


_on = ThreadValue(False)


@contextlib.contextmanager
def recomputation(on: bool = True) -> Iterator[None]:
    """Context for activation checkpointing: the backward pass recomputes activations of blocks.

    Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", section 3.
    """
    with _on.set(on):
        yield


def is_recomputed() -> bool:
    """Returns whether activation checkpointing is on."""
    return _on.value


def recomputed(function: Callable, inputs: Any) -> Any:
    """Returns `function(inputs)`, and recomputes it in the backward pass."""

    def outputs(inputs):
        with _on.set(False):
            return function(inputs)

    # With `keras.remat` alone, the second call would drop different units and give a wrong
    # gradient.
    return keras.remat(repeated(outputs))(inputs)
