"""Masks for the masked language model, drawn in graph while training: new ones each epoch.

B is the batch, L the length of a row, E the examples of a row, P its prediction slots.
"""

import math
import re

import tensorflow as tf

from keras_bert_impl.pretraining.random_bits import below, random_bits, row_keys

_NEVER_A_REPLACEMENT = re.compile(r"\[(?:PAD|UNK|CLS|SEP|MASK|unused\d+)\]")
_MASKED, _RANDOM = 0.8, 0.1  # of the chosen tokens; the rest stays as it is


def num_predictions(example_length, mask_rate=0.15, max_predictions=None):
    """How many tokens of an example are predicted: BERT's min(max, max(1, round(rate · length))).

    Args:
        example_length: int, tokens with [CLS] and [SEP].
        mask_rate: float.
        max_predictions: int, or None for no limit.

    Returns:
        int.
    """
    count = max(1, round(example_length * mask_rate))
    return count if max_predictions is None else min(max_predictions, count)


def num_slots(length, max_examples_per_row, mask_rate=0.15, max_predictions=None):
    """Prediction slots of a row that no packing of examples into it can exceed.

    Rounding gives an example at most a fixed excess over `mask_rate` · its length, so a full row
    of E examples has at most `mask_rate` · L + E · excess predictions.

    Args:
        length, max_examples_per_row: ints, L and E.
        mask_rate, max_predictions: as in `num_predictions`.

    Returns:
        int, P.
    """
    excess = max(
        num_predictions(tokens, mask_rate, max_predictions) - mask_rate * tokens
        for tokens in range(3, length + 1)
    )
    slots = math.floor(mask_rate * length + max_examples_per_row * max(excess, 0.0) + 1e-9)
    if max_predictions is not None:
        slots = min(slots, max_examples_per_row * max_predictions)
    return max(slots, 1)


def replacement_ids(tokenizer):
    """The ids that may replace a token at random: all but special and unused ones.

    Google's script draws from the whole vocabulary, those included.

    Args:
        tokenizer: with `vocabulary`.

    Returns:
        List of int.
    """
    return [
        index
        for index, piece in enumerate(tokenizer.vocabulary)
        if not _NEVER_A_REPLACEMENT.fullmatch(piece)
    ]


def mask_tokens(
    rows, epochs, seed, mask_id, replacements, slots, mask_rate=0.15, max_predictions=None
):
    """Chooses tokens to predict and hides them.

    Of each example, `num_predictions` tokens that are not [CLS], [SEP] or padding are chosen; of
    these, each for itself, 80 % become [MASK], 10 % a random piece, and 10 % stay. Every draw is a
    function of (seed, epoch, row, position): the batch it is in changes nothing.

    Args:
        rows: dict of `token_ids`, `example_ids`, `position_ids` int32 [B, L],
            `example_lengths`, `first_lengths` int32 [B, E], `row_id` int64 [B].
        epochs: int64 [B], the epoch each row is read in.
        seed: int.
        mask_id: int.
        replacements: list of int, of `replacement_ids`.
        slots: int, P of `num_slots`.
        mask_rate, max_predictions: as in `num_predictions`.

    Returns:
        (token_ids int32 [B, L], masked_positions int32 [B, P], masked_ids int32 [B, P],
        weights float32 [B, P]). Positions ascend; an unused slot has position, id and weight 0.

    Source: Devlin et al. 2018, section 3.1; dynamic masks: Liu et al. 2019, section 4.1.
    """
    token_ids = rows["token_ids"]
    length = token_ids.shape[1]
    keys = row_keys(seed, epochs, rows["row_id"])[:, tf.newaxis]  # [B, 1]
    counts = _prediction_counts(rows, mask_rate, max_predictions)  # [B, E]
    positions = _choose(rows, counts, keys, slots)  # [B, P]
    is_used = positions < length
    at = tf.where(is_used, positions, 0)
    original = tf.gather(token_ids, at, batch_dims=1)  # [B, P]
    # Counters from `length` on: those below it have chosen the positions.
    action = below(random_bits(keys, positions + length), 1 << 30)
    number = below(random_bits(keys, positions + 2 * length + 1), len(replacements))
    hidden = tf.where(
        action < int(_MASKED * (1 << 30)),
        mask_id,
        tf.where(
            action < int((_MASKED + _RANDOM) * (1 << 30)),
            tf.gather(tf.constant(replacements, tf.int32), number),
            original,
        ),
    )
    return (
        _write(token_ids, positions, hidden),
        at,
        tf.where(is_used, original, 0),
        tf.cast(is_used, tf.float32),
    )


def _prediction_counts(rows, mask_rate, max_predictions):
    lengths = rows["example_lengths"]  # [B, E]
    # float64 and round-half-to-even, as Python's `round`
    counts = tf.round(tf.cast(lengths, tf.float64) * mask_rate)
    counts = tf.maximum(tf.cast(counts, tf.int32), 1)
    if max_predictions is not None:
        counts = tf.minimum(counts, max_predictions)
    specials = 2 + tf.cast(rows["first_lengths"] < lengths, tf.int32)
    return tf.maximum(tf.minimum(counts, lengths - specials), 0)


def _choose(rows, counts, keys, slots):
    """int32 [B, P], the chosen positions in ascending order; L where a slot is not used."""
    example_ids, position_ids = rows["example_ids"], rows["position_ids"]  # [B, L]
    length, num_examples = example_ids.shape[1], counts.shape[1]
    # Gathered at `example_ids`, where 0 is padding and example e of a row is e + 1.
    first_lengths = _per_token(rows["first_lengths"], example_ids)
    lengths = _per_token(rows["example_lengths"], example_ids)
    is_special = (
        (position_ids == 0) | (position_ids == first_lengths - 1) | (position_ids == lengths - 1)
    )
    # One sort brings each example's tokens into random order, specials last, and examples stay
    # where they are: example (from bit 56), special (55), random (16 to 54), position (to 15).
    order = tf.range(length, dtype=tf.int64)
    score = tf.bitwise.right_shift(random_bits(keys, order), tf.constant(25, tf.uint64))
    group = tf.where(example_ids == 0, num_examples + 1, example_ids)
    sort_key = (
        tf.cast(group, tf.int64) * (1 << 56)
        + tf.cast(is_special, tf.int64) * (1 << 55)
        + tf.cast(score, tf.int64) * (1 << 16)
        + order
    )
    shuffled = tf.cast(tf.bitwise.bitwise_and(tf.sort(sort_key), 0xFFFF), tf.int32)  # [B, L]
    # So the rank of a token within its shuffled example is the position id of that place.
    is_chosen = position_ids < _per_token(counts, example_ids)
    chosen = tf.where(is_chosen, shuffled, length)
    return -tf.math.top_k(-chosen, k=min(slots, length)).values


def _per_token(per_example, example_ids):
    """[B, E] spread over the tokens, [B, L]; 0 at padding."""
    return tf.gather(tf.pad(per_example, [[0, 0], [1, 0]]), example_ids, batch_dims=1)


def _write(token_ids, positions, values):
    """`token_ids` with `values` at `positions`; the position L, of unused slots, writes nowhere."""
    batch, length = tf.shape(token_ids)[0], token_ids.shape[1]
    padded = tf.pad(token_ids, [[0, 0], [0, 1]])
    row = tf.broadcast_to(tf.range(batch)[:, tf.newaxis], tf.shape(positions))
    written = tf.tensor_scatter_nd_update(padded, tf.stack([row, positions], axis=-1), values)
    return written[:, :length]
