"""Poolings of `TextEmbedder`, with their Keras layers and exported networks."""

from typing import Any

from keras_bert_impl.layers import (
    LastPooling,
    MaxPooling,
    MeanPooling,
    MeanSqrtPooling,
    WeightedMeanPooling,
)
from keras_bert_impl.serving.graphs import layers
from keras_bert_impl.utils.errors import InputError

POOLINGS: dict[str, "Pooling"] = {}  # in the order of concatenation


class Pooling:
    """Computes a text vector from the hidden states of the tokens.

    Args:
        name: value of `pooling`, as in `sentence-transformers`.
        layer: class of a Keras layer, called with states `[rows, length, hidden]` and
            `padding_mask` `[rows, length]`. None: the vector is the state of the first token.
        write: function that adds the pooling to an exported graph, called with (graph, states,
            mask).
    """

    def __init__(self, name: str, layer: Any, write: Any) -> None:
        self.name, self.layer, self.write = name, layer, write
        POOLINGS[name] = self

    def __call__(self, states: Any, padding_mask: Any, name: str) -> Any:
        """Returns the vectors, `[rows, hidden]`."""
        if self.layer is None:
            return states[:, 0]
        return self.layer(dtype="float32", name=name)(states, padding_mask)


Pooling("cls", None, lambda graph, states, mask: layers.first_token(graph, states))
Pooling("max", MaxPooling, layers.max_pooling)
Pooling("mean", MeanPooling, layers.mean_pooling)
Pooling("mean_sqrt_len_tokens", MeanSqrtPooling, layers.mean_sqrt_pooling)
Pooling("weightedmean", WeightedMeanPooling, layers.weighted_mean_pooling)
Pooling("lasttoken", LastPooling, layers.last_token)


def check_poolings(names: list[str], where: Any) -> None:
    if not all(name in POOLINGS for name in names):
        pooling = ", ".join(names) or "an empty string"
        raise InputError(
            f"{where}: the pooling is {pooling}; it must be among {', '.join(POOLINGS)}."
        )


def poolings_of(pooling: str) -> list[Pooling]:
    names = pooling.split("+") if isinstance(pooling, str) else []
    ordered = [name for name in POOLINGS if name in names]
    if names != ordered or not names:
        right = f" Write pooling={'+'.join(ordered)!r}." if ordered else ""
        raise InputError(
            f"pooling must be one of {', '.join(POOLINGS)}, or several of them joined by '+' in "
            f"this order. Received: pooling={pooling!r:.60}.{right}"
        )
    return [POOLINGS[name] for name in names]
