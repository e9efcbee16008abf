"""Processing rows in chunks: results do not depend on the chunks, no batch is empty, and rows of
similar length are computed together."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.serving.graphs import chunks


@tf.function(autograph=False)
def doubled(rows):
    """Returns doubled rows, and a ragged result: the positive ids."""
    ids = rows["token_ids"]
    some = tf.debugging.assert_positive(tf.shape(ids)[0], "a batch of none")
    with tf.control_dependencies([some]):
        return {"doubled": 2 * ids, "positive": tf.boolean_mask(ids, ids > 0)}


@pytest.mark.parametrize("count", [0, 1, 5, 64])
@pytest.mark.parametrize("tokens_of_part", [1, 6, 1000])
def test_parts_make_the_whole(monkeypatch, count, tokens_of_part):
    monkeypatch.setattr(chunks, "_TOKENS", tokens_of_part)
    ids = np.random.default_rng(0).integers(-3, 4, (count, 3)).astype("int32")
    spec = {"token_ids": tf.TensorSpec([None, None], tf.int32)}
    in_graph = tf.function(lambda rows: chunks.in_chunks(doubled, rows), input_signature=[spec])
    outputs = in_graph({"token_ids": tf.constant(ids)})
    np.testing.assert_array_equal(outputs["doubled"], np.reshape(2 * ids, (count, 3)))
    np.testing.assert_array_equal(outputs["positive"], ids[ids > 0])


@pytest.mark.parametrize(
    "length, sizes",
    [
        (3, [4, 4, 3]),  # 6 without buckets
        (8, [2] * 5 + [1]),
        (9, [2] * 5 + [1]),  # no bucket
        (2, [9, 2]),  # buckets for less than half of 9
        (1, [11]),  # buckets of length 4
    ],
)
def test_parts_fill_buckets(monkeypatch, length, sizes):
    """Each row reports the size of its batch."""
    monkeypatch.setattr(chunks, "_TOKENS", 18)

    @tf.function(autograph=False)
    def counted(rows):
        ids = rows["token_ids"]
        return {"count": tf.fill([tf.shape(ids)[0]], tf.shape(ids)[0])}

    buckets = [(1, 4), (4, 4), (2, 8)]
    spec = {"token_ids": tf.TensorSpec([None, None], tf.int32)}
    in_graph = tf.function(
        lambda rows: chunks.in_chunks(counted, rows, buckets=buckets), input_signature=[spec]
    )
    received = in_graph({"token_ids": tf.ones([11, length], tf.int32)})["count"]
    np.testing.assert_array_equal(received, np.repeat(sizes, sizes))


def masks(lengths, width):
    """Returns features whose rows have these numbers of tokens."""
    mask = (np.arange(width) < np.reshape(lengths, (-1, 1))).astype("int32")
    ids = np.random.default_rng(0).integers(1, 9, mask.shape).astype("int32") * mask
    return {"token_ids": tf.constant(ids), "padding_mask": tf.constant(mask)}


@tf.function(autograph=False)
def seen(rows):
    """Returns the sum of each row, and the number and the length of the rows it came with."""
    ids = rows["token_ids"]
    some = tf.debugging.assert_positive(tf.shape(ids)[0], "a batch of none")
    with tf.control_dependencies([some]):
        shape = tf.ones([tf.shape(ids)[0], 1], tf.int32) * tf.shape(ids)[:: ids.shape.rank - 1]
        return {"sum": tf.reduce_sum(ids, axis=list(range(1, ids.shape.rank))), "shape": shape}


def by_length(rows, least_length=1):
    """Returns the results of `seen` in graph mode, in the order of length, and the sorted rows."""
    specs = {name: tf.TensorSpec([None] * row.shape.rank, row.dtype) for name, row in rows.items()}

    @tf.function(autograph=False, input_signature=[specs])
    def run(rows):
        rows, order = chunks.sorted_by_length(rows)
        return chunks.in_chunks_by_length(seen, rows, least_length), rows, order

    return run(rows)


@pytest.mark.parametrize("tokens_of_a_run", [0, 7, 64, 10_000])
@pytest.mark.parametrize("most", [1, 100, 10_000])
def test_chunks_by_length_hold_little_padding(monkeypatch, tokens_of_a_run, most):
    monkeypatch.setattr(chunks, "_TOKENS_OF_A_RUN", tokens_of_a_run)
    monkeypatch.setattr(chunks, "_TOKENS", most)
    lengths = np.random.default_rng(1).integers(1, 50, 40)
    rows = masks(lengths, 60)
    results, _, order = by_length(rows)
    np.testing.assert_array_equal(results["sum"], np.sum(rows["token_ids"], axis=1)[order])
    lengths, (sizes, widths) = lengths[order], np.transpose(results["shape"])
    start = 0
    while start < 40:
        size, width = sizes[start], widths[start]
        end = start + size
        assert set(sizes[start:end]) == {size} and set(widths[start:end]) == {width}
        assert width == lengths[start]  # cut to the longest
        padding = np.cumsum(width - lengths[start:])
        assert size == 1 or (padding[size - 1] <= tokens_of_a_run and size * width <= most)
        # One more row would have been too many.
        assert end == 40 or padding[size] > tokens_of_a_run or (size + 1) * width > most
        start = end


def test_rows_of_one_length_stay_together():
    results = by_length(masks([20] * 50, 33))[0]
    np.testing.assert_array_equal(results["shape"], [[50, 20]] * 50)


def test_a_row_without_tokens_stays_whole_and_nothing_stays_nothing():
    results = by_length(masks([0, 3], 9))[0]
    np.testing.assert_array_equal(results["shape"], [[2, 9]] * 2)
    for width in (0, 9):
        assert by_length(masks([], width))[0]["sum"].shape == (0,)


def test_chunks_are_not_cut_below_the_least_length():
    results = by_length(masks([2, 3], 9), least_length=5)[0]
    np.testing.assert_array_equal(results["shape"], [[2, 5]] * 2)
    results = by_length(masks([2, 3], 4), least_length=5)[0]
    np.testing.assert_array_equal(results["shape"], [[2, 4]] * 2)


def test_tokens_after_a_gap_are_kept():
    rows = {name: tf.reverse(row, [1]) for name, row in masks([2, 5], 6).items()}
    results, _, order = by_length(rows)
    np.testing.assert_array_equal(results["sum"], np.sum(rows["token_ids"], axis=1)[order])


def test_groups_of_rows_are_as_long_as_their_longest(monkeypatch):
    monkeypatch.setattr(chunks, "_TOKENS_OF_A_RUN", 4)
    rows = masks([1, 4, 2, 2, 5, 0, 4, 4], 7)
    rows = {name: tf.reshape(row, [4, 2, 7]) for name, row in rows.items()}
    results, _, order = by_length(rows)
    np.testing.assert_array_equal(order, [2, 0, 3, 1])
    np.testing.assert_array_equal(results["sum"], np.sum(rows["token_ids"], axis=(1, 2))[order])
    # Lengths 5; 4 and 4; 2: one position more is two tokens of a group.
    np.testing.assert_array_equal(results["shape"], [[3, 5]] * 3 + [[1, 2]])
