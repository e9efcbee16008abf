"""The first plots of a Keras user: the history of `fit`, a run, and without a file."""

import json

import keras
import numpy as np
import pytest

from keras_bert_impl import attention_map, learning_curves
from keras_bert_impl.utils.errors import InputError


def lines_of(figure):
    """Returns the x label, and a list of (x, y) for each line of the first axes."""
    axes = figure.axes[0]
    return axes.get_xlabel(), [line.get_xydata().tolist() for line in axes.get_lines()]


def test_curves_of_a_history_are_over_epochs():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((8, 2), "float32")
    history = model.fit(x, x[:, :1], epochs=3, validation_data=(x, x[:, :1]), verbose=0)
    expected = [
        [[epoch + 1, value] for epoch, value in enumerate(history.history[name])]
        for name in ("loss", "val_loss")
    ]
    assert lines_of(learning_curves(history)) == ("epochs", expected)
    assert lines_of(learning_curves(history.history)) == ("epochs", expected)
    # A run resumed with initial_epoch.
    later = model.fit(x, x[:, :1], initial_epoch=3, epochs=5, verbose=0)
    assert [x for x, _ in lines_of(learning_curves(later))[1][0]] == [4, 5]


def test_held_out_metrics_of_every_second_epoch():
    history = {"loss": [4.0, 3.0, 2.0, 1.0], "val_loss": [np.float32(3.5), np.float32(1.5)]}
    assert lines_of(learning_curves(history))[1][1] == [[2, 3.5], [4, 1.5]]


def test_curves_of_a_run_directory(tmp_path):
    lines = [{"step": 10, "loss": 2.0}, {"step": 20, "loss": 1.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert lines_of(learning_curves(str(tmp_path))) == ("optimizer steps", [[[10, 2], [20, 1]]])
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


@pytest.mark.parametrize("metrics", [3, ["loss"], {"loss": 0.5}])
def test_rejects_invalid_histories(metrics):
    with pytest.raises(InputError, match="metrics"):
        learning_curves(metrics)


def test_map_without_a_path_returns_a_figure():
    figure = attention_map(["[CLS]", "a", "[SEP]"], np.full([3, 3], 1 / 3))
    np.testing.assert_allclose(figure.axes[0].get_images()[0].get_array(), np.sqrt(1 / 3))
