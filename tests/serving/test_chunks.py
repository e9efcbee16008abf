"""Processing rows in chunks: results do not depend on the chunks, and no batch is empty."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.serving import chunks


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
    made = in_graph({"token_ids": tf.constant(ids)})
    np.testing.assert_array_equal(made["doubled"], np.reshape(2 * ids, (count, 3)))
    np.testing.assert_array_equal(made["positive"], ids[ids > 0])


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
