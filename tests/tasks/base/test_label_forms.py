"""A user's own losses and metrics receive labels in the form in which the user gave them."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_bert_impl.tasks import FeatureTagger, MultipleChoice, TokenClassifier
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import GOOD, classifier, encoder, examples, tokenizer

TEXTS, LABELS = examples(count=16)
NUMBERS = [int(label == "positive") for label in LABELS]
ROWS = keras.utils.to_categorical(NUMBERS, 2)
WORDS = [text.split() for text in TEXTS]
TAGS = [[int(word in GOOD) for word in row] for row in WORDS]
CHOICES = [("good", ["film", "plot", "a"]), ("bad", ["the", "joy"])] * 3
EAGER = {"run_eagerly": True}  # traces nothing


def own_accuracy(y_true, y_pred):
    hits = ops.equal(ops.argmax(y_true, axis=-1), ops.argmax(y_pred, axis=-1))
    return ops.cast(hits, "float32")


def own_loss(y_true, y_pred):
    """The focal loss that is often copied, for one-hot rows."""
    y_pred = ops.clip(y_pred, 1e-7, 1 - 1e-7)
    return ops.sum(-y_true * ops.power(1 - y_pred, 2.0) * ops.log(y_pred), axis=-1)


@pytest.mark.parametrize("is_dataset", [False, True])
@pytest.mark.parametrize("batch_size", [2, 5])
def test_classifiers_pass_one_hot_rows_on(is_dataset, batch_size):
    model = classifier(dropout=0.0)
    model.compile("sgd", loss=own_loss, metrics=["accuracy", own_accuracy], **EAGER)
    probabilities = model.predict(TEXTS, verbose=0)
    expected = np.mean(np.sum(-ROWS * (1 - probabilities) ** 2 * np.log(probabilities), axis=-1))
    data = TEXTS, ROWS
    if is_dataset:
        data = (tf.data.Dataset.from_tensor_slices(data).batch(batch_size),)
    scores = model.evaluate(*data, batch_size=batch_size, verbose=0, return_dict=True)
    assert scores["loss"] == pytest.approx(expected, rel=1e-5)
    right = np.mean(probabilities.argmax(axis=1) == NUMBERS)
    assert scores["accuracy"] == scores["own_accuracy"] == pytest.approx(right)
    history = model.fit(TEXTS, ROWS, validation_data=(TEXTS, ROWS), verbose=0).history
    assert history["val_accuracy"] == history["val_own_accuracy"]


def test_default_metrics_take_soft_rows():
    model = classifier(dropout=0.0)
    model.compile(keras.optimizers.SGD(0.0), loss="categorical_crossentropy", **EAGER)
    soft = np.abs(ROWS - 0.1)
    history = model.fit(TEXTS, soft, class_weight="balanced", verbose=0).history
    right = np.mean(model.predict(TEXTS, verbose=0).argmax(axis=1) == NUMBERS)
    assert history["accuracy"] == [pytest.approx(right)]
    model.compile(keras.optimizers.SGD(0.0), loss=own_loss, metrics=[], **EAGER)
    assert model.evaluate(TEXTS, soft, verbose=0) != model.evaluate(TEXTS, ROWS, verbose=0)
    model.compile(keras.optimizers.SGD(0.0), **EAGER)
    with pytest.raises(InputError, match="soft label"):
        model.evaluate(TEXTS, soft, verbose=0)


@pytest.mark.parametrize("crf", [None, True])
@pytest.mark.parametrize("cls", [TokenClassifier, FeatureTagger])
def test_taggers_pass_one_hot_rows_on(cls, crf):
    arguments = {"lstm_dim": 8} if cls is FeatureTagger else {}
    model = cls(encoder(dropout=0.0), tokenizer(), labels=["O", "B-X"], crf=crf, **arguments)
    scores = ["accuracy", "entity_f1", "macro_f1"]
    histories = []
    for extra, labels in (([], TAGS), ([own_accuracy], [np.eye(2)[row] for row in TAGS])):
        model.compile(keras.optimizers.SGD(0.0), metrics=[*scores, *extra], **EAGER)
        histories.append(model.fit(WORDS, labels, verbose=0).history)
    assert histories[1].pop("own_accuracy") == histories[0]["accuracy"]
    for name, values in histories[0].items():
        assert histories[1][name] == pytest.approx(values, rel=1e-6), name


def test_one_hot_rows_of_features_may_be_zeros_for_no_label():
    model = TokenClassifier(encoder(dropout=0.0), tokenizer(), labels=["O", "B-X"])
    model.compile(keras.optimizers.SGD(0.0), **EAGER)
    features = {"token_ids": np.full((2, 4), 5), "padding_mask": np.ones((2, 4), "int32")}
    numbers = np.array([[-1, 1, 0, -1], [-1, 0, -1, -1]])
    rows = np.eye(2, dtype="float32")[numbers] * (numbers >= 0)[..., None]
    expected = model.evaluate(features, numbers, verbose=0)
    assert model.evaluate(features, rows, verbose=0) == pytest.approx(expected)
    data = tf.data.Dataset.from_tensor_slices((features, rows)).batch(2)
    assert model.evaluate(data, verbose=0) == pytest.approx(expected)
    soft = tf.data.Dataset.from_tensor_slices((features, rows * 0.5)).batch(2)
    with pytest.raises(InputError, match="must be one-hot rows"):
        model.evaluate(soft, verbose=0)


def test_choices_pass_one_hot_rows_on():
    model = MultipleChoice(encoder(dropout=0.0), tokenizer())
    numbers = np.array([2, 1] * 3)
    model.compile(keras.optimizers.SGD(0.0), metrics=["accuracy"], **EAGER)
    expected = model.evaluate(CHOICES, numbers, batch_size=2, verbose=0, return_dict=True)
    model.compile(keras.optimizers.SGD(0.0), metrics=["accuracy", own_accuracy], **EAGER)
    scores = model.evaluate(CHOICES, np.eye(3)[numbers], batch_size=2, verbose=0, return_dict=True)
    assert scores.pop("own_accuracy") == scores["accuracy"]
    assert scores == pytest.approx(expected)
