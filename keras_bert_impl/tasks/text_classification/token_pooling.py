"""Pooling of all tokens of a sequence, instead of the encoder's published pooling."""

from typing import Any

from keras import ops

from keras_bert_impl.interop.layouts.bert import dense, kernel, optional
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.layers import MergeGroups, PoolWindows
from keras_bert_impl.models.encoder import Encoder

POOLINGS = ("mean", "max", "attention")
TOKEN_POOLING_TENSORS = optional(
    dense("pooling/dense", "token_attention.dense")
    + [kernel("pooling/score", "token_attention.score")]
)


def check_pooling(pooling: str | None) -> None:
    """Checks the name of a token pooling."""
    if pooling is not None and pooling not in list(POOLINGS):
        raise InputError(
            f"pooling must be one of {', '.join(POOLINGS)}, or None for the published one. "
            f"Received: pooling={pooling!r:.60}"
        )


def pooled_tokens(encoder: Encoder, pooling: str, features: dict[str, Any]) -> Any:
    """Returns the pooled vector of each sequence, `[rows, hidden]`.

    Args:
        features: dict of symbolic int32 tensors `[rows, length]`.
    """
    states = encoder(features)["sequence_output"]  # [rows, length, hidden]
    # Each token is pooled like a one-token window of a long document.
    pool = PoolWindows(
        pooling, encoder.config.initializer_range, dtype=encoder.dtype_policy, name="pooling"
    )
    merged = MergeGroups(dtype=encoder.dtype_policy, name="tokens")(states)
    return pool(merged, ops.expand_dims(features["padding_mask"], -1))
