"""Features, labels and weights of a batch of rows, made in graph.

B is the batch size, L the row length, E the examples per row, P the prediction slots per row.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.pretraining.masking.masking import (
    Masking,
    mask_rows,
    per_token,
    replacement_ids,
)
from keras_bert_impl.pretraining.objectives.base import ENCODER_FEATURES
from keras_bert_impl.pretraining.settings import (
    MASKED_OBJECTIVES,
    OBJECTIVES,
    PAIR_OBJECTIVES,
    RECORDS_OBJECTIVES,
)
from keras_bert_impl.tokenizers import Tokenizer

Tensors = dict[str, tf.Tensor]
_OF_PAIRS = set(PAIR_OBJECTIVES)


def checked_objectives(
    manifest: dict[str, Any], objectives: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Validates the names of the objectives to make labels for."""
    made_for = RECORDS_OBJECTIVES[manifest["settings"]["objective"]]
    if objectives is None:
        objectives = made_for
    if not objectives or not set(objectives) <= set(OBJECTIVES):
        known = ", ".join(sorted(OBJECTIVES))
        raise InputError(f"objectives must be among {known}. Received: {list(objectives)}")
    missing = sorted((set(objectives) & _OF_PAIRS) - set(made_for))
    if missing:
        raise InputError(
            f"the records have no labels for {', '.join(missing)}, only for "
            f"{', '.join(made_for)}. Run prepare with another --objective."
        )
    if set(objectives) & _OF_PAIRS:
        records.check_pair_labels(manifest, "train")
    return tuple(objectives)


class Batcher:
    """Converts serialized rows to (features, labels, weights), in graph."""

    def __init__(
        self,
        manifest: dict[str, Any],
        tokenizer: Tokenizer,
        key: tf.Tensor,
        objectives: Iterable[str],
        masking: Masking,
    ) -> None:
        settings = manifest["settings"]
        self._length = settings["length"]
        self._manifest = manifest
        self._objectives = set(objectives)
        self._num_examples = max(
            manifest["splits"][split]["examples_in_fullest_row"] for split in records.SPLITS
        )
        self._tokenizer = tokenizer
        replacements = replacement_ids(tokenizer)
        if not replacements:
            raise InputError("the vocabulary has only special tokens, so nothing can be masked.")
        self._masking = {
            "seed": key,
            "masking": masking,
            "mask_id": tokenizer.mask_id,
            "replacements": replacements,
            "slots": masking.num_slots(self._length, self._num_examples),
        }
        none = np.zeros((1, settings["max_examples_per_row"]), np.int32)
        empty = dict.fromkeys(records.PER_EXAMPLE, none)
        empty["token_ids"] = np.full((1, self._length), tokenizer.pad_id, np.int32)
        (self.empty_row,) = records.serialize_rows(empty, tokenizer.vocabulary_size, first_id=0)

    def __call__(
        self, serialized: tf.Tensor, epochs: tf.Tensor
    ) -> tuple[Tensors, Tensors, Tensors]:
        rows = records.parse_rows(serialized, self._manifest)
        for name in records.PER_EXAMPLE:
            rows[name] = rows[name][:, : self._num_examples]  # [B, E]
        rows |= layout(
            rows["example_lengths"],
            rows["first_lengths"],
            self._length,
            self._tokenizer.segment_of_second,
        )
        features = {name: rows[name] for name in ENCODER_FEATURES}
        labeled: dict[str, tuple] = {}  # objective -> (labels, whether each is used)
        if self._objectives & set(MASKED_OBJECTIVES):
            self._mask(rows, epochs, features, labeled)
        for name in self._objectives & _OF_PAIRS:
            is_example = rows["example_lengths"] > 0
            features["cls_positions"] = tf.where(is_example, rows["starts"], 0)
            labeled[name] = rows["pair_labels"], is_example
        if "left_to_right" in self._objectives:
            labeled["left_to_right"] = _next_tokens(rows)
        labels = {name: ids for name, (ids, _) in labeled.items()}
        weights = {name: tf.cast(there, tf.float32) for name, (_, there) in labeled.items()}
        return features, labels, weights

    def _mask(self, rows, epochs, features, labeled):
        is_word_start = None
        if self._masking["masking"].unit != "token":
            is_word_start = self._tokenizer.word_starts(rows["token_ids"])
        masked = mask_rows(rows, epochs, is_word_start=is_word_start, **self._masking)
        features |= {"token_ids": masked.token_ids, "masked_positions": masked.positions}
        hidden = masked.ids, masked.weights
        if self._objectives & {"masked_lm", "replaced_token", "distillation"}:
            labeled["masked_lm"] = hidden
        if "span_boundary" in self._objectives:
            labeled["span_boundary"] = hidden
            features |= {"span_starts": masked.span_starts, "span_ends": masked.span_ends}
        if "replaced_token" in self._objectives:
            features["replacement_draws"] = masked.draws


def _next_tokens(rows):
    """Returns the token after each token, and whether it is in the same example."""

    def following(values):
        return tf.pad(values[:, 1:], [[0, 0], [0, 1]])

    example_ids = rows["example_ids"]
    there = (example_ids > 0) & (following(example_ids) == example_ids)
    return tf.where(there, following(rows["token_ids"]), 0), there


def layout(
    example_lengths: tf.Tensor, first_lengths: tf.Tensor, length: int, segment_of_second: int = 1
) -> Tensors:
    """Computes the example, position and segment of each token of packed rows."""
    ends = tf.cumsum(example_lengths, axis=1)  # [B, E]
    starts = ends - example_lengths
    place = tf.range(length)[tf.newaxis, :, tf.newaxis]  # [1, L, 1]
    index = tf.reduce_sum(tf.cast(place >= ends[:, tf.newaxis], tf.int32), axis=2)  # [B, L]
    is_real = tf.cast(index < example_lengths.shape[1], tf.int32)
    example_ids = (index + 1) * is_real
    position_ids = (tf.range(length) - per_token(starts, example_ids)) * is_real
    in_second = tf.cast(position_ids >= per_token(first_lengths, example_ids), tf.int32)
    return {
        "example_ids": example_ids,
        "position_ids": position_ids,
        "segment_ids": segment_of_second * in_second * is_real,
        "starts": starts,
    }
