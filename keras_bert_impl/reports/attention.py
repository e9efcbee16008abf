"""Attention of one text by layer and head, and its rollout."""

from typing import Any, NamedTuple

import numpy as np

MOST_TOKENS = 64


class TextAttention(NamedTuple):
    """Attention weights within one text.

    Attributes:
        tokens: tokens of the row, special tokens included.
        token_ids: int32 `[length]`.
        weights: float32 `[layers, heads, length, length]`; rows attend to columns and sum to 1.
        is_cut: whether the text has more tokens.
    """

    tokens: list[str]
    token_ids: np.ndarray
    weights: np.ndarray
    is_cut: bool


def text_attention(model: Any, text: Any, most: int = MOST_TOKENS) -> TextAttention:
    """Computes the attention of a text or pair.

    Args:
        model: with `encoder` and `tokenizer`.
        text: a text, or a (first, second) pair.
        most: texts are truncated to this number of tokens. Default 64.
    """
    tokenizer, limit = model.tokenizer, min(most, model.encoder.config.max_length)
    whole = int(tokenizer([text])["token_ids"].shape[1])
    length = min(whole, limit)
    features = tokenizer([text], length=length)
    outputs = model.encoder.with_outputs("attention_scores")(features, training=False)
    weights = np.stack([np.asarray(scores)[0] for scores in outputs["attention_scores"]])
    ids = features["token_ids"].numpy()[0]
    tokens = [tokenizer.id_to_token(int(number)) for number in ids]
    return TextAttention(tokens, ids, weights.astype("float32"), whole > length)


def rollout(weights: np.ndarray) -> np.ndarray:
    """Computes the attention rollout up to each layer.

    The heads of a layer are averaged, and half of each row is the token itself, for the residual
    connection: `A = (mean + I) / 2`. The rollout of layer i is `A_i ... A_2 A_1`.

    Args:
        weights: float `[layers, heads, length, length]`, rows that sum to 1.

    Returns:
        float32 `[layers, length, length]`, rows that sum to 1.

    Source: Abnar and Zuidema 2020 (arXiv:2005.00928), section 3.

    Example:
        from keras_bert_impl.reports.attention import rollout
        rollout(np.full([2, 1, 2, 2], 0.5))[0].tolist()  # [[0.75, 0.25], [0.25, 0.75]]
    """
    same = np.eye(weights.shape[-1])
    found = [same]
    for layer in weights.astype("float64").mean(axis=1):
        found.append((layer + same) / 2 @ found[-1])
    return np.stack(found[1:]).astype("float32")
