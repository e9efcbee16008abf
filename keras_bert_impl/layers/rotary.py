"""Rotary positions."""

from typing import Any

import keras
import numpy as np
from keras import ops

Tensor = Any  # a tensor of any Keras backend


@keras.saving.register_keras_serializable("keras_bert_impl")
class RotaryPositions(keras.layers.Layer):
    """Rotary position embedding (RoPE) of queries or keys.

    Rotates each pair of dimensions `i` and `i + width / 2` of a head by `position * angle_i`, where
    `angle_i` is `base ** (-2 i / width)`. The product of a query and a key then depends only on the
    distance between their positions.

    Args:
        base: Base of the angles. A larger base distinguishes longer distances.

    Call arguments:
        inputs: `[batch, heads, length, width]`, with an even width.
        position_ids: int32 `[batch, length]`. None means 0, 1, 2, ...

    Returns:
        A tensor of the same shape.

    Source: Su et al. 2021, "RoFormer" (arXiv:2104.09864), section 3.2, with dimensions paired as
    in the code of GPT-NeoX.
    """

    def __init__(self, base: float, **kwargs) -> None:
        super().__init__(**kwargs)
        self.base = base

    def call(self, inputs: Tensor, position_ids: Tensor = None) -> Tensor:
        if position_ids is None:
            position_ids = ops.arange(ops.shape(inputs)[2], dtype="int32")[None]
        angles = self.base ** -np.linspace(0.0, 1.0, inputs.shape[-1] // 2, endpoint=False)
        # float32 under every dtype policy: bfloat16 cannot distinguish positions 256 and 257.
        positions = ops.cast(position_ids, "float32")[:, None, :, None]
        angles = positions * angles.astype("float32")  # [batch, 1, length, width / 2]
        cosine, sine = ops.cos(angles), ops.sin(angles)
        first, second = ops.split(ops.cast(inputs, "float32"), 2, axis=-1)
        rotated = [first * cosine - second * sine, second * cosine + first * sine]
        return ops.cast(ops.concatenate(rotated, axis=-1), self.compute_dtype)

    def compute_output_shape(
        self, inputs_shape: tuple, position_ids_shape: tuple | None = None
    ) -> tuple:
        return inputs_shape

    def get_config(self) -> dict:
        return {**super().get_config(), "base": self.base}
