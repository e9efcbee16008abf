import itertools

import numpy as np
import pytest
import tensorflow as tf
import transformers

from keras_bert_impl.tokenizers import WordPieceTokenizer, pack_segments
from keras_bert_impl.utils.errors import InputError

IDS = {"cls_id": 2, "sep_id": 3, "pad_id": 0}


def test_packs_a_row():
    packed = pack_segments(tf.ragged.constant([[7, 8], [9]], tf.int32), **IDS)
    assert packed["token_ids"].numpy().tolist() == [[2, 7, 8, 3], [2, 9, 3, 0]]
    assert packed["padding_mask"].numpy().tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert packed["segment_ids"].numpy().tolist() == [[0] * 4] * 2
    assert {values.dtype for values in packed.values()} == {tf.int32}


def test_packs_two_segments():
    first, second = (tf.ragged.constant(rows, tf.int32) for rows in ([[7, 8]], [[9]]))
    packed = pack_segments(first, second, length=8, **IDS)
    assert packed["token_ids"].numpy().tolist() == [[2, 7, 8, 3, 9, 3, 0, 0]]
    assert packed["segment_ids"].numpy().tolist() == [[0, 0, 0, 0, 1, 1, 0, 0]]
    assert packed["padding_mask"].numpy().tolist() == [[1] * 6 + [0] * 2]


def test_length_is_rounded_up_to_a_multiple():
    rows = tf.ragged.constant([[7] * 7], tf.int32)
    shapes = [pack_segments(rows, multiple_of=m, **IDS)["token_ids"].shape[1] for m in (1, 8, 9)]
    assert shapes == [9, 16, 9]


def test_static_length_is_known_in_graph():
    def pack(values):
        return pack_segments(tf.RaggedTensor.from_tensor(values), length=16, **IDS)

    function = tf.function(pack, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    shapes = function.get_concrete_function().output_shapes
    assert [shape.as_list() for shape in shapes.values()] == [[None, 16]] * 3


def test_rows_in_graph_are_as_long_as_the_longest():
    signature = [tf.RaggedTensorSpec([None, None], tf.int32)] * 2

    @tf.function(input_signature=signature)
    def pack(first, second):
        return pack_segments(first, second, multiple_of=4, **IDS)

    first, second = (tf.ragged.constant(rows, tf.int32) for rows in ([[7, 8], []], [[9], [6]]))
    packed = pack(first, second)
    assert packed["token_ids"].numpy().tolist() == [
        [2, 7, 8, 3, 9, 3, 0, 0],
        [2, 3, 6, 3, 0, 0, 0, 0],
    ]
    empty = pack(first[:0], second[:0])
    assert {values.shape.as_list()[0] for values in empty.values()} == {0}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Our tokenizer and that of `transformers`, from the same directory."""
    directory = tmp_path_factory.mktemp("tokenizer")
    letters = [chr(ord("a") + i) for i in range(26)]
    ours = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters])
    ours.save_pretrained(directory)
    return ours, transformers.AutoTokenizer.from_pretrained(directory)


def assert_features_equal(features, expected):
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids"}
    names["padding_mask"] = "attention_mask"
    for ours, theirs in names.items():
        np.testing.assert_array_equal(features[ours], expected[theirs])


@pytest.mark.parametrize("length", [3, 4, 5, 6, 7, 8, 11, 12])
def test_truncation_of_pairs_equals_transformers(both, length):
    """Every pair of lengths from 0 to 9 at every row length, including ties and odd room."""
    ours, theirs = both
    sizes = list(itertools.product(range(10), repeat=2))
    first = [" ".join("abcdefghi"[:size]) for size, _ in sizes]
    second = [" ".join("rstuvwxyz"[:size]) for _, size in sizes]
    expected = theirs(first, second, truncation=True, max_length=length, padding="max_length")
    assert_features_equal(ours(list(zip(first, second)), length=length), expected)


def test_single_texts_equal_transformers(both):
    ours, theirs = both
    texts = ["", "a", "a b c", "a b c d e f"]
    assert_features_equal(ours(texts), theirs(texts, padding=True))
    for length in (2, 3, 6, 10):
        expected = theirs(texts, truncation=True, max_length=length, padding="max_length")
        assert_features_equal(ours(texts, length=length), expected)


@pytest.mark.parametrize(("pair", "length"), [(False, 1), (True, 2), (True, 0)])
def test_rejects_a_length_without_room_for_special_tokens(both, pair, length):
    with pytest.raises(InputError, match=f"length={length} has no room"):
        both[0]([("a", "b")] if pair else ["a"], length=length)


@pytest.mark.parametrize("num_separators", [1, 2])
@pytest.mark.parametrize("has_second", [False, True])
def test_rows_are_the_same_eagerly_and_in_a_graph(num_separators, has_second):
    generator = np.random.default_rng(0)

    def segment(batch):
        rows = [generator.integers(4, 99, generator.integers(0, 9)).tolist() for _ in range(batch)]
        return tf.ragged.constant(rows, tf.int32, ragged_rank=1)

    for batch in (0, 1, 40):
        first, second = segment(batch), segment(batch) if has_second else None
        masks = [None, generator.random(batch) < 0.5] if has_second else [None]
        for is_pair, (length, multiple_of) in itertools.product(
            masks, [(4, 1), (5, 1), (10, 1), (30, 1), (None, 1), (None, 8)]
        ):

            def pack():
                return pack_segments(
                    first,
                    second,
                    is_pair=is_pair,
                    length=length,
                    multiple_of=multiple_of,
                    num_separators=num_separators,
                    **IDS,
                )

            for name, values in tf.function(pack)().items():
                np.testing.assert_array_equal(pack()[name], values)
                assert pack()[name].dtype == values.dtype
