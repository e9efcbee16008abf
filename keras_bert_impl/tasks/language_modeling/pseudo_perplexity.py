"""Pseudo-perplexity of texts according to a masked language model."""

from typing import Any

import numpy as np
from keras import ops

from keras_bert_impl.data.batches.batching import TokenizedTexts, flat_rows, in_one, padding
from keras_bert_impl.data.batches.blocks import in_blocks
from keras_bert_impl.layers.losses import cross_entropy
from keras_bert_impl.tasks.base.fitting import outputs_of_batch
from keras_bert_impl.tasks.language_modeling.base import Perplexity
from keras_bert_impl.tasks.language_modeling.masked_batches import masked_batches
from keras_bert_impl.utils.errors import InputError


def pseudo_perplexity(model: Any, texts: list, batch_size: int = 32) -> Perplexity:
    for position, text in enumerate(texts):
        if isinstance(text, tuple):
            raise InputError(f"pseudo_perplexity takes single texts. Text {position} is a pair.")
    num_tokens = _count_tokens(model, texts)
    if not num_tokens.sum():
        raise InputError("the texts have no tokens.")

    sums = in_blocks(lambda block: _sum_log_likelihoods(model, block, batch_size), texts)
    return Perplexity.of(sums, num_tokens)


def _sum_log_likelihoods(model, texts, batch_size):
    """Returns the pseudo-log-likelihoods of texts, float64 [texts]."""
    ids = model.tokenizer.tokenize(texts)
    limit = model.encoder.config.max_length
    limits = padding(model.tokenizer, limit, model.widths(limit))
    tokenized = TokenizedTexts(**in_one([flat_rows(model.tokenizer.pack(ids))]), **limits)
    num_tokens = ids.row_lengths().numpy()
    # Texts are sorted by length to reduce padding.
    order = np.argsort(num_tokens, kind="stable")
    rows = np.repeat(order, num_tokens[order])
    positions = np.concatenate([np.arange(1, count + 1) for count in num_tokens[order]])
    data = masked_batches(tokenized, rows, positions, model.tokenizer.mask_id, batch_size)
    values = [_compute_log_likelihoods(model, *batch) for batch in data] or [[]]
    return np.bincount(rows, np.concatenate(values).astype("float64"), minlength=len(texts))


def _compute_log_likelihoods(model, features, targets):
    """Returns the log probabilities of the masked tokens, float32 [rows]."""
    logits = outputs_of_batch(model, features)[:, 0]  # [rows, vocabulary]
    targets = ops.convert_to_numpy(targets)
    return -ops.convert_to_numpy(cross_entropy(targets, logits))


def _count_tokens(model, texts):
    """Counts the tokens without special tokens, int64 [texts]."""
    limit = model.encoder.config.max_length
    counts = in_blocks(lambda block: model.tokenizer.tokenize(block).row_lengths().numpy(), texts)
    for position in np.flatnonzero(counts + 2 > limit):
        raise InputError(
            f"text {position} has {counts[position] + 2} tokens including special tokens, but the "
            f"maximum of the model is {limit}. Split the text."
        )
    return counts
