import numpy as np
from keras import ops

from keras_bert_impl.layers import ChoiceLogits, MergeGroups, SplitGroups
from tests.helpers import gradient, run_layer_test

MASK = np.array([[[1, 1], [1, 0], [0, 0]], [[1, 1], [1, 1], [1, 0]]], "int32")  # [2, 3, 2]


def test_groups_to_rows(tmp_path):
    rows = run_layer_test(MergeGroups(), (MASK,), 0, tmp_path, output_dtype="int32")
    np.testing.assert_array_equal(rows, MASK.reshape(6, 2))


def test_rows_to_groups(tmp_path):
    rows = np.arange(24, dtype="float32").reshape(6, 4)
    groups = SplitGroups()(rows, MASK)
    np.testing.assert_array_equal(groups, rows.reshape(2, 3, 4))
    # The shared test needs inputs with equal numbers of rows, so each group has one row.
    run_layer_test(SplitGroups(), (rows[:2], MASK[:, :1]), 0, tmp_path)


def test_padding_has_no_probability_and_no_gradient():
    logits = np.arange(6, dtype="float32")[:, None]
    choices = ChoiceLogits()(logits, MASK)
    np.testing.assert_array_equal(choices, [[0, 1, -1e9], [3, 4, 5]])
    np.testing.assert_array_equal(ops.softmax(choices)[0, 2], 0)

    def loss(logits):
        return -ops.sum(ops.log_softmax(ChoiceLogits()(logits, MASK))[:, 0])

    slopes = np.asarray(gradient(loss, logits))[:, 0]
    assert slopes[2] == 0
    weights = np.exp([0.0, 1.0]) / np.exp([0.0, 1.0]).sum()
    np.testing.assert_allclose(slopes[:2], weights - [1, 0], rtol=1e-6)
