"""Keras losses on the logits of a task model.

The reference is the same Keras loss on the output of `predict`.
"""

import functools

import keras
import numpy as np
import pytest
import sklearn.metrics
from keras import ops

from keras_bert_impl.data.tables.labels import MULTI, REGRESSION, SINGLE
from keras_bert_impl.tasks.base.keras_losses import (
    Outputs,
    TaskLoss,
    TaskMetric,
)
from keras_bert_impl.utils.errors import InputError
from tests.tasks.base.logits import label, logits_and_labels, one_hot, softmax

losses, metrics = keras.losses, keras.metrics


def gradient_norm(loss, labels, logits):
    import tensorflow as tf

    logits = tf.Variable(logits)
    with tf.GradientTape() as tape:
        value = loss(labels, logits)
    return float(tf.norm(tape.gradient(value, logits)))


# === Losses ===


@pytest.mark.parametrize(
    "loss",
    [
        "sparse_categorical_crossentropy",
        "crossentropy",
        losses.sparse_categorical_crossentropy,
        losses.SparseCategoricalCrossentropy(),
        losses.SparseCategoricalCrossentropy(from_logits=True),
        losses.SparseCategoricalCrossentropy,
        functools.partial(losses.sparse_categorical_crossentropy, from_logits=True),
        "categorical_crossentropy",
        losses.CategoricalCrossentropy(),
        losses.CategoricalCrossentropy(from_logits=True),
        ["categorical_crossentropy"],
    ],
    ids=label,
)
@pytest.mark.parametrize("num_classes", [2, 5])
def test_every_name_of_the_cross_entropy_gives_the_same_loss(loss, num_classes):
    logits, labels = logits_and_labels(num_classes)
    expected = sklearn.metrics.log_loss(labels, softmax(logits).astype("float64"))
    for targets in (labels, one_hot(labels, num_classes)):
        assert float(
            TaskLoss(loss, Outputs(SINGLE, num_classes))(targets, logits)
        ) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "loss", ["binary_crossentropy", losses.BinaryCrossentropy(from_logits=True)], ids=label
)
def test_binary_cross_entropy_of_two_classes(loss):
    logits, labels = logits_and_labels(2)
    expected = sklearn.metrics.log_loss(labels, softmax(logits)[:, 1].astype("float64"))
    assert float(TaskLoss(loss, Outputs(SINGLE, 2))(labels, logits)) == pytest.approx(
        expected, rel=1e-5
    )


@pytest.mark.parametrize(
    "loss",
    [
        losses.CategoricalCrossentropy(label_smoothing=0.1),
        losses.CategoricalFocalCrossentropy(),
        "mse",
        "kl_divergence",
        losses.CategoricalFocalCrossentropy(label_smoothing=0.1, gamma=1.5),
        losses.Dice(axis=-1),
    ],
    ids=label,
)
def test_other_losses_get_probabilities(loss):
    logits, labels = logits_and_labels(4)
    oracle = losses.get(loss)
    expected = np.mean(ops.convert_to_numpy(oracle(one_hot(labels, 4), softmax(logits))))
    assert float(TaskLoss(loss, Outputs(SINGLE, 4))(labels, logits)) == pytest.approx(
        expected, rel=1e-4
    )


@pytest.mark.parametrize("loss", ["categorical_hinge", losses.CategoricalHinge()], ids=label)
def test_hinge_losses_get_logits(loss):
    logits, labels = logits_and_labels(4)
    expected = float(losses.CategoricalHinge()(one_hot(labels, 4), logits))
    assert float(TaskLoss(loss, Outputs(SINGLE, 4))(labels, logits)) == pytest.approx(expected)


@pytest.mark.parametrize(
    "loss", ["sparse_categorical_crossentropy", "binary_crossentropy", "categorical_crossentropy"]
)
@pytest.mark.on_tensorflow
def test_confident_mistake_has_a_gradient(loss):
    logits = np.array([[40.0, -40.0]], "float32")  # the other probability rounds to 0
    assert gradient_norm(TaskLoss(loss, Outputs(SINGLE, 2)), np.array([1]), logits) > 0.9


def test_multi_label_losses():
    logits, _ = logits_and_labels(3)
    labels = (np.random.default_rng(1).random((40, 3)) < 0.5).astype("float32")
    outputs = Outputs(MULTI, 3)
    expected = np.mean(
        [
            sklearn.metrics.log_loss(
                labels[:, i], 1 / (1 + np.exp(-logits[:, i].astype("float64")))
            )
            for i in range(3)
        ]
    )
    for loss in ("binary_crossentropy", losses.BinaryCrossentropy(from_logits=True), "ce"):
        assert float(TaskLoss(loss, outputs)(labels, logits)) == pytest.approx(expected, rel=1e-5)
    focal = losses.BinaryFocalCrossentropy()
    expected = float(focal(labels, 1 / (1 + np.exp(-logits))))
    assert float(TaskLoss(focal, outputs)(labels, logits)) == pytest.approx(expected, rel=1e-5)


def test_user_defined_losses_get_labels_and_probabilities():
    logits, labels = logits_and_labels(3)

    def of_right_class(y_true, y_pred):
        return 1 - ops.take_along_axis(y_pred, ops.cast(y_true, "int32")[:, None], axis=1)[:, 0]

    expected = np.mean(1 - softmax(logits)[np.arange(40), labels])
    assert float(TaskLoss(of_right_class, Outputs(SINGLE, 3))(labels, logits)) == pytest.approx(
        expected, rel=1e-5
    )

    def of_logits(y_true, y_pred, from_logits=True):
        return ops.max(y_pred, axis=-1)

    assert float(TaskLoss(of_logits, Outputs(SINGLE, 3))(labels, logits)) == pytest.approx(
        logits.max(axis=1).mean(), rel=1e-5
    )


@pytest.mark.parametrize(
    "loss, outputs, line",
    [
        ("binary_crossentropy", Outputs(SINGLE, 3), "loss='sparse_categorical_crossentropy'"),
        ("sparse_categorical_crossentropy", Outputs(MULTI, 3), "loss='binary_crossentropy'"),
        ("categorical_crossentropy", Outputs(MULTI, 3), "loss='binary_crossentropy'"),
        ("sparse_categorical_crossentropy", Outputs(REGRESSION, 1), "loss='mse'"),
        ("binary_crossentropy", Outputs(REGRESSION, 1), "loss='mse'"),
        (losses.Circle(), Outputs(SINGLE, 3), "loss='sparse_categorical_crossentropy'"),
        ("categorical_crosentropy", Outputs(SINGLE, 3), "mean 'categorical_crossentropy'"),
        ({"a": "mse"}, Outputs(SINGLE, 3), "one output"),
        (7, Outputs(SINGLE, 3), "must be a name"),
    ],
    ids=label,
)
def test_rejects_unsuitable_losses_with_the_line_to_write(loss, outputs, line):
    with pytest.raises(InputError, match=line):
        TaskLoss(loss, outputs)


def test_rejects_a_loss_over_the_whole_batch():
    logits, labels = logits_and_labels(3)
    with pytest.raises(InputError, match="axis=-1"):
        TaskLoss(losses.Dice(), Outputs(SINGLE, 3))(labels, logits)


@pytest.mark.parametrize("loss", ["mse", losses.CategoricalCrossentropy(label_smoothing=0.1)])
def test_rejects_losses_over_a_batch_s_padding(loss):
    with pytest.raises(InputError, match="would count the padding of a batch as wrong answers"):
        TaskLoss(loss, Outputs(num_classes=None))
    TaskLoss(loss, Outputs(num_classes=3))


def test_a_function_s_name_is_kept_for_a_metric_and_made_valid_for_a_loss():
    def function(labels, predictions):
        return ops.mean(predictions, -1)

    for name, of_loss, of_metric in (("<lambda>", "lambda", "lambda"), ("größe", "gre", "größe")):
        function.__name__ = name
        assert TaskLoss(function, Outputs(num_classes=2)).name == of_loss
        assert TaskMetric(function, Outputs(num_classes=2)).name == of_metric


@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "mse"])
def test_losses_over_classes_are_refused_where_their_number_varies(name):
    with pytest.raises(InputError, match="would count the padding of a batch"):
        TaskLoss(name, Outputs(SINGLE))
