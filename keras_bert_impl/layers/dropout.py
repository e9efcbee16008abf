"""Dropout that is a function of a seed set by the training step."""

import collections
import contextlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

from keras_bert_impl.io.settings import Rate, check
from keras_bert_impl.thread_value import ThreadValue

Tensor = Any  # of any Keras backend

# (seed, number of draws of each path) inside `dropout_seed`, else None.
_step = ThreadValue(None)


@contextlib.contextmanager
def dropout_seed(seed: Tensor) -> Iterator[None]:
    """Context in which a `Dropout` draws from `seed`, its path and its number of earlier draws.

    A training step that derives `seed` from (run seed, step, micro-batch, replica) makes replicas
    drop different units, and a resumed run drop the same units as an uninterrupted one. Keras's own
    seed generators are not part of any checkpoint format and are equal on every replica.

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
        # All of the range: a quarter cheaper than Keras's draw, which scales the numbers.
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
        rate: fraction of units to drop, in [0, 1).
        seed: seed of the generator for calls outside `dropout_seed`.
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs) -> None:
        super().__init__(**kwargs)
        self.rate = check("dropout", rate, Rate)
        self.seed = seed
        self.supports_masking = True
        if self.rate > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, inputs_shape: tuple | None = None) -> None:
        """Fixes the path. The parent layer calls this in its `build`, so that paths are unique."""
        self.built = True

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if not training or self.rate == 0:
            return inputs
        keep = max(1, round((1 - self.rate) * 65536))
        kept = self._kept(inputs, keep)
        return ops.where(kept, inputs * (65536 / keep), ops.zeros((), inputs.dtype))

    def _kept(self, inputs, keep):
        """Returns a bool tensor like `inputs`, True with a probability of `keep / 65536`."""
        # Drawing is most of the cost of dropout on a CPU, so a unit has only 8 bits: it is below a
        # threshold whose other 8 bits are rounded up or down at random, once for each row.
        threshold, fraction = divmod(min(keep, 65536 - keep), 256)
        size, width = ops.size(inputs), ops.shape(inputs)[-1]
        rows = size // width
        drawn = self._random_int8(size + rows)
        rounded_up = ops.cast(ops.less(drawn[size : size + rows], fraction - 128), "int8")
        thresholds = ops.reshape(rounded_up + (threshold - 128), (rows, 1))
        # The rarer side is below its threshold, which so never exceeds an int8.
        compare = ops.less if keep < 32768 else ops.greater_equal
        kept = compare(ops.reshape(drawn[:size], (rows, width)), thresholds)
        return ops.reshape(kept, ops.shape(inputs))

    def _random_int8(self, size):
        """Returns at least `size` numbers, `[numbers]`."""
        seed = self.seed_generator
        if _step.value is not None:
            seed = _GivenSeed(self._fold_path(*_step.value))
        return ops.reshape(ops.view(_random_int32(((size + 3) // 4, 1), seed), "int8"), (-1,))

    def _fold_path(self, seed, draws):
        # The path, not the order of calls: a layer keeps its units when another layer is added. A
        # block shared by several encoder layers drops different units in each.
        offset = zlib.crc32(f"{self.path}{draws[self.path] or ''}".encode()) % 2**31
        draws[self.path] += 1
        # The only dtype that the backend's stateless draws accept on every device.
        dtype = "uint32" if keras.backend.backend() == "jax" else "int32"
        return ops.cast(seed, dtype) + ops.convert_to_tensor([0, offset], dtype=dtype)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

    def get_config(self) -> dict:
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
