"""The likelihood of texts to a masked language model."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_impl.errors import InputError
from keras_bert_impl.tasks.batching import TokenizedTexts, chunks_of, flat_rows, in_one, padding
from keras_bert_impl.tasks.masked_rows import masked_batches
from keras_bert_impl.training.cross_entropy import cross_entropy


class PseudoPerplexity(NamedTuple):
    """How well the tokens of a corpus are guessed.

    Attributes:
        perplexity: float, of the whole corpus: e to the power of the mean over its tokens of the
            negative log likelihood.
        log_likelihoods: float64 [texts], the pseudo-log-likelihood of each, in nats; 0 where there
            is no token.
        num_tokens: int64 [texts].
    """

    perplexity: float
    log_likelihoods: np.ndarray
    num_tokens: np.ndarray


def pseudo_perplexity(model, texts, batch_size=32):
    """See `MaskedLM.pseudo_perplexity`; `model` is a `MaskedLM`."""
    tokenized = _tokenize(model, texts)
    num_tokens = tokenized.lengths.numpy().astype("int64") - 2
    if not num_tokens.sum():
        raise InputError("the texts have no tokens.")
    # Rows of one text follow each other, shortest text first: hardly any padding.
    order = np.argsort(num_tokens, kind="stable")
    rows = np.repeat(order, num_tokens[order])
    places = np.concatenate([np.arange(1, count + 1) for count in num_tokens[order]])
    data = masked_batches(tokenized, rows, places, model.tokenizer.mask_id, batch_size)

    def log_likelihood(features, targets):
        logits = model(features, training=False)[:, 0]  # [rows, vocabulary]
        return -cross_entropy(targets, logits)

    log_likelihood = tf.function(log_likelihood, input_signature=data.element_spec, autograph=False)
    values = np.concatenate([log_likelihood(*batch).numpy() for batch in data])
    sums = np.bincount(rows, values.astype("float64"), minlength=len(num_tokens))
    return PseudoPerplexity(float(np.exp(-sums.sum() / num_tokens.sum())), sums, num_tokens)


def _tokenize(model, texts):
    """`TokenizedTexts` of whole texts."""
    limit = model.encoder.config.max_length
    if isinstance(texts, (str, bytes)) or not len(texts):
        raise InputError(f"pseudo_perplexity takes a list of texts. Received: {texts!r:.60}")
    chunks = []
    for start, chunk in chunks_of(texts):
        ids = model.tokenizer.tokenize(chunk)
        lengths = ids.row_lengths().numpy() + 2
        for position in np.flatnonzero(lengths > limit):
            raise InputError(
                f"text {start + position} has {lengths[position]} tokens with the special ones, "
                f"of which the model takes {limit}; cut it into parts."
            )
        chunks.append(flat_rows(model.tokenizer.pack(ids)))
    return TokenizedTexts(**in_one(chunks), **padding(model.tokenizer, limit))
