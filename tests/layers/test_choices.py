import numpy as np
from keras import ops

from keras_bert_impl.layers import ChoicesToRows, RowsToChoices
from tests.helpers import gradient, run_layer_test

MASK = np.array([[[1, 1], [1, 0], [0, 0]], [[1, 1], [1, 1], [1, 0]]], "int32")  # [2, 3, 2]


def test_a_row_for_each_choice(tmp_path):
    rows = run_layer_test(ChoicesToRows(), (MASK,), 0, tmp_path, output_dtype="int32")
    np.testing.assert_array_equal(rows, MASK.reshape(6, 2))


def test_padding_has_no_probability_and_no_gradient():
    logits = np.arange(6, dtype="float32")[:, None]
    choices = RowsToChoices()(logits, MASK)
    np.testing.assert_array_equal(choices, [[0, 1, -1e9], [3, 4, 5]])
    np.testing.assert_array_equal(ops.softmax(choices)[0, 2], 0)

    def loss(logits):
        return -ops.sum(ops.log_softmax(RowsToChoices()(logits, MASK))[:, 0])

    slopes = np.asarray(gradient(loss, logits))[:, 0]
    assert slopes[2] == 0
    weights = np.exp([0.0, 1.0]) / np.exp([0.0, 1.0]).sum()
    np.testing.assert_allclose(slopes[:2], weights - [1, 0], rtol=1e-6)
