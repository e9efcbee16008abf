"""Cache of the keys and values of earlier tokens, for text generation."""

import dataclasses
from typing import Any

from keras import ops

Tensor = Any  # a tensor of any Keras backend


@dataclasses.dataclass
class KeyValueCache:
    """Keys and values of earlier tokens in one layer, `[batch, heads, tokens, width]`."""

    key: Tensor
    value: Tensor

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Appends keys and values of new tokens; returns all keys and values."""
        self.key = ops.concatenate([self.key, key], axis=2)
        self.value = ops.concatenate([self.value, value], axis=2)
        return self.key, self.value
