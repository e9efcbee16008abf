"""Cross-entropy over a vocabulary in blocks, for the JAX backend.

The vocabulary is divided into blocks, and the logits are computed for one block at a time, to save
memory. For the gradient, the logits are computed again. See docs/decisions/cross-entropy.md for
measurements.

Shape legend: p = positions; v = vocabulary; w = width.
"""

from typing import Any

import jax
import jax.numpy as jnp

from keras_bert_impl.layers.heads import VocabularyLogits, VocabularyScores

_LARGEST_BLOCK = 4096  # tokens in a block
_TILE = 128  # Block sizes are multiples of this number, as accelerators require.
_NOTHING = -1e30  # logit of the padding in the last block; finite, because 0 times infinity is NaN


def vocabulary_scores(labels: Any, logits: VocabularyLogits) -> VocabularyScores:
    """Computes the cross-entropy and the accuracy at each position.

    Args:
        labels: integers `[...]`.
        logits: `VocabularyLogits` with states `[..., width]`.
    """
    labels = jnp.asarray(labels, "int32")
    states = logits.states.reshape(-1, logits.states.shape[-1])
    losses, hits = _compute_losses(labels.reshape(-1), states, logits.table, logits.bias)
    return VocabularyScores(losses.reshape(labels.shape), hits.reshape(labels.shape))


@jax.custom_vjp
def _compute_losses(labels, states, table, bias):
    return _run_forward(labels, states, table, bias)[0]


def _run_forward(labels, states, table, bias):
    def add(sums, block):
        highest, total, label_logits = sums  # each `[p]`
        logits, place, is_own = _compute_block(block, labels, states)
        block_logits = jnp.take_along_axis(logits, place, axis=-1, mode="clip")[:, 0]
        higher = jnp.maximum(highest, logits.max(-1))
        total = total * jnp.exp(highest - higher) + jnp.exp(logits - higher[:, None]).sum(-1)
        return (higher, total, jnp.where(is_own, block_logits, label_logits)), None

    positions = jnp.zeros(len(labels), "float32")
    first = positions + 2 * _NOTHING, positions, positions
    (highest, total, label_logits), _ = jax.lax.scan(
        add, first, _split_into_blocks(table, bias, states.dtype)
    )
    log_total = highest + jnp.log(total)
    hits = (label_logits >= highest).astype("float32")
    return (log_total - label_logits, hits), (labels, states, table, bias, log_total)


def _run_backward(residuals, slopes):
    labels, states, table, bias, log_total = residuals

    def add(summed, block):
        logits, place, _ = _compute_block(block, labels, states)
        softmax = jnp.exp(logits - log_total[:, None])
        is_label = jnp.arange(logits.shape[-1]) == place
        logit_gradient = (softmax - is_label) * slopes[0][:, None]  # [p, tokens in the block]
        rounded = logit_gradient.astype(states.dtype)
        summed += jnp.dot(rounded, block["table"], preferred_element_type="float32")
        table_part = jnp.dot(rounded.T, states, preferred_element_type="float32")
        return summed, (table_part, logit_gradient.sum(0))

    states_gradient = jnp.zeros(states.shape, "float32")
    states_gradient, parts = jax.lax.scan(
        add, states_gradient, _split_into_blocks(table, bias, states.dtype)
    )
    table_gradient, bias_gradient = (
        part.reshape(-1, *part.shape[2:])[: len(table)] for part in parts
    )
    return (
        None,
        states_gradient.astype(states.dtype),
        table_gradient.astype(table.dtype),
        bias_gradient,
    )


_compute_losses.defvjp(_run_forward, _run_backward)


def _split_into_blocks(table, bias, dtype):
    """Splits the table and the bias into blocks of the vocabulary; pads the last block."""
    count = -(-len(table) // _LARGEST_BLOCK)
    size = -(-len(table) // (count * _TILE)) * _TILE
    filling = count * size - len(table)
    table = jnp.pad(table.astype(dtype), [(0, filling), (0, 0)])
    bias = jnp.pad(bias, (0, filling), constant_values=_NOTHING)
    return {
        "table": table.reshape(count, size, -1),
        "bias": bias.reshape(count, size),
        "first": size * jnp.arange(count, dtype="int32"),
    }


def _compute_block(block, labels, states):
    """Returns (logits, index of each label in the block, whether the label is in the block)."""
    logits = jnp.dot(states, block["table"].T, preferred_element_type="float32") + block["bias"]
    place = labels - block["first"]
    return logits, place[:, None], (place >= 0) & (place < logits.shape[-1])
