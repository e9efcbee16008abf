"""Masked token ids and labels in the format of Hugging Face's data collators."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bert_impl.pretraining.masking.masking import Masking, mask_rows, replacement_ids
from keras_bert_impl.pretraining.settings import check_mask_split
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import known_arguments
from keras_bert_impl.utils.settings import Seed, check

NO_LABEL = -100  # ignored by losses in PyTorch and `transformers`, by Keras's with `ignore_class`


@known_arguments("mask_tokens")
def mask_tokens(
    token_ids: Any,
    tokenizer: Tokenizer,
    mask_rate: float = 0.15,
    mask_unit: str = "token",
    mask_split: Sequence[float] = (0.8, 0.1, 0.1),
    max_predictions: int | None = None,
    seed: int | tf.Tensor = 0,
) -> tuple[Any, Any]:
    """Masks tokens for masked language modeling.

    In each row, `max(1, round(mask_rate * tokens))` tokens are chosen, as in BERT. The number
    `tokens` includes the special tokens, which are never masked. Rows with the same index in two
    batches get the same random numbers, so use a different seed for each batch.

    Args:
        token_ids: int array or list `[batch, length]` or `[length]` (rows of a list may differ in
            length), or a dict with `token_ids`, as returned by the tokenizer. In a graph, such as
            in `tf.data.Dataset.map`, the length must be static.
        mask_rate: Fraction of the tokens to predict, in (0, 1).
        mask_unit: Masking unit: `"token"`, `"word"`, `"ngram"` or `"span"`.
        mask_split: Fractions of the chosen tokens that become the mask token, become a random token
            or stay unchanged.
        max_predictions: Maximum number of predictions per row. None for no limit.
        seed: int, or int64 scalar tensor.

    Returns:
        (masked_ids, labels): int32 `[batch, length]` or `[length]`; tensors if `token_ids` is a
        tensor, otherwise NumPy arrays. Labels are the original ids of the chosen tokens, and -100
        for all other tokens.

    Raises:
        InputError: Ids are outside the vocabulary, or settings are invalid.

    Source: Devlin et al., "BERT", section 3.1.

    Example:
        ids = tokenizer(["the film was good"])["token_ids"]
        masked_ids, labels = mask_tokens(ids, tokenizer, seed=1)
    """
    if isinstance(token_ids, dict):
        token_ids = token_ids["token_ids"]
    if not tf.is_tensor(seed):
        seed = check("seed", seed, Seed)
    mask, random, _ = check_mask_split(mask_split)
    masking = Masking(mask_unit, mask_rate, max_predictions, mask=mask, random=random)
    rows = _convert_to_rows(token_ids, tokenizer)
    length = rows.shape[1]
    if length is None:
        raise InputError(
            "the length of token_ids must be static: pass length=... to the tokenizer."
        )
    masked = mask_rows(
        **rows_of_one_example(rows, tokenizer, mask_unit),
        epochs=tf.zeros(tf.shape(rows)[:1], tf.int64),
        seed=seed,
        masking=masking,
        mask_id=tokenizer.mask_id,
        replacements=replacement_ids(tokenizer),
        slots=masking.num_slots(max(length, 3), 1),
    )
    places = tf.where(masked.weights > 0, masked.positions, length)
    is_chosen = tf.reduce_any(tf.range(length) == places[..., tf.newaxis], axis=1)
    outputs = masked.token_ids, tf.where(is_chosen, rows, NO_LABEL)
    if _is_one_row(token_ids):
        outputs = outputs[0][0], outputs[1][0]
    return outputs if tf.is_tensor(token_ids) else tuple(part.numpy() for part in outputs)


def rows_of_one_example(
    token_ids: tf.Tensor, tokenizer: Tokenizer, mask_unit: str
) -> dict[str, Any]:
    """Returns arguments for `mask_rows`. Each row is one example, with padding at any position."""
    never = (tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id, tokenizer.pad_id)
    is_real = tf.cast(token_ids != tokenizer.pad_id, tf.int32)
    return {
        "rows": {
            "token_ids": token_ids,
            "example_ids": tf.ones_like(token_ids),
            "position_ids": tf.zeros_like(token_ids) + tf.range(token_ids.shape[1]),
            "example_lengths": tf.reduce_sum(is_real, axis=1, keepdims=True),
            "row_id": tf.range(tf.shape(token_ids, tf.int64)[0]),
        },
        "is_word_start": None if mask_unit == "token" else tokenizer.word_starts(token_ids),
        "is_special": tf.reduce_any([token_ids == special for special in never], axis=0),
    }


def _is_one_row(token_ids):
    if hasattr(token_ids, "shape"):
        return len(token_ids.shape) == 1
    return bool(len(token_ids)) and not hasattr(token_ids[0], "__len__")


def _convert_to_rows(token_ids, tokenizer):
    """Converts `token_ids` to an int32 tensor [batch, length]; pads lists of different lengths."""
    if isinstance(token_ids, tf.RaggedTensor):
        rows = token_ids.to_tensor(tokenizer.pad_id)
    elif hasattr(token_ids, "shape"):
        rows = tf.convert_to_tensor(token_ids)
    else:
        rows = [token_ids] if _is_one_row(token_ids) else token_ids
        rows = tf.ragged.constant([list(row) for row in rows], ragged_rank=1)
        rows = rows.to_tensor(tokenizer.pad_id)
    if rows.shape.rank == 1:
        rows = rows[tf.newaxis]
    if rows.shape.rank != 2 or not rows.dtype.is_integer:
        raise InputError(
            f"token_ids must be integers [batch, length] or [length]. Received: {rows.dtype.name} "
            f"{list(rows.shape)}"
        )
    if tf.executing_eagerly() and tf.size(rows):
        least, most = int(tf.reduce_min(rows)), int(tf.reduce_max(rows))
        if least < 0 or most >= tokenizer.vocabulary_size:
            raise InputError(
                "token_ids must be ids of the vocabulary, from 0 to "
                f"{tokenizer.vocabulary_size - 1}. "
                f"Received: {least if least < 0 else most}"
            )
    return tf.cast(rows, tf.int32)
