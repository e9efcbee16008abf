"""Token classifiers are saved and loaded, also by `transformers`."""

import json

import keras
import numpy as np
import pytest

from keras_bert_impl.layers import CRF
from keras_bert_impl.tasks import TokenClassifier
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import WORDS, weights
from tests.tasks.tagging.helpers import LABELS, TEXTS, TOKENIZER, tagger


@pytest.mark.parametrize("crf", [False, True])
def test_transformers_loads_saved_models(tmp_path, crf):
    import torch
    import transformers

    settings = {"crf": True} if crf else {"label_all_tokens": True, "aggregation": "max"}
    model = tagger(scale=0.3, head_dropout=0.3, **settings)
    model.save_pretrained(tmp_path)
    theirs = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path).eval()
    features = {name: np.asarray(x) for name, x in TOKENIZER(["a goodly film", "plot"]).items()}
    names = ("token_ids", "padding_mask", "segment_ids")  # in the order of their arguments
    with torch.no_grad():
        expected = theirs(*(torch.tensor(features[name]) for name in names)).logits.numpy()
    # One layer of width 16 in float32 on both sides.
    np.testing.assert_allclose(model(features), expected, atol=1e-5)
    assert list(theirs.config.id2label.values()) == LABELS

    again = TokenClassifier.from_pretrained(tmp_path)
    new = {key: again.get_config()[key] for key in ("encoder", "name")}  # Keras numbers names
    assert again.get_config() == model.get_config() | new
    assert (again.max_length, again.doc_stride, again.head_layer.dropout.rate) == (12, 6, 0.3)
    assert (again.crf, again.label_all_tokens) == (crf, not crf)
    assert again.aggregation == ("first" if crf else "max")
    np.testing.assert_array_equal(weights(again), weights(model))
    assert again.tag(TEXTS[:4]) == model.tag(TEXTS[:4])
    relabeled = TokenClassifier.from_pretrained(tmp_path, labels=["O", "B-Y"], crf=False)
    assert relabeled.labels == ["O", "B-Y"] and not relabeled.crf


def test_loads_models_saved_by_transformers(tmp_path):
    import torch
    import transformers

    transformers.set_seed(0)
    config = transformers.BertConfig(
        vocab_size=TOKENIZER.vocabulary_size, hidden_size=16, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=32, max_position_embeddings=32,
        id2label={0: "x", 1: "y"}, label2id={"x": 0, "y": 1}, initializer_range=0.2,
    )  # fmt: skip
    theirs = transformers.BertForTokenClassification(config).eval()
    theirs.save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    model = TokenClassifier.from_pretrained(tmp_path)
    assert model.labels == ["x", "y"] and model.aggregation == "first" and not model.crf
    ids = np.array([[2, 6, 7, 3]], "int32")
    with torch.no_grad():
        expected = theirs(torch.tensor(ids)).logits.numpy()
    features = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": np.ones_like(ids)}
    np.testing.assert_allclose(model(features), expected, atol=1e-5)
    model.encoder.save_pretrained(tmp_path / "encoder")
    TOKENIZER.save_pretrained(tmp_path / "encoder")
    with pytest.raises(InputError, match="without a TokenClassifier; pass num_classes or labels"):
        TokenClassifier.from_pretrained(tmp_path / "encoder")


def test_keras_file_round_trip(tmp_path, with_crf):
    with_crf.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == with_crf.get_config()
    assert isinstance(loaded.crf_layer, CRF)
    np.testing.assert_array_equal(weights(loaded), weights(with_crf))
    assert loaded.tag(TEXTS[:3]) == with_crf.tag(TEXTS[:3])


def test_settings_are_saved(tmp_path):
    tagger().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["BertForTokenClassification"]
    assert config["keras_bert_impl"] == {
        "model_class": "TokenClassifier",
        "max_length": 12,
        "doc_stride": 6,
        "label_all_tokens": False,
        "aggregation": "first",
        "crf": False,
    }


def test_labels_in_another_order_are_permuted(tmp_path):
    model = tagger(crf=True, scale=0.5)
    model.save_pretrained(tmp_path)
    turned = TokenClassifier.from_pretrained(tmp_path, labels=["I-X", "O", "B-X"], crf=True)
    texts = [WORDS[:7], WORDS[5:], WORDS[2:3]]
    assert turned.tag(texts) == model.tag(texts)
    for ours, theirs in zip(turned.predict(texts, verbose=0), model.predict(texts, verbose=0)):
        np.testing.assert_allclose(ours, theirs[:, [2, 0, 1]], atol=1e-5)


@pytest.mark.parametrize("labels", [["I-X", "O", "B-Y", "B-X"], ["B-X", "O"], ["B-X", "O", "B-Z"]])
def test_weights_of_labels_with_the_same_name_are_kept(tmp_path, caplog, labels):
    model = tagger(crf=True, scale=0.5)
    model.save_pretrained(tmp_path)
    with caplog.at_level("WARNING"):
        relabeled = TokenClassifier.from_pretrained(tmp_path, labels=labels, crf=True)
    same = [label for label in labels if label in LABELS]
    new, old = [labels.index(x) for x in same], [LABELS.index(x) for x in same]
    for name in ("kernel", "bias"):
        ours, saved = (np.array(getattr(m.head_layer.dense, name)) for m in (relabeled, model))
        np.testing.assert_array_equal(ours[..., new], saved[..., old])
    ours, saved = (np.array(m.crf_layer.transitions) for m in (relabeled, model))
    np.testing.assert_array_equal(ours[np.ix_(new, new)], saved[np.ix_(old, old)])
    np.testing.assert_array_equal(
        np.array(relabeled.crf_layer.end)[new], np.array(model.crf_layer.end)[old]
    )
    message = f"newly initialized: {', '.join(repr(x) for x in labels if x not in LABELS)}"
    assert (message in caplog.text) == (len(same) < len(labels))
    assert "not loaded" not in caplog.text


def test_generated_label_names_do_not_identify_classes(tmp_path, caplog):
    tagger(labels=["LABEL_0", "LABEL_1"]).save_pretrained(tmp_path)
    TokenClassifier.from_pretrained(tmp_path, num_classes=3)
    assert "has a classifier for 2 classes; a new classifier for 3 classes" in caplog.text
    assert "keeps the weights" not in caplog.text
