"""Counts beyond 2^24 and predictions that are not numbers."""

import keras
import numpy as np
import pytest
import sklearn.metrics

from keras_bert_impl.data.scores.counting import Accuracy, ConfusionScore, TokenAccuracy
from keras_bert_impl.data.scores.squad import ExactMatch, SpanF1
from keras_bert_impl.tasks import MultipleChoice, TokenClassifier
from keras_bert_impl.tasks.base.keras_losses import Outputs, TaskMetric
from keras_bert_impl.tasks.tagging.word_scores import EntityF1
from tests.tasks.helpers import classifier, encoder, tokenizer

LOGITS = np.array([[3.0, -1.0], [-1.0, 3.0]], "float32")


def add_counts(score, hits, missed, wrong):
    for variables, counts in zip((score._hits, score._missed, score._wrong), (hits, missed, wrong)):
        score.add_count(variables, np.array(counts, "float32"))


@pytest.mark.parametrize(
    "tn, fp, fn, tp", [(199_950, 20, 20, 10), (1_999_980, 10, 5, 5), (14_000_000, 30, 30, 30)]
)
def test_matthews_of_a_rare_class(tn, fp, fn, tp):
    true = (tp * tn - fp * fn) / np.sqrt(float(tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    score = ConfusionScore("matthews", 2)
    add_counts(score, [tn, tp], [fp, fn], [fn, fp])
    assert float(score.result()) == pytest.approx(true, rel=1e-6)


def test_scores_of_many_classes_equal_scikit_learn():
    num_classes = 3000
    random = np.random.default_rng(0)
    labels, predictions = random.integers(0, num_classes, (2, 1200))
    predictions = np.where(random.random(1200) < 0.4, labels, predictions)
    for name, oracle in (
        ("matthews", sklearn.metrics.matthews_corrcoef(labels, predictions)),
        ("macro_f1", sklearn.metrics.f1_score(labels, predictions, average="macro")),
    ):
        score = ConfusionScore(name, num_classes)
        for part in np.split(np.arange(1200), 3):
            logits = np.eye(num_classes, dtype="float32")[predictions[part]]
            score.update_state(labels[part], logits)
        assert float(score.result()) == pytest.approx(oracle, rel=1e-6)
        # A matrix of the classes would cost more than a training step.
        assert max(np.prod(variable.shape) for variable in score.variables) == num_classes


@pytest.mark.parametrize("form", ["numbers", "one-hot"])
def test_counts_go_on_beyond_16_million(form):
    accuracy, f1 = Accuracy(), ConfusionScore("f1", 2)
    accuracy.add_count(accuracy._hits, 2.0**24)
    accuracy.add_count(accuracy._rows, 2.0**25)
    add_counts(f1, [0, 2**25], [2**24, 2**24], [2**24, 2**24])
    for _ in range(1000):  # a hit and an error each
        labels = np.array([1, 0])
        labels = np.eye(2, dtype="float32")[labels] if form == "one-hot" else labels
        for metric in (accuracy, f1):
            metric.update_state(labels, LOGITS[[1, 1]])
    assert sum(float(part.value) for part in accuracy._hits) == 2**24 + 1000
    true, rows = 2**25 + 1000, 2**25 + 2000
    assert float(accuracy.result()) == pytest.approx((2**24 + 1000) / rows, rel=1e-7)
    assert float(f1.result()) == pytest.approx(2 * true / (2 * true + 2**25 + 1000), rel=1e-7)


@pytest.mark.parametrize(
    "metric, labels, outputs",
    [
        (Accuracy(), [0, 1], LOGITS),
        (TokenAccuracy(), [[0, 1, -1]], LOGITS[[0, 1, 1]][None]),
        (ConfusionScore("macro_f1", 2), [0, 1], LOGITS),
        (ConfusionScore("matthews", 2), [0, 1], LOGITS),
        (EntityF1(["O", "B-X"]), [[0, 1, -1]], LOGITS[[0, 1, 1]][None]),
        (ExactMatch(), [[0, 1]], LOGITS[None]),
        (SpanF1(), [[0, 1]], LOGITS[None]),
        (TaskMetric("accuracy", Outputs(num_classes=2)), [0, 1], LOGITS),
        (TaskMetric("categorical_accuracy", Outputs(num_classes=2)), [0, 1], LOGITS),
        (
            TaskMetric("accuracy", Outputs("multi_label_classification", 2)),
            [[1, 0], [0, 1]],
            LOGITS,
        ),
    ],
)
def test_scores_of_undefined_outputs_are_undefined(metric, labels, outputs):
    labels = np.array(labels)
    metric.update_state(labels, outputs)
    assert float(metric.result()) == 1.0
    undefined = outputs.copy()
    undefined[0, 0] = np.nan
    metric.update_state(labels, undefined)
    assert np.isnan(metric.result())
    metric.reset_state()
    metric.update_state(labels, outputs)
    assert float(metric.result()) == 1.0


def test_undefined_outputs_of_padding_do_not_count():
    metric = TokenAccuracy()
    metric.update_state(np.array([[0, 1, -1]]), np.append(LOGITS, [[np.nan, 0]], axis=0)[None])
    assert float(metric.result()) == 1.0


def models():
    yield classifier(), ["good", "bad"], ["negative", "negative"]
    yield MultipleChoice(encoder(), tokenizer()), [("good", ["film", "plot"])] * 2, [0, 0]
    tagger = TokenClassifier(encoder(), tokenizer(), labels=["O", "B-X"])
    yield tagger, [["good"], ["bad"]], [["O"], ["O"]]


@pytest.mark.parametrize("number", range(3))
def test_a_model_of_undefined_weights_has_no_accuracy(number):
    model, texts, labels = list(models())[number]
    model.encoder.weights[0].assign(np.full(model.encoder.weights[0].shape, np.nan))
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    assert np.isnan(model.evaluate(texts, labels, verbose=0, return_dict=True)["accuracy"])
