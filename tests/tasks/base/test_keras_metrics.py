"""Keras metrics on the logits of a task model.

The reference is the same Keras metric on the output of `predict`.
"""

import keras
import numpy as np
import pytest
import sklearn.metrics
from keras import ops

from keras_bert_impl.data.scores.counting import score_metrics
from keras_bert_impl.data.scores.squad import ExactMatch, SpanF1
from keras_bert_impl.data.tables.labels import MULTI, REGRESSION, SINGLE
from keras_bert_impl.data.tags.spans import entity_scores
from keras_bert_impl.tasks.base.keras_losses import (
    Outputs,
    TaskMetric,
    multi_label_metrics,
)
from keras_bert_impl.tasks.tagging.word_scores import EntityF1
from keras_bert_impl.utils.errors import InputError
from tests.tasks.base.logits import label, logits_and_labels, one_hot, softmax
from tests.tasks.helpers import classifier, examples

losses, metrics = keras.losses, keras.metrics


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
    makers = score_metrics(2, positive)
    metric = (
        makers[name]()
        if name in makers
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
    for targets in (labels, one_hot(labels, 4)):
        metric.reset_state()
        assert value(metric, targets, logits) == pytest.approx(expected, rel=1e-5)


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
    makers = score_metrics(4)
    metric = makers[name]() if name in makers else TaskMetric(name, Outputs(SINGLE, 4))
    score = value(metric, labels, logits)
    assert score == pytest.approx(expected(labels, logits.argmax(axis=1)), rel=1e-5)
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
    gold = [draw.integers(0, len(labels), n) for n in lengths]
    guesses = [
        np.where(draw.random(n) < 0.7, row, draw.integers(0, len(labels), n))
        for n, row in zip(lengths, gold)
    ]
    # Tokens without a label separate the words.
    y_true = np.full((30, 20), -100)
    y_pred = draw.normal(size=(30, 20, len(labels))).astype("float32")
    for row, (want, guess) in enumerate(zip(gold, guesses)):
        places = np.sort(draw.choice(20, len(want), replace=False))
        y_true[row, places] = want
        y_pred[row, places, guess] = 50
    names = [[[labels[n] for n in row] for row in rows] for rows in (gold, guesses)]
    expected = entity_scores(*names)["f1"]
    assert value(EntityF1(labels), y_true, y_pred) == pytest.approx(expected, abs=1e-6)
    weights = (y_true >= 0).astype("float32")
    accuracy = TaskMetric("accuracy", Outputs(SINGLE, len(labels)))
    assert value(accuracy, y_true, y_pred, weights) == pytest.approx(
        np.mean(np.concatenate(names[0]) == np.concatenate(names[1])), abs=1e-6
    )


def test_exact_match_and_token_f1_of_answers():
    labels = np.array([[2, 4], [0, 0], [1, 1], [3, 5]])
    spans = np.array([[2, 4], [1, 2], [1, 3], [5, 4]])
    logits = np.zeros((4, 2, 8), "float32")
    for row, span in enumerate(spans):
        logits[row, [0, 1], span] = 9
    assert value(ExactMatch(), labels, logits) == 0.25
    # Overlaps: all 3; none; 1 of 1 and 3; the last span ends before it begins.
    assert value(SpanF1(), labels, logits) == pytest.approx((1 + 0 + 0.5 + 0) / 4)
    accuracy = TaskMetric("accuracy", Outputs())
    assert value(accuracy, labels, logits) == np.mean(labels == spans)


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


@pytest.mark.parametrize(
    "name",
    ["mse", "auc", "binary_accuracy", metrics.F1Score(), metrics.LogCoshError(), metrics.R2Score()],
    ids=label,
)
def test_metrics_over_classes_are_refused_where_their_number_varies(name):
    with pytest.raises(InputError, match="would count the padding .* compile.metrics="):
        TaskMetric(name, Outputs(SINGLE))


def test_callbacks_know_the_direction_of_a_metric():
    named = score_metrics(2) | {f"multi {k}": make for k, make in multi_label_metrics().items()}
    of_two = Outputs(num_classes=2)
    up = [TaskMetric("accuracy", of_two), TaskMetric(metrics.AUC(), of_two), ExactMatch(), SpanF1()]
    up += [EntityF1(["O", "B-X"]), *(make() for make in named.values())]
    down = [TaskMetric("mse", Outputs(REGRESSION, 1)), TaskMetric("binary_crossentropy", of_two)]
    for direction, group in (("up", up), ("down", down)):
        assert {metric._direction for metric in group} == {direction}  # Keras's callbacks read it


def test_callbacks_without_a_mode_run(tmp_path):
    model = classifier(dropout=0.0)
    model.compile(keras.optimizers.SGD(0.1), metrics=["accuracy", "macro_f1"])
    path = str(tmp_path / "best.keras")
    callbacks = [
        keras.callbacks.EarlyStopping("val_accuracy", patience=2),
        keras.callbacks.ReduceLROnPlateau("val_macro_f1"),
        keras.callbacks.ModelCheckpoint(path, "val_macro_f1", save_best_only=True),
    ]
    data = examples(16)
    model.fit(*data, epochs=2, validation_data=data, verbose=0, callbacks=callbacks)
    assert keras.models.load_model(path).metrics_names == model.metrics_names
