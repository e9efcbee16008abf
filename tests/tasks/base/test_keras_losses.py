"""Keras losses and metrics on the logits of a task model.

The reference is the same Keras loss or metric on the output of `predict`.
"""

import functools

import keras
import numpy as np
import pytest
import sklearn.metrics
from keras import ops

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.base.keras_losses import (
    Outputs,
    TaskLoss,
    TaskMetric,
    multi_label_metrics,
)
from keras_bert_impl.tasks.data.labels import MULTI, REGRESSION, SINGLE
from keras_bert_impl.tasks.question_answering.metrics import ExactMatch, SpanF1
from keras_bert_impl.tasks.scores.counting import score_metrics
from keras_bert_impl.tasks.tagging.spans import entity_scores
from keras_bert_impl.tasks.tagging.word_scores import EntityF1

losses, metrics = keras.losses, keras.metrics


def label(value):
    """Returns a parameter id that is the same in every process."""
    if isinstance(value, functools.partial):
        return f"partial {value.func.__name__}"
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    is_keras = isinstance(value, (keras.losses.Loss, keras.metrics.Metric))
    return type(value).__name__ if is_keras else str(value)


def logits_and_labels(num_classes, count=40, seed=0):
    draw = np.random.default_rng(seed)
    logits = draw.normal(size=(count, num_classes)).astype("float32") * 3
    return logits, draw.integers(0, num_classes, count)


def softmax(logits):
    return ops.convert_to_numpy(ops.softmax(logits))


def one_hot(labels, num_classes):
    return np.eye(num_classes, dtype="float32")[labels]


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
    for given in (labels, one_hot(labels, num_classes)):
        assert float(TaskLoss(loss, Outputs(SINGLE, num_classes))(given, logits)) == pytest.approx(
            expected, rel=1e-5
        )


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


# === Metrics ===


def value(metric, labels, logits, weights=None):
    """Returns the result after two updates, which tests accumulation."""
    half = len(labels) // 3
    for part in (slice(0, half), slice(half, None)):
        metric.update_state(labels[part], logits[part], None if weights is None else weights[part])
    return ops.convert_to_numpy(metric.result())


@pytest.mark.parametrize(
    "name, oracle",
    [
        (metrics.AUC(num_thresholds=2000), sklearn.metrics.roc_auc_score),
        ("Precision", lambda y, p: sklearn.metrics.precision_score(y, p > 0.5)),
        (metrics.Recall(), lambda y, p: sklearn.metrics.recall_score(y, p > 0.5)),
        (
            metrics.Precision(thresholds=0.7),
            lambda y, p: sklearn.metrics.precision_score(y, p > 0.7),
        ),
        ("binary_accuracy", lambda y, p: np.mean(y == (p > 0.5))),
        ("binary_crossentropy", sklearn.metrics.log_loss),
        (metrics.FalsePositives(), lambda y, p: np.sum((y == 0) & (p > 0.5))),
        ("f1", lambda y, p: sklearn.metrics.f1_score(y, p > 0.5)),
        ("matthews", lambda y, p: sklearn.metrics.matthews_corrcoef(y, p > 0.5)),
    ],
    ids=label,
)
@pytest.mark.parametrize("positive", [1, 0])
def test_binary_metrics_equal_scikit_learn(name, oracle, positive):
    logits, labels = logits_and_labels(2, 200)
    own = score_metrics(2, positive)
    metric = (
        own[name]()
        if name in own
        else TaskMetric(
            type(name).from_config(name.get_config()) if not isinstance(name, str) else name,
            Outputs(SINGLE, 2, is_reversed=positive == 0),
        )
    )
    expected = oracle(labels == positive, softmax(logits).astype("float64")[:, positive])
    assert value(metric, labels, logits) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize(
    "name",
    [
        "categorical_accuracy",
        "CategoricalCrossentropy",
        "mse",
        metrics.AUC(),
        metrics.AUC(multi_label=True, num_labels=4),
        metrics.Precision(class_id=2),
        metrics.Recall(top_k=2),
        metrics.TopKCategoricalAccuracy(2),
        metrics.F1Score(average="macro"),
        metrics.OneHotMeanIoU(4),
        metrics.CategoricalCrossentropy(label_smoothing=0.1),
    ],
    ids=label,
)
def test_multi_class_metrics_equal_keras_on_predictions(name):
    logits, labels = logits_and_labels(4, 200)

    def fresh():
        return (
            metrics.get(name)
            if isinstance(name, str)
            else type(name).from_config(name.get_config())
        )

    expected = value(fresh(), one_hot(labels, 4), softmax(logits))
    metric = TaskMetric(name if isinstance(name, str) else fresh(), Outputs(SINGLE, 4))
    for given in (labels, one_hot(labels, 4)):
        metric.reset_state()
        assert value(metric, given, logits) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "name, expected",
    [
        ("accuracy", lambda y, p: np.mean(y == p)),
        ("acc", lambda y, p: np.mean(y == p)),
        (metrics.Accuracy(), lambda y, p: np.mean(y == p)),
        ("sparse_categorical_accuracy", lambda y, p: np.mean(y == p)),
        (metrics.sparse_categorical_accuracy, lambda y, p: np.mean(y == p)),
        ("macro_f1", lambda y, p: sklearn.metrics.f1_score(y, p, average="macro")),
        ("matthews", sklearn.metrics.matthews_corrcoef),
        (metrics.MeanIoU(4), lambda y, p: sklearn.metrics.jaccard_score(y, p, average="macro")),
    ],
    ids=label,
)
def test_metrics_of_class_numbers(name, expected):
    logits, labels = logits_and_labels(4, 200)
    own = score_metrics(4)
    metric = own[name]() if name in own else TaskMetric(name, Outputs(SINGLE, 4))
    found = value(metric, labels, logits)
    assert found == pytest.approx(expected(labels, logits.argmax(axis=1)), rel=1e-5)
    if isinstance(name, str):
        assert metric.name == name


def test_metrics_use_sample_weights():
    logits, labels = logits_and_labels(2, 100)
    weights = np.random.default_rng(3).random(100).astype("float32")
    for metric, oracle in (
        (TaskMetric("accuracy", Outputs(SINGLE, 2)), sklearn.metrics.accuracy_score),
        (TaskMetric("precision", Outputs(SINGLE, 2)), sklearn.metrics.precision_score),
        (score_metrics(2)["f1"](), sklearn.metrics.f1_score),
        (score_metrics(2)["matthews"](), sklearn.metrics.matthews_corrcoef),
    ):
        expected = oracle(labels, logits.argmax(axis=1), sample_weight=weights)
        assert value(metric, labels, logits, weights) == pytest.approx(expected, rel=1e-5)


def test_multi_label_metrics():
    logits, _ = logits_and_labels(3, 100)
    labels = (np.random.default_rng(1).random((100, 3)) < 0.5).astype("float32")
    predictions = logits > 0
    for name, metric in multi_label_metrics().items():
        expected = sklearn.metrics.f1_score(labels, predictions, average=name.split("_")[0])
        assert value(metric(), labels, logits) == pytest.approx(expected, rel=1e-5)
    for name, expected in (
        ("accuracy", np.mean(labels == predictions)),
        (metrics.Precision(), sklearn.metrics.precision_score(labels.ravel(), predictions.ravel())),
    ):
        metric = TaskMetric(name, Outputs(MULTI, 3))
        assert value(metric, labels, logits) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "metric, outputs, line",
    [
        ("accuracy", Outputs(REGRESSION, 1), r"metrics=\['mae'\]"),
        (metrics.AUC(), Outputs(REGRESSION, 1), r"metrics=\['mae'\]"),
        ("sparse_categorical_accuracy", Outputs(MULTI, 3), r"metrics=\['accuracy'\]"),
        ("accurracy", Outputs(SINGLE, 2), "mean 'accuracy'"),
    ],
    ids=label,
)
def test_rejects_unsuitable_metrics_with_the_line_to_write(metric, outputs, line):
    with pytest.raises(InputError, match=line):
        TaskMetric(metric, outputs)


# === Words and answers ===


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "labels",
    [
        ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
        ["O", "B-PER", "I-PER", "E-PER", "S-PER"],
        ["I-PER", "O", "I-LOC", "B-LOC"],
    ],
    ids=label,
)
def test_entity_f1_counts_spans(labels, seed):
    draw = np.random.default_rng(seed)
    lengths = draw.integers(0, 9, 30)
    wanted = [draw.integers(0, len(labels), n) for n in lengths]
    found = [
        np.where(draw.random(n) < 0.7, row, draw.integers(0, len(labels), n))
        for n, row in zip(lengths, wanted)
    ]
    # Tokens without a label separate the words.
    y_true = np.full((30, 20), -100)
    y_pred = draw.normal(size=(30, 20, len(labels))).astype("float32")
    for row, (want, guess) in enumerate(zip(wanted, found)):
        places = np.sort(draw.choice(20, len(want), replace=False))
        y_true[row, places] = want
        y_pred[row, places, guess] = 50
    names = [[[labels[n] for n in row] for row in rows] for rows in (wanted, found)]
    expected = entity_scores(*names)["f1"]
    assert value(EntityF1(labels), y_true, y_pred) == pytest.approx(expected, abs=1e-6)
    weights = (y_true >= 0).astype("float32")
    found = TaskMetric("accuracy", Outputs(SINGLE, len(labels)))
    assert value(found, y_true, y_pred, weights) == pytest.approx(
        np.mean(np.concatenate(names[0]) == np.concatenate(names[1])), abs=1e-6
    )


def test_exact_match_and_token_f1_of_answers():
    labels = np.array([[2, 4], [0, 0], [1, 1], [3, 5]])
    found = np.array([[2, 4], [1, 2], [1, 3], [5, 4]])
    logits = np.zeros((4, 2, 8), "float32")
    for row, span in enumerate(found):
        logits[row, [0, 1], span] = 9
    assert value(ExactMatch(), labels, logits) == 0.25
    # Overlaps: all 3; none; 1 of 1 and 3; the last span ends before it begins.
    assert value(SpanF1(), labels, logits) == pytest.approx((1 + 0 + 0.5 + 0) / 4)
    accuracy = TaskMetric("accuracy", Outputs())
    assert value(accuracy, labels, logits) == np.mean(labels == found)


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


@pytest.mark.parametrize("class_id", [0, 1])
@pytest.mark.parametrize("kind", [metrics.Precision, metrics.Recall])
def test_metrics_of_one_of_two_classes(kind, class_id):
    logits, labels = logits_and_labels(2)
    metric = TaskMetric(kind(class_id=class_id), Outputs(SINGLE, 2))
    metric.update_state(labels, logits)
    scores = sklearn.metrics.precision_recall_fscore_support(labels, logits.argmax(axis=1))
    expected = scores[kind is metrics.Recall][class_id]
    np.testing.assert_allclose(metric.result(), expected, rtol=1e-6)  # float32


@pytest.mark.parametrize("is_reversed", [False, True])
def test_metrics_see_the_labels_of_the_user(is_reversed):
    logits, labels = logits_and_labels(2, 200)  # of the network
    outputs = Outputs(SINGLE, 2, is_reversed=is_reversed)
    theirs = 1 - labels if is_reversed else labels
    guesses = (logits.argmax(-1) == 1) != is_reversed  # bool: label 1 of the user
    for metric, expected in (
        (metrics.Recall(class_id=1), sklearn.metrics.recall_score(theirs, guesses)),
        (metrics.Precision(class_id=0), sklearn.metrics.precision_score(1 - theirs, ~guesses)),
        (
            metrics.F1Score(average=None),
            sklearn.metrics.f1_score(theirs, guesses, average=None),
        ),
        (metrics.MeanMetricWrapper(lambda y, p: y, name="labels"), theirs.mean()),
        (
            metrics.MeanMetricWrapper(lambda y, p: p[:, 1], name="scores"),
            softmax(logits)[:, 0 if is_reversed else 1].mean(),
        ),
    ):
        received = value(TaskMetric(metric, outputs), labels, logits)
        np.testing.assert_allclose(received, expected, atol=2e-3)


@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "mse"])
def test_losses_over_classes_are_refused_where_their_number_varies(name):
    with pytest.raises(InputError, match="would count the padding of a batch"):
        TaskLoss(name, Outputs(SINGLE))


@pytest.mark.parametrize(
    "name",
    ["mse", "auc", "binary_accuracy", metrics.F1Score(), metrics.LogCoshError(), metrics.R2Score()],
    ids=label,
)
def test_metrics_over_classes_are_refused_where_their_number_varies(name):
    with pytest.raises(InputError, match="would count the padding .* compile.metrics="):
        TaskMetric(name, Outputs(SINGLE))
