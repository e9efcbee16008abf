"""Layers of parameter-efficient adapters; see `Adapter`."""

import re
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_impl.checkpoints.config import Adapter
from keras_bert_impl.layers.basic import ACTIVATIONS, Dense, Dropout


def freeze_parts(layer: keras.layers.Layer) -> None:
    """Freezes the sublayers of a layer that was created with `trainable=False`."""
    if not layer.trainable:
        layer.trainable = True  # Keras on TensorFlow ignores the assignment of an unchanged value.
        layer.trainable = False


Tensor = Any  # a tensor of any Keras backend

# Paths of the variables that adapters add.
ADDED = "(^|/)(lora|adapter|prefix|virtual_tokens)/"
_ACTIVATIONS = ACTIVATIONS | {"silu": ops.silu}
# Positions and activation of the bottlenecks, as in the published code of each method.
_BOTTLENECKS = {
    "houlsby": (("attention_output", "output"), "gelu"),
    "pfeiffer": (("output",), "relu"),
}


def dense(adapter: Adapter | None, place: str, units: int, **kwargs) -> Dense:
    """Creates a dense layer of a block.

    Args:
        adapter: `Adapter` of the encoder, if any.
        place: Name of the layer in the block. The layer gets adapter weights if the adapter
            applies to layers with this name.
    """
    if adapter is None:
        return Dense(units, **kwargs)
    if adapter.kind == "lora" and place in adapter.projections:
        return LoRADense(units, adapter.size, adapter.alpha, adapter.dropout, **kwargs)
    places, activation = _BOTTLENECKS.get(adapter.kind, ((), None))
    if place in places:
        activation = adapter.activation or activation
        return AdapterDense(units, adapter.size, activation, adapter.after_norm, **kwargs)
    return Dense(units, **kwargs)


def is_added(path: str) -> bool:
    """Returns whether the variable with this path belongs to an adapter."""
    return re.search(ADDED, path) is not None


@keras.saving.register_keras_serializable("keras_bert_impl")
class LoRADense(Dense):
    """Dense layer with LoRA: computes `activation(x W + alpha / rank * dropout(x) A B + b)`.

    B is initialized to 0, so a new layer has the same outputs as a plain dense layer.

    Unlike Keras's LoRA (`lora_rank`), this layer supports dropout and does not compute the gradient
    of W. A and B are saved separately and not merged into W.

    Args:
        rank: Number of columns of A and rows of B.
        alpha: Numerator of the scale `alpha / rank`.
        adapter_dropout: Dropout rate on the inputs of A.
        units, **kwargs: see `keras.layers.Dense`.

    Source: Hu et al. 2021, section 4.1; the initialization of A follows the published code.
    """

    def __init__(
        self, units: int, rank: int, alpha: float, adapter_dropout: float = 0.0, **kwargs
    ) -> None:
        super().__init__(units, **kwargs)
        self.lora = _LowRank(
            units, rank, alpha, adapter_dropout, dtype=self.dtype_policy, name="lora"
        )

    def build(self, inputs_shape: tuple) -> None:
        super().build(inputs_shape)
        self.lora.build(inputs_shape)
        freeze_parts(self)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        outputs = ops.matmul(inputs, self.kernel) + self.lora(inputs, training=training)
        if self.bias is not None:
            outputs = outputs + self.bias
        return outputs if self.activation is None else self.activation(outputs)

    def merged_kernel(self) -> np.ndarray:
        """Returns W plus the LoRA product, a float64 array `[inputs, units]`."""
        return np.asarray(self.kernel.numpy(), "float64") + self.lora.product()

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "rank": self.lora.rank,
            "alpha": self.lora.alpha,
            "adapter_dropout": self.lora.dropout.rate,
        }


class _LowRank(keras.layers.Layer):
    """Computes `alpha / rank * dropout(x) A B`."""

    def __init__(self, units: int, rank: int, alpha: float, dropout: float, **kwargs) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.rank = rank
        self.alpha = alpha
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, inputs_shape: tuple) -> None:
        uniform = keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")
        self.a = self.add_weight((inputs_shape[-1], self.rank), uniform, name="a")
        self.b = self.add_weight((self.rank, self.units), "zeros", name="b")
        self.dropout.build()
        self.built = True

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        narrow = ops.matmul(self.dropout(inputs, training=training), self.a)  # [..., rank]
        return ops.matmul(narrow * (self.alpha / self.rank), self.b)

    def product(self) -> np.ndarray:
        a, b = (np.asarray(weight.numpy(), "float64") for weight in (self.a, self.b))
        return self.alpha / self.rank * (a @ b)

    def compute_output_shape(self, inputs_shape: tuple) -> tuple:
        return (*inputs_shape[:-1], self.units)


@keras.saving.register_keras_serializable("keras_bert_impl")
class AdapterDense(Dense):
    """Dense layer followed by a bottleneck adapter; computes `y + activation(y D + c) U + e`.

    With `after_norm=True`, the layer computes only `y`, the output of the dense layer, and the
    transformer block calls `adapter` after the normalization.

    Source: Houlsby et al. 2019, section 2.1.
    """

    def __init__(
        self, units: int, width: int, adapter_activation: str, after_norm: bool = False, **kwargs
    ) -> None:
        super().__init__(units, **kwargs)
        self.after_norm = after_norm
        self.adapter = _Bottleneck(
            units, width, adapter_activation, dtype=self.dtype_policy, name="adapter"
        )

    def build(self, inputs_shape: tuple) -> None:
        super().build(inputs_shape)
        self.adapter.build((*inputs_shape[:-1], self.units))
        freeze_parts(self)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        outputs = super().call(inputs)
        return outputs if self.after_norm else outputs + self.adapter(outputs)

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "width": self.adapter.down.units,
            "adapter_activation": self.adapter.activation,
            "after_norm": self.after_norm,
        }


class _Bottleneck(keras.layers.Layer):
    def __init__(self, units: int, width: int, activation: str, **kwargs) -> None:
        super().__init__(**kwargs)
        self.activation = activation
        self.down = self._create_dense(width, "down", _ACTIVATIONS[activation])
        self.up = self._create_dense(units, "up")

    def _create_dense(self, units, name, activation=None):
        return Dense(
            units,
            activation=activation,
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=1e-2),
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, inputs_shape: tuple) -> None:
        self.down.build(inputs_shape)
        self.up.build((*inputs_shape[:-1], self.down.units))
        freeze_parts(self)
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        return self.up(self.down(inputs))


class _AddedTokens(keras.layers.Layer):
    """Base class of layers that prepend `num_tokens` trainable vectors to a sequence."""

    def __init__(self, num_tokens: int, initializer_range: float = 0.02, **kwargs) -> None:
        super().__init__(**kwargs)
        self.num_tokens = num_tokens
        self.initializer_range = initializer_range

    def _add_vectors(self, shape, name):
        normal = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
        return self.add_weight(shape, normal, name=name)

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "num_tokens": self.num_tokens,
            "initializer_range": self.initializer_range,
        }


@keras.saving.register_keras_serializable("keras_bert_impl")
class Prefix(_AddedTokens):
    """Prepends trainable keys and values, which every token attends to.

    Args:
        key, value: `[batch, heads, length, d]`, or with a window `[batch, heads, blocks, length,
            d]`.

    Returns:
        (key, value, bias) with `num_tokens` more keys.

    Source: Li & Liang 2021, section 4.2.
    """

    def build(self, key_shape: tuple, *args) -> None:
        shape = (key_shape[1], self.num_tokens, key_shape[-1])  # [heads, num_tokens, d]
        self.keys = self._add_vectors(shape, "keys")
        self.values = self._add_vectors(shape, "values")
        self.built = True

    def call(self, key: Tensor, value: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # Rotary positions are already applied to the keys. They are not applied to the prefix.
        bias = ops.pad(bias, [[0, 0]] * (len(bias.shape) - 1) + [[self.num_tokens, 0]])
        return self._place_in_front(self.keys, key), self._place_in_front(self.values, value), bias

    def _place_in_front(self, prefix, tensor):
        shape = list(ops.shape(tensor))
        shape[-2] = self.num_tokens
        # adds the batch axis and, with a window, the blocks axis
        while len(prefix.shape) < len(shape):
            prefix = ops.expand_dims(prefix, -3 if len(prefix.shape) == 4 else 0)
        return ops.concatenate([ops.broadcast_to(prefix, shape), tensor], axis=-2)


@keras.saving.register_keras_serializable("keras_bert_impl")
class VirtualTokens(_AddedTokens):
    """Prepends trainable vectors to the embeddings of every sequence.

    Args:
        num_tokens: number of vectors.
        initializer_range: standard deviation of the initial weights.

    Call arguments:
        embeddings: `[batch, length, hidden]`.

    Returns:
        `[batch, num_tokens + length, hidden]`.

    Source: Lester et al. 2021, section 2.
    """

    def build(self, embeddings_shape: tuple) -> None:
        self.vectors = self._add_vectors((self.num_tokens, embeddings_shape[-1]), "vectors")
        self.built = True

    def begin_as(self, embeddings: keras.layers.Layer, token_ids: Sequence[int]) -> None:
        """Initializes the vectors with the embeddings of randomly drawn tokens.

        Args:
            embeddings: `Embeddings` of a trained model.
            token_ids: Ids of the tokens to draw from. A token may be drawn several times.

        Source: Lester et al. 2021, section 3.2, "sampled vocabulary".
        """
        drawn = keras.random.randint((1, self.num_tokens), 0, len(token_ids))
        drawn = ops.take(ops.convert_to_tensor(token_ids), drawn)
        position_ids = ops.arange(self.num_tokens)[None] % (embeddings.max_length or 1)
        vectors = embeddings(drawn, position_ids=position_ids)[0]
        self.vectors.assign(ops.cast(vectors, self.vectors.dtype))

    def call(self, embeddings: Tensor) -> Tensor:
        shape = (ops.shape(embeddings)[0], *self.vectors.shape)
        vectors = ops.broadcast_to(ops.cast(self.vectors, embeddings.dtype), shape)
        return ops.concatenate([vectors, embeddings], axis=1)
