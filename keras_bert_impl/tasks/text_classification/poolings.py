"""Pooling of hidden states in `TextClassifier` and in exported networks."""

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop.layouts.bert import TensorName, dense, kernel, optional
from keras_bert_impl.layers import MergeGroups, PoolWindows
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.serving.graphs import layers, networks
from keras_bert_impl.utils.errors import InputError

POOLINGS: dict[str, "Pooling"] = {}


class Pooling:
    """Computes the vector of a text from the hidden states of the tokens.

    Args:
        name: value of the argument `pooling` of `TextClassifier`.
        pool: function of an encoder, the hidden states `[rows, length, hidden]` and the
            `padding_mask` `[rows, length]`. Returns vectors `[rows, hidden]`. If the function
            creates a layer with weights, the layer must be named `pooling`.
        write: function of (graph, config, states, mask) that adds the pooling to an exported graph.
        tensors: names of the weights of the pooling layer in files.
    """

    def __init__(
        self, name: str, pool: Callable, write: Callable, tensors: list[TensorName] | None = None
    ) -> None:
        self.name, self.pool, self.write, self.tensors = name, pool, write, tensors or []
        POOLINGS[name] = self


def pooling_named(name: str) -> Pooling:
    if not isinstance(name, str) or name not in POOLINGS:
        raise InputError(
            f"pooling must be one of {', '.join(POOLINGS)}, or None for the published pooling. "
            f"Received: pooling={name!r:.60}"
        )
    return POOLINGS[name]


def _create_window_pooling(way: str, tensors: list[TensorName] | None = None) -> Pooling:
    """Creates a `Pooling` with the layer `PoolWindows`."""

    def pool(encoder: Encoder, states: Any, padding_mask: Any) -> Any:
        policy = encoder.dtype_policy
        layer = PoolWindows(way, encoder.config.initializer_range, dtype=policy, name="pooling")
        tokens = MergeGroups(dtype=policy, name="tokens")(states)
        return layer(tokens, ops.expand_dims(padding_mask, -1))

    def write(graph: Any, config: EncoderConfig, states: Any, mask: Any) -> Any:
        mask = graph.add("Unsqueeze", mask, [2])
        return networks.pool_windows(graph, states, mask, config.hidden_dim, way, "pooling")

    return Pooling(way, pool, write, tensors)


def _take_first(encoder: Encoder, states: Any, padding_mask: Any) -> Any:
    if encoder.config.causal:
        raise InputError(
            "pooling='cls' takes the first token, which attends to no other token in a causal "
            "encoder. Use pooling='mean'."
        )
    return states[:, 0]


Pooling("cls", _take_first, lambda graph, config, states, mask: layers.first_token(graph, states))
_create_window_pooling("mean")
_create_window_pooling("max")
_create_window_pooling(
    "attention",
    optional(
        dense("pooling/dense", "token_attention.dense")
        + [kernel("pooling/score", "token_attention.score")]
    ),
)
