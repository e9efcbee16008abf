"""Marks one segment of a pair as global tokens."""

from typing import Any

import keras
from keras import ops

Tensor = Any  # of any Keras backend


@keras.saving.register_keras_serializable("keras_bert_impl")
class SegmentMask(keras.layers.Layer):
    """Marks the tokens of one segment of a pair, up to a number of tokens.

    Args:
        segment: `"first"`: all tokens before the first separator, such as `<s>` and a question.
            `"second"`: all real tokens after the separators of the pair.
        sep_id: token id of the separator.
        num_separators: number of separators between the segments.
        limit: largest number of tokens to mark; later ones are not marked.

    Call arguments:
        token_ids, padding_mask: int32 `[rows, length]`.

    Returns:
        int32 `[rows, length]`, 1 for a marked token.

    Source: Beltagy et al. 2020 (arXiv:2004.05150), section 5 and appendix; the second segment of
    multiple choice: `LongformerForMultipleChoice` of `transformers`.
    """

    def __init__(
        self, segment: str, sep_id: int, num_separators: int, limit: int, **kwargs
    ) -> None:
        super().__init__(**kwargs)
        self.segment = segment
        self.sep_id = sep_id
        self.num_separators = num_separators
        self.limit = limit

    def call(self, token_ids: Tensor, padding_mask: Tensor) -> Tensor:
        is_separator = ops.cast(ops.equal(token_ids, self.sep_id), "int32")
        before = ops.cumsum(is_separator, axis=1) - is_separator  # separators before each token
        if self.segment == "first":
            chosen = ops.logical_and(ops.equal(before, 0), ops.equal(is_separator, 0))
        else:
            chosen = ops.greater_equal(before, self.num_separators)
        chosen = ops.cast(ops.logical_and(chosen, ops.not_equal(padding_mask, 0)), "int32")
        return chosen * ops.cast(ops.cumsum(chosen, axis=1) <= self.limit, "int32")

    def compute_output_spec(self, token_ids: Tensor, padding_mask: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(token_ids.shape, dtype="int32")

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "segment": self.segment,
            "sep_id": self.sep_id,
            "num_separators": self.num_separators,
            "limit": self.limit,
        }
