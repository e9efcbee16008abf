"""Masking for masked language modeling. Masks are drawn in the graph during training.

B is the batch size, L the sequence length, E the number of examples per row, P the number of
prediction slots per row.
"""

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import tensorflow as tf

from keras_bert_impl.pretraining.masking.units import (
    below,
    random_bits,
    row_keys,
    take_units,
    units_of,
)
from keras_bert_impl.pretraining.objectives.replaced_tokens import DRAW_LIMIT
from keras_bert_impl.pretraining.settings import MASK_UNITS
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import Fraction, OneOf, PositiveInt, Share, validate

_NEVER_A_REPLACEMENT = re.compile(
    r"\[(?:PAD|UNK|CLS|SEP|MASK|unused\d+)\]|</?s>|<(?:pad|unk|mask|special\d+)>"
)


@dataclasses.dataclass(frozen=True)
class Masking:
    """Settings of masked language modeling: which tokens are predicted and what replaces them.

    Args:
        unit: Masking unit. `"token"`; `"word"` (whole-word masking); `"ngram"`, one to three words,
            where n words have a probability proportional to 1 / n; or `"span"`, one to ten words
            from a geometric distribution. All tokens of a span are replaced in the same way.
        rate: Fraction of the tokens to predict, in (0, 1).
        max_predictions: Maximum number of predictions per example. None for no limit.
        mask: Fraction of the chosen tokens replaced by the mask token.
        random: Fraction of the chosen tokens replaced by a random token; the other tokens stay
            unchanged.
        dupe_factor: Number of different masks per row (static masking). Epoch `e` uses mask `e %
            dupe_factor`. None means new masks in each epoch (dynamic masking).

    Source: Devlin et al., "BERT", section 3.1, and `create_pretraining_data.py` for static masking;
    Liu et al. 2019, section 4.1, for dynamic masking; for the units, see `units.units_of`.

    Example:
        from keras_bert_impl.pretraining import Masking
        Masking(unit="word", rate=0.2)
    """

    unit: Annotated[str, OneOf(*MASK_UNITS)] = "token"
    rate: Fraction = 0.15
    max_predictions: PositiveInt | None = None
    mask: Share = 0.8
    random: Share = 0.1
    dupe_factor: PositiveInt | None = None

    def __post_init__(self):
        validate(self)
        if self.mask + self.random > 1 + 1e-9:
            raise InputError(
                "the fractions of chosen tokens that are masked and randomly replaced must add up "
                f"to at most 1. Received: mask={self.mask}, random={self.random}"
            )

    def num_predictions(self, example_length: int) -> int:
        """Returns the number of tokens to predict in an example.

        The number is `rate` · `example_length`, rounded, but at least 1 and at most
        `max_predictions`. `example_length` includes [CLS] and [SEP]. A word or n-gram that would
        exceed the number is skipped, so fewer tokens may be predicted. A span that would exceed the
        number is truncated at the end of a word.
        """
        count = max(1, round(example_length * self.rate))
        return count if self.max_predictions is None else min(self.max_predictions, count)

    def num_slots(self, length: int, max_examples_per_row: int) -> int:
        """Returns the maximum number of predictions per row."""
        # By rounding, an example may have `excess` more predictions than `rate` · its length.
        excess = max(
            self.num_predictions(tokens) - self.rate * tokens for tokens in range(3, length + 1)
        )
        slots = math.floor(self.rate * length + max_examples_per_row * max(excess, 0.0) + 1e-9)
        if self.max_predictions is not None:
            slots = min(slots, max_examples_per_row * self.max_predictions)
        return max(slots, 1)


class Masked(NamedTuple):
    """The result of `mask_rows`. In unused slots, all values are 0.

    Attributes:
        token_ids: int32 [B, L]. Input ids after masking.
        positions: int32 [B, P]. Positions of the predicted tokens, ascending.
        ids: int32 [B, P]. Original ids of the predicted tokens.
        weights: float32 [B, P]. 1 for a used slot.
        span_starts, span_ends: int32 [B, P]. Positions of the first and last token of the masking
            unit that contains the predicted token.
        draws: int32 [B, P]. Random integers in [0, `DRAW_LIMIT`), used to sample the tokens of
            `replaced_token`.
    """

    token_ids: tf.Tensor
    positions: tf.Tensor
    ids: tf.Tensor
    weights: tf.Tensor
    span_starts: tf.Tensor
    span_ends: tf.Tensor
    draws: tf.Tensor


def replacement_ids(tokenizer: Tokenizer) -> list[int]:
    """Returns the ids allowed as random replacements: all except special and unused tokens."""
    return [
        index
        for index, token in enumerate(tokenizer.vocabulary)
        if not _NEVER_A_REPLACEMENT.fullmatch(token)
    ]


def mask_rows(
    rows: dict[str, tf.Tensor],
    epochs: tf.Tensor,
    seed: Any,
    masking: Masking,
    mask_id: int,
    replacements: Sequence[int],
    slots: int,
    is_word_start: tf.Tensor | None = None,
    is_special: tf.Tensor | None = None,
) -> Masked:
    """Chooses the tokens to predict and masks them."""
    token_ids = rows["token_ids"]
    length = token_ids.shape[1]
    if masking.dupe_factor is not None:
        epochs = epochs % masking.dupe_factor
    keys = row_keys(seed, epochs, rows["row_id"])[:, tf.newaxis]  # [B, 1]
    counts = _count_predictions(rows, masking)  # [B, E]
    if is_special is None:
        is_special = _is_special(rows)
    # Counters below `length` choose the units; the other random draws use higher counters.
    units = units_of(masking.unit, is_special, is_word_start, keys, 4 * length + 3)
    word_ends = None  # where a unit may be cut
    if masking.unit == "span":
        _, word_ends = units_of("word", is_special, is_word_start, keys, 0)
    positions = _choose(rows, units, is_special, counts, keys, slots, word_ends)  # [B, P]
    is_used = positions < length
    at = tf.where(is_used, positions, 0)

    def mask_unused(values):
        return tf.where(is_used, values, 0)

    original = tf.gather(token_ids, at, batch_dims=1)  # [B, P]
    starts, ends = (tf.gather(places, at, batch_dims=1) for places in units)
    if word_ends is not None:
        ends = starts + _count_chosen(positions, starts, ends, length)
    named_by = starts if masking.unit == "span" else positions
    action = below(random_bits(keys, named_by + length), 1 << 30)
    number = below(random_bits(keys, positions + 2 * length + 1), len(replacements))
    draws = below(random_bits(keys, positions + 3 * length + 2), DRAW_LIMIT)
    hidden = tf.where(
        action < int(masking.mask * (1 << 30)),
        mask_id,
        tf.where(
            action < int((masking.mask + masking.random) * (1 << 30)),
            tf.gather(tf.constant(replacements, tf.int32), number),
            original,
        ),
    )
    return Masked(
        token_ids=_write(token_ids, positions, hidden),
        positions=at,
        ids=mask_unused(original),
        weights=tf.cast(is_used, tf.float32),
        span_starts=mask_unused(starts),
        span_ends=mask_unused(ends - 1),
        draws=mask_unused(tf.cast(draws, tf.int32)),
    )


def _is_special(rows):
    """Returns whether each token is [CLS], [SEP] or padding: bool [B, L]."""
    example_ids, position_ids = rows["example_ids"], rows["position_ids"]
    first_lengths = per_token(rows["first_lengths"], example_ids)
    lengths = per_token(rows["example_lengths"], example_ids)
    return (
        (example_ids == 0)
        | (position_ids == 0)
        | (position_ids == first_lengths - 1)
        | (position_ids == lengths - 1)
    )


def _count_predictions(rows, masking):
    """Returns the target number of predictions per example: int32 [B, E]."""
    lengths = rows["example_lengths"]  # [B, E]
    # float64 with round-half-to-even, like Python's `round`
    counts = tf.round(tf.cast(lengths, tf.float64) * masking.rate)
    counts = tf.maximum(tf.cast(counts, tf.int32), 1)
    if masking.max_predictions is not None:
        counts = tf.minimum(counts, masking.max_predictions)
    return counts


def _count_chosen(positions, starts, ends, length):
    """Returns the number of chosen positions in each range [start, end): int32 [B, P]."""
    flags = _write(tf.zeros([tf.shape(positions)[0], length], tf.int32), positions, 1)
    count = tf.pad(tf.cumsum(flags, axis=1), [[0, 0], [1, 0]])
    return tf.gather(count, ends, batch_dims=1) - tf.gather(count, starts, batch_dims=1)


def _choose(rows, units, is_special, counts, keys, slots, word_ends):
    """Returns the chosen positions in ascending order, int32 [B, P]. Unused slots contain L."""
    example_ids, position_ids = rows["example_ids"], rows["position_ids"]  # [B, L]
    starts, ends = units
    length, num_examples = example_ids.shape[1], counts.shape[1]
    # A single sort keeps the examples in order and shuffles the units within each example, with
    # special tokens last. Sort key, from the highest bit: example, special, random, position.
    group = tf.where(example_ids == 0, num_examples + 1, example_ids)
    random_width, place_width = _choose_key_widths(length, num_examples)
    score = tf.bitwise.right_shift(
        random_bits(keys, starts), tf.constant(64 - random_width, tf.uint64)
    )
    sort_key = tf.cast(group, tf.int64) * 2 + tf.cast(is_special, tf.int64)
    sort_key = sort_key * (1 << random_width) + tf.cast(score, tf.int64)
    sort_key = sort_key * (1 << place_width) + tf.range(length, dtype=tf.int64)
    places = tf.bitwise.bitwise_and(tf.sort(sort_key), (1 << place_width) - 1)
    shuffled = tf.cast(places, tf.int32)  # [B, L]

    def gather_shuffled(values):
        return tf.gather(values, shuffled, batch_dims=1)

    first = tf.range(length) - position_ids  # start of the example, which sorting does not change
    is_open, budgets = ~gather_shuffled(is_special), per_token(counts, example_ids)
    if word_ends is not None:
        rest_of_word = gather_shuffled(word_ends - tf.range(length))
        is_chosen = is_open & (tf.range(length) - first + rest_of_word <= budgets)
    else:
        is_chosen = take_units(
            is_open=is_open,
            sizes=gather_shuffled(ends - starts),
            places_in_unit=gather_shuffled(tf.range(length) - starts),
            first=first,
            last=tf.maximum(first + per_token(rows["example_lengths"], example_ids) - 1, 0),
            left=budgets,
        )
    positions = tf.where(is_chosen, shuffled, length)
    return -tf.math.top_k(-positions, k=min(slots, length)).values


def _choose_key_widths(length, num_examples):
    """Returns the numbers of bits for the random number and for the position in a sort key."""
    place_width = (length - 1).bit_length()
    group_width = (num_examples + 1).bit_length()
    return min(39, 62 - group_width - place_width), place_width


def per_token(per_example: tf.Tensor, example_ids: tf.Tensor) -> tf.Tensor:
    """Returns the value of each token's example: [B, E] → [B, L]. Padding has the value 0."""
    return tf.gather(tf.pad(per_example, [[0, 0], [1, 0]]), example_ids, batch_dims=1)


def _write(token_ids, positions, values):
    """Returns `token_ids` with `values` at `positions`; position L (an unused slot) is ignored."""
    batch, length = tf.shape(token_ids)[0], token_ids.shape[1]
    padded = tf.pad(token_ids, [[0, 0], [0, 1]])
    row = tf.broadcast_to(tf.range(batch)[:, tf.newaxis], tf.shape(positions))
    values = tf.broadcast_to(values, tf.shape(positions))
    written = tf.tensor_scatter_nd_update(padded, tf.stack([row, positions], axis=-1), values)
    return written[:, :length]
