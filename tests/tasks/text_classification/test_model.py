import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.tasks import TextClassifier
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import classifier, encoder, examples, tokenizer, weights

TEXTS, LABELS = examples(count=24)
MULTI, REGRESSION = "multi_label_classification", "regression"


def test_multi_label_classification():
    model = classifier(labels=["good", "film", "plot"], problem_type=MULTI, dropout=0.0)
    model.compile(optimizer=keras.optimizers.Adam(1e-2))
    hot = np.array([[name in text.split() for name in model.labels] for text in TEXTS], "float32")
    names = [[name for name in model.labels if name in text.split()] for text in TEXTS]
    history = model.fit(TEXTS, hot, epochs=40, batch_size=8, verbose=0).history
    assert history["binary_accuracy"][-1] > 0.95
    by_hot, by_name = (model.evaluate(TEXTS, y, verbose=0, return_dict=True) for y in (hot, names))
    assert by_hot == by_name
    scores = model.predict(TEXTS, verbose=0)
    assert np.mean((scores >= 0.5) == hot) == pytest.approx(by_hot["binary_accuracy"])
    expected = [[model.labels[i] for i in np.flatnonzero(row >= 0.5)] for row in scores]
    assert model.classify(TEXTS) == expected


@pytest.mark.slow
def test_regression_learns_numbers():
    model = classifier(labels=None, num_classes=1, dropout=0.0)
    assert model.problem_type == REGRESSION
    values = np.array([2.0 if label == "positive" else -1.0 for label in LABELS])
    model.compile(optimizer=keras.optimizers.Adam(1e-2))
    model.fit(TEXTS, values, epochs=40, batch_size=8, verbose=0)
    scores = model.predict(TEXTS, verbose=0)
    assert scores.shape == (24, 1)
    assert np.mean((scores[:, 0] - values) ** 2) < 0.25 * np.var(values)
    loss = model.evaluate(TEXTS, values, verbose=0, return_dict=True)["loss"]
    assert loss == pytest.approx(np.mean((scores[:, 0] - values) ** 2), rel=1e-4)


def test_classes_are_numbers_or_names():
    model = classifier(dropout=0.0)
    numbers = [int(label == "positive") for label in LABELS]
    names, by_number = (model.evaluate(TEXTS, y, verbose=0) for y in (LABELS, np.array(numbers)))
    assert names == by_number
    scores = model.predict(TEXTS, verbose=0)
    assert model.classify(TEXTS) == [model.labels[i] for i in scores.argmax(axis=1)]


def test_labels_of_a_data_set_may_be_names():
    model = classifier(dropout=0.0)
    data = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(8)
    expected = model.evaluate(TEXTS, LABELS, verbose=0)
    assert model.evaluate(data, verbose=0) == pytest.approx(expected, abs=1e-6)
    wrong = tf.data.Dataset.from_tensor_slices((TEXTS, ["?"] * 24)).batch(8)
    with pytest.raises(InputError, match="labels must be among 'negative', 'positive'"):
        model.evaluate(wrong, verbose=0)


@pytest.mark.slow
def test_balanced_class_weights():
    labels = [int(label == "positive") for label in LABELS]
    shares = np.bincount(labels) / len(labels)
    results = []
    for weighting in (
        {"class_weight": "balanced"},
        {"class_weight": {"negative": 0.5 / shares[0], 1: 0.5 / shares[1]}},
        {"sample_weight": 0.5 / shares[labels]},
    ):
        model = classifier(dropout=0.0)
        model.compile(optimizer=keras.optimizers.SGD(0.1))
        model.fit(TEXTS, LABELS, batch_size=12, verbose=0, **weighting)
        results.append(weights(model))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], results[2], atol=1e-6)


@pytest.mark.parametrize(
    "problem_type, labels, weights, message",
    [
        (None, ["positive", "positive"], "balanced", "no text has the label 'negative'"),
        (None, ["positive", "negative"], {"odd": 2.0}, "label 'odd' is not one of"),
        (None, ["positive", "negative"], {"positive": -1}, "'positive' must be from 0 to"),
        (None, ["positive", "negative"], "even", "must be 'balanced', a dict, or one number"),
        (
            MULTI,
            [["positive"], []],
            "balanced",
            "class_weight supports only single_label_classification",
        ),
    ],
)
def test_rejects_invalid_class_weights(problem_type, labels, weights, message):
    with pytest.raises(InputError, match=message):
        classifier(problem_type=problem_type).fit(["good", "bad"], labels, class_weight=weights)


@pytest.mark.parametrize(
    "problem_type, labels, message",
    [
        (None, ["positive", "postive"], "text 1: label 'postive'"),
        (None, [0, 2], r"from 0 to 1. Received: 2 \(text 1\)"),
        (None, [0, -1], "from 0 to 1"),
        (None, [0, 0.5], "from 0 to 1"),
        (None, [[1, 0, 0], [0, 1, 0]], "shape"),
        (None, [[1, 0], [0.5, 0.5]], r"text 1 .* Write compile\(loss='categorical_crossentropy'\)"),
        (None, [[1, 0], [1, 1]], "text 1: .* add up to 1"),
        (None, [None, None], "text 0 has no label"),
        (MULTI, [[1, 0], [0, 2]], "must be 0 and 1"),
        (MULTI, [[1, 0, 0], [0, 1, 0]], "must be 0 and 1"),
        (MULTI, [["positive"], ["odd"]], "text 1: label 'odd'"),
        (MULTI, [[1], [0, 1]], "rows differ in length"),
        (REGRESSION, [[1.0, 2.0], [0.5, float("nan")]], "finite"),
        (REGRESSION, [1.0, 2.0], "2 finite number"),
        (REGRESSION, ["one", "two"], "a number for each text"),
    ],
)
def test_rejects_invalid_labels(problem_type, labels, message):
    with pytest.raises(InputError, match=message):
        classifier(problem_type=problem_type).fit(["good", "bad"], labels, verbose=0)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"labels": None}, "pass num_classes or labels"),
        ({"labels": None, "num_classes": 0}, "positive integer"),
        ({"labels": ["a", "a"]}, "must be unique"),
        ({"labels": ["a", 1]}, "must be strings"),
        ({"labels": ["a", "b"], "num_classes": 3}, "there are 2 labels"),
        ({"problem_type": "clustering"}, "problem_type must be one of"),
    ],
)
def test_rejects_invalid_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        classifier(**arguments)


def test_needs_a_pooler():
    with pytest.raises(InputError, match="pooler"):
        TextClassifier(encoder(use_pooler=False), tokenizer(), num_classes=2)


def test_rejects_a_causal_encoder():
    with pytest.raises(InputError, match="first token"):
        TextClassifier(encoder(causal=True), tokenizer(), num_classes=2)


def test_logits_are_float32_in_mixed_precision():
    model = classifier(dtype="mixed_bfloat16")
    assert model(tokenizer()(["good"])).dtype == "float32"
    assert model.encoder.compute_dtype == "bfloat16"


def test_dropout_replaces_every_rate(tmp_path):
    classifier(dropout=0.1).save_pretrained(tmp_path)
    model = TextClassifier.from_pretrained(tmp_path, dropout=0.0)
    assert (model.config.dropout, model.config.attention_dropout) == (0.0, 0.0)
    assert model.head_layer.dropout.rate == 0.0


@pytest.mark.parametrize(
    "name, wrong", [("token_ids", -1), ("token_ids", 2**33 + 5), ("segment_ids", 2)]
)
def test_rejects_ids_without_an_embedding(name, wrong):
    model = classifier()
    features = {n: np.asarray(f, "int64") for n, f in model.tokenizer(["good film", "bad"]).items()}
    features[name][1, 2] = wrong
    labels = np.array([0, 1])
    message = rf"{name} must be in .* Received: {wrong} at \[1, 2\]"
    for ask in (
        lambda: model.predict(features),
        lambda: model.fit(features, labels),
        lambda: model.evaluate(features, labels),
    ):
        with pytest.raises(InputError, match=message):
            ask()
    if wrong > 2**31:
        data = tf.data.Dataset.from_tensor_slices((features, labels)).batch(2)
        with pytest.raises(InputError, match=rf"{name} must be in \[0, "):
            model.predict(data, verbose=0)


def test_pairs_for_a_model_with_one_segment():
    """Like RoBERTa in `transformers`: both texts of a pair have the same segment."""
    base = encoder(num_segments=1)
    model = TextClassifier(base, tokenizer(), labels=["negative", "positive"])
    pairs = [("good film", "bad"), ("a", "the plot")]
    features = {name: np.array(f) for name, f in tokenizer()(pairs).items()}
    assert features["segment_ids"].max() == 1  # the tokenizer itself is unchanged
    with pytest.raises(InputError, match=r"segment_ids must be in \[0, 1\). Received: 1"):
        model.predict(features)
    features["segment_ids"][:] = 0
    expected = model.predict(features, verbose=0)
    np.testing.assert_allclose(model.predict(pairs, verbose=0), expected, atol=1e-6)
    copy = type(model).from_config(model.get_config())
    copy.set_weights(model.get_weights())
    np.testing.assert_allclose(copy.predict(pairs, verbose=0), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("labels", "numbers", "expected"),
    [
        (("True", "False"), [True, False], None),
        (("False", "True"), [True, False], [1, 0]),
        (("1.0", "0.0"), [1.0, 0.0], None),
        (("1", "0", "unknown"), [1, 0], None),
        (("1", "2"), [1, 0], None),
        (("0", "1"), [1, 0], [1, 0]),
        (("nan", "inf"), [1, 0], [1, 0]),
    ],
)
def test_numbers_that_may_be_names_of_other_classes(labels, numbers, expected):
    model = classifier(labels=list(labels))
    ways = (
        lambda: model.label_codec.encode(numbers, 2),
        lambda: model.label_codec.encode(np.array(numbers)[:, np.newaxis], 2),
        lambda: model.label_codec.tensor(tf.constant(numbers)),
        lambda: model.label_codec.tensor(tf.constant(numbers)[:, tf.newaxis]),
    )
    for way in ways:
        if expected is None:
            with pytest.raises(InputError, match="may mean names or class indices. Pass names"):
                way()
        else:
            assert np.asarray(way()).tolist() == expected


@pytest.mark.parametrize(
    "labels", [[[0, 1], [1, 1]], np.array([[0.0, 1.0], [1.0, 1.0]]), [["negative", "positive"], []]]
)
@pytest.mark.parametrize("loss", [None, "binary_crossentropy", "categorical_crossentropy"])
@pytest.mark.parametrize("as_dataset", [False, True])
def test_several_labels_name_the_problem_type(labels, loss, as_dataset):
    model, texts = classifier(), ["good film", "bad film"]
    if loss is not None:
        model.compile(keras.optimizers.Adam(1e-3), loss=loss)
    data = (texts, labels)
    if as_dataset:
        if isinstance(labels, list):
            labels = np.array([[0, 1], [1, 1]])
        data = (tf.data.Dataset.from_tensor_slices((texts, labels)).batch(2),)
    with pytest.raises(InputError, match="problem_type='multi_label_classification'"):
        model.fit(*data, verbose=0)
