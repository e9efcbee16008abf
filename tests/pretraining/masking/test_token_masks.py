"""Masked token ids and labels have the properties stated in the BERT paper."""

import numpy as np
import pytest
import tensorflow as tf

import keras_bert_impl
from keras_bert_impl.pretraining.masking.token_masks import mask_tokens
from keras_bert_impl.tokenizers import WordPieceTokenizer
from keras_bert_impl.utils.errors import InputError

PIECES = [f"{a}{b}" for a in "abcdefghij" for b in "abcdefghij"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PIECES, *(f"##{p}" for p in PIECES)]
TOKENIZER = WordPieceTokenizer(VOCABULARY)
SPECIAL = {TOKENIZER.pad_id, TOKENIZER.cls_id, TOKENIZER.sep_id, TOKENIZER.mask_id}


@pytest.fixture(scope="module")
def ids():
    """Rows of [CLS] ... [SEP] ... [SEP] with 40 to 60 tokens, padded to 60."""
    draw = np.random.default_rng(0)
    rows = np.full((400, 60), TOKENIZER.pad_id)
    for row in rows:
        length = draw.integers(40, 61)
        row[:length] = draw.integers(5, len(VOCABULARY), length)
        row[[0, length // 2, length - 1]] = TOKENIZER.cls_id, TOKENIZER.sep_id, TOKENIZER.sep_id
    return rows


def test_labels_are_the_original_ids_and_other_tokens_are_unchanged(ids):
    masked, labels = keras_bert_impl.mask_tokens(ids, TOKENIZER, seed=3)
    assert masked.dtype == labels.dtype == np.int32 and masked.shape == labels.shape == ids.shape
    mask = labels != -100
    assert (labels[mask] == ids[mask]).all() and (masked[~mask] == ids[~mask]).all()
    assert not SPECIAL & set(ids[mask])
    lengths = (ids != TOKENIZER.pad_id).sum(axis=1)
    assert mask.sum(axis=1).tolist() == [round(0.15 * length) for length in lengths]
    # Binomial: five standard deviations of a share p among n are 5 √(p (1 − p) / n).
    shares = [
        (masked[mask] == TOKENIZER.mask_id).mean(),
        (masked[mask] == labels[mask]).mean(),
    ]
    for share, p in zip(shares, (0.8, 0.1)):
        assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / mask.sum())


def test_seeds_decide(ids):
    for a, b in zip(mask_tokens(ids, TOKENIZER, seed=1), mask_tokens(ids, TOKENIZER, seed=1)):
        np.testing.assert_array_equal(a, b)
    assert (mask_tokens(ids, TOKENIZER, seed=1)[1] != mask_tokens(ids, TOKENIZER, seed=2)[1]).any()


@pytest.mark.parametrize("unit", ["word", "ngram", "span"])
def test_words_are_masked_as_a_whole(ids, unit):
    _, labels = mask_tokens(ids, TOKENIZER, mask_unit=unit, mask_rate=0.3)
    continues = np.array([piece.startswith("##") for piece in VOCABULARY])[ids]
    for row, mask in enumerate(labels != -100):
        assert mask.any()
        for place in np.flatnonzero(continues[row][1:]) + 1:
            if not {ids[row, place - 1], ids[row, place]} & SPECIAL:
                assert mask[place] == mask[place - 1]


def test_accepts_arrays_lists_and_tensors(ids):
    masked, labels = mask_tokens(ids, TOKENIZER)
    padded = np.stack([np.roll(row, (row == TOKENIZER.pad_id).sum()) for row in ids])
    assert (
        (mask_tokens(padded, TOKENIZER)[1] != -100).sum(axis=1) == (labels != -100).sum(axis=1)
    ).all()
    ragged = [row[row != TOKENIZER.pad_id].tolist() for row in ids]
    for value in (ids.tolist(), ids.astype("int64"), {"token_ids": ids}, ragged):
        np.testing.assert_array_equal(mask_tokens(value, TOKENIZER)[1], labels)
    masked_row, label = mask_tokens(ids[0], TOKENIZER)
    assert masked_row.shape == label.shape == (60,) and (label == labels[0]).all()
    eager = mask_tokens(tf.constant(ids), TOKENIZER)
    assert tf.is_tensor(eager[0]) and (eager[1].numpy() == labels).all()
    data = tf.data.Dataset.from_tensor_slices(ids).batch(400)
    data = data.enumerate().map(lambda seed, rows: mask_tokens(rows, TOKENIZER, seed=seed))
    np.testing.assert_array_equal(next(iter(data))[0].numpy(), masked)
    # Without special tokens all are candidates; of a short row, one is chosen.
    _, label = mask_tokens([7, 8], TOKENIZER)
    assert (label != -100).sum() == 1
    _, label = mask_tokens([[TOKENIZER.cls_id, TOKENIZER.sep_id]], TOKENIZER)
    assert (label == -100).all()
    features = TOKENIZER(["aa ab ac ad ae af ag ah ai aj"] * 3)
    labels = mask_tokens(features, TOKENIZER)[1].numpy()
    assert (labels != -100).sum(axis=1).tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("value", "settings", "message"),
    [
        ([[5, -1]], {}, "token_ids must be ids of the vocabulary, from 0 to 204. Received: -1"),
        ([[5, 205]], {}, "Received: 205"),
        ([[0.5]], {}, "token_ids must be integers"),
        (np.zeros((1, 2, 3), int), {}, "must be integers .batch, length. or .length."),
        ([[5, 6]], {"mask_rate": 1.5}, r"rate must be a number in \(0, 1\)"),
        ([[5, 6]], {"mask_split": (0.8, 0.1)}, "mask_split must be three fractions"),
        ([[5, 6]], {"mask_unit": "words"}, "Did you mean 'word'"),
        ([[5, 6]], {"seed": -1}, "seed must be an integer"),
    ],
)
def test_rejects_invalid_arguments(value, settings, message):
    with pytest.raises(InputError, match=message):
        mask_tokens(value, TOKENIZER, **settings)
