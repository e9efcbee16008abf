import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.tables.label_codec import (
    ChoiceLabels,
    ClassLabels,
    NumberLabels,
    ScoreLabels,
    SeveralLabels,
    WordLabels,
)
from keras_bert_impl.tasks.text_classification.next_sentence import FollowsLabels
from keras_bert_impl.utils.errors import InputError

NAMES = ["bad", "good", "odd"]


@pytest.mark.parametrize(
    ("codec", "labels", "expected"),
    [
        (ClassLabels(NAMES), ["good", "odd"], [1, 2]),
        (ClassLabels(NAMES), [[1], [2]], [1, 2]),
        (ClassLabels(NAMES), [1.0, 2.0], [1, 2]),
        (ClassLabels(NAMES), [[0, 1, 0], [0, 0, 1]], [[0, 1, 0], [0, 0, 1]]),
        (
            ClassLabels(NAMES, takes_soft=True),
            [[0.5, 0.5, 0], [0, 0, 1]],
            [[0.5, 0.5, 0], [0, 0, 1]],
        ),
        (SeveralLabels(NAMES), [[1, 1, 0], [0, 0, 0]], [[1, 1, 0], [0, 0, 0]]),
        (NumberLabels(1), [1, 2.5], [[1], [2.5]]),
        (NumberLabels(2), [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        (FollowsLabels(), [1, 0], [0, 1]),
        (ScoreLabels(1.0), [0.25, -1], [0.25, -1]),
        (ChoiceLabels(), [2, 0], [2, 0]),
        (ChoiceLabels(), [[0, 1], [1, 0]], [[0, 1], [1, 0]]),
        (WordLabels(NAMES), [[1, 2, -1], [0, -1, -1]], [[1, 2, -1], [0, -1, -1]]),
    ],
)
def test_host_and_graph_convert_alike(codec, labels, expected):
    on_host = codec.encode(labels, 2)
    in_graph = tf.function(codec.tensor)(tf.constant(labels))
    np.testing.assert_array_equal(on_host, expected)
    np.testing.assert_array_equal(in_graph, expected)
    assert np.asarray(on_host).dtype == in_graph.dtype.as_numpy_dtype


@pytest.mark.parametrize(
    ("codec", "labels"),
    [
        (ClassLabels(NAMES), ["good", "new"]),
        (ClassLabels(NAMES), [1, 3]),
        (ClassLabels(NAMES), [[0.5, 0.5, 0], [0, 0, 1]]),
        (ClassLabels(NAMES, takes_soft=True), [[0.5, 0.4, 0], [0, 0, 1]]),
        (SeveralLabels(NAMES), [[1, 2, 0], [0, 0, 0]]),
        (NumberLabels(1), [1, float("nan")]),
        (FollowsLabels(), [1, 2]),
        (ScoreLabels(1.0), [0.25, -1.5]),
        (ChoiceLabels(), [[0, 1], [1, 1]]),
        (WordLabels(NAMES), [[1, 2, 3], [0, -1, -1]]),
    ],
)
def test_host_and_graph_refuse_alike(codec, labels):
    with pytest.raises(InputError):
        codec.encode(np.array(labels), 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="labels"):
        tf.function(codec.tensor)(tf.constant(labels))
