"""One vector of a row of tokens: a pooling of all of them in place of the published one."""

from keras import ops

from keras_bert_impl.interop.layouts.names import dense, kernel, optional
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.layers import MergeGroups, PoolWindows

POOLINGS = ("mean", "max", "attention")
TOKEN_POOLING_TENSORS = optional(
    dense("pooling/dense", "token_attention.dense")
    + [kernel("pooling/score", "token_attention.score")]
)


def check_pooling(pooling):
    """Refuses what is no pooling of tokens.

    Raises:
        InputError: says which there are.
    """
    if pooling is not None and pooling not in list(POOLINGS):
        raise InputError(
            f"pooling must be one of {', '.join(POOLINGS)}, or None for the published one. "
            f"Received: pooling={pooling!r:.60}"
        )


def pooled_tokens(encoder, pooling, features):
    """The network from the features of rows to a vector of each, `[rows, hidden]`.

    Args:
        encoder: `Encoder`.
        pooling: str, as checked by `check_pooling`.
        features: dict of symbols, int32 `[rows, length]`.
    """
    states = encoder(features)["sequence_output"]  # [rows, length, hidden]
    # A token is pooled as the window of a document is, of one token.
    pool = PoolWindows(
        pooling, encoder.config.initializer_range, dtype=encoder.dtype_policy, name="pooling"
    )
    merged = MergeGroups(dtype=encoder.dtype_policy, name="tokens")(states)
    return pool(merged, ops.expand_dims(features["padding_mask"], -1))
