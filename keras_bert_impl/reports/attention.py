"""Attention of one text by layer and head, and its rollout."""

from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.attribution.rows import features_of_first
from keras_bert_impl.models.encoder import encoders_run_by
from keras_bert_impl.tasks.inputs.words import Words

MOST_TOKENS = 64
_LONGEST_ROW = 512  # tokens; the attention of all layers and heads grows with its square


class TextAttention(NamedTuple):
    """Attention weights within one text.

    Attributes:
        tokens: first tokens of what the model reads, special tokens included. Several rows, such as
            the texts of an embedder, follow each other.
        features: int32 `[rows, length]` each, the encoder's inputs as in `predict`, up to the last
            token of the longest row.
        weights: float32 `[layers, heads, tokens, tokens]`; rows attend to columns, and sum to 1
            if no tokens are left out.
        rollout: float32 `[layers, tokens, tokens]`, of the whole rows; see `rollout`.
        is_cut: whether the text has more tokens.
    """

    tokens: list[str]
    features: dict[str, np.ndarray]
    weights: np.ndarray
    rollout: np.ndarray
    is_cut: bool


def text_attention(model: Any, text: Any, most: int = MOST_TOKENS) -> TextAttention:
    """Computes the attention of a text or example in the encoder, with the features of `predict`."""
    example = model.as_example(text)
    features = _encoder_features(model, example)
    lengths = features["padding_mask"].sum(axis=1)
    features = {name: value[:, : lengths.max()] for name, value in features.items()}
    detailed = model.encoder.with_outputs("attention_scores")
    tokens: list[str] = []
    weights, rollouts, is_cut = [], [], False
    for row, segments in enumerate(model.segments_of_rows(example)):
        length = min(int(lengths[row]), _LONGEST_ROW)
        kept = min(length, most - len(tokens))
        is_cut = is_cut or kept < _num_tokens(model.tokenizer, segments)
        if not kept:
            break
        of_row = {name: value[row : row + 1, :length] for name, value in features.items()}
        scores = detailed(of_row, training=False)["attention_scores"]
        whole = np.stack([np.asarray(layer)[0] for layer in scores]).astype("float32")
        weights.append(whole[:, :, :kept, :kept])
        rollouts.append(rollout(whole)[:, :kept, :kept])
        ids = of_row["token_ids"][0, :kept]
        tokens += [model.tokenizer.id_to_token(int(number)) for number in ids]
    return TextAttention(tokens, features, _diagonal(weights), _diagonal(rollouts), is_cut)


def _encoder_features(model, example):
    """Returns the features that reach the encoder for an example, int32 `[rows, length]` each."""
    rows, network = model.encoder_call(example)
    features = features_of_first(model, rows)
    found = []

    def recorded(compute, features):
        found.append(features)
        return compute(features)

    with encoders_run_by(recorded):
        network(features)
    return {name: np.asarray(value) for name, value in found[0].items() if value is not None}


def _num_tokens(tokenizer, segments):
    """Returns the number of tokens of a row that holds the whole segments."""
    texts = [text.text if isinstance(text, Words) else text for text in segments]
    special = 2 + (len(texts) > 1) * tokenizer.num_separators
    return special + int(tokenizer.tokenize(texts).row_lengths().numpy().sum())


def _diagonal(blocks):
    """Joins matrices `[..., n, n]` along the diagonal: tokens of other rows are not seen."""
    ends = np.cumsum([block.shape[-1] for block in blocks])
    joined = np.zeros((*blocks[0].shape[:-2], ends[-1], ends[-1]), "float32")
    for block, end in zip(blocks, ends):
        start = end - block.shape[-1]
        joined[..., start:end, start:end] = block
    return joined


def rollout(weights: np.ndarray) -> np.ndarray:
    """Computes the attention rollout up to each layer.

    Args:
        weights: float `[layers, heads, length, length]`, rows that sum to 1.

    Returns:
        float32 `[layers, length, length]`, rows that sum to 1.

    Source: Abnar and Zuidema 2020 (arXiv:2005.00928), section 3.
    """
    same = np.eye(weights.shape[-1])
    found = [same]
    for layer in weights.astype("float64").mean(axis=1):
        found.append((layer + same) / 2 @ found[-1])
    return np.stack(found[1:]).astype("float32")
