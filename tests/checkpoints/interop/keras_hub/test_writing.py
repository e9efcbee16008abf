"""Presets with heads and tokenizers: KerasHub loads them and computes the same outputs."""

import json
import logging

import keras_hub
import numpy as np
import pytest
import torch

from keras_bert_impl.checkpoints.interop import open_model
from keras_bert_impl.cli.main import main
from keras_bert_impl.models.conversion.formats import convert
from keras_bert_impl.tasks import TextClassifier
from keras_bert_impl.tokenizers import (
    ByteLevelBPETokenizer,
    SentencePieceTokenizer,
    Tokenizer,
    WordPieceTokenizer,
)
from keras_bert_impl.tokenizers.byte_level_bpe.tokenizer import byte_characters
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.keras_hub.test_models import (
    CLASSIFIERS,
    TOLERANCE,
    assert_same_weights,
)
from tests.checkpoints.interop.keras_hub_models import (
    CASES,
    SIZES,
    features_for,
    in_float64,
    random_backbone,
    random_task,
)
from tests.checkpoints.interop.test_architectures import original
from tests.helpers import difference, randomize

MASKED_LMS = ["roberta", "xlm-roberta"]
TASKS = [(case, "TextClassifier") for case in CLASSIFIERS]
TASKS += [(case, "MaskedLM") for case in MASKED_LMS]
TEXTS = ["good film", "A bad, bad film", "good a film film good"]


def arguments_of(task):
    """Returns a task's constructor arguments, without its parts."""
    config = task.get_config()
    return {name: config[name] for name in set(config) - {"backbone", "preprocessor", "name"}}


def edit_config(directory, **changes):
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


# === Tensors ===


@pytest.mark.parametrize(("case", "kind"), TASKS)
def test_round_trip_from_keras_hub_is_exact(case, kind, tmp_path):
    is_classifier = kind == "TextClassifier"
    task = random_task(case, kind, **({"num_classes": 3, "dropout": 0.25} if is_classifier else {}))
    task.save_to_preset(str(tmp_path / "theirs"))
    convert(tmp_path / "theirs", tmp_path / "ours")
    convert(tmp_path / "ours", tmp_path / "again", "keras_hub")
    again = getattr(keras_hub.models, kind).from_preset(str(tmp_path / "again"))
    assert type(again) is type(task)
    assert arguments_of(again) == arguments_of(task)
    assert_same_weights(again, task)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_keeps_the_dtype(dtype, tmp_path):
    backbone = random_backbone("albert", dtype=dtype)
    task = keras_hub.models.AlbertTextClassifier(backbone=backbone, num_classes=2)
    randomize(task)
    task.save_to_preset(str(tmp_path / "theirs"))
    convert(tmp_path / "theirs", tmp_path / "ours")
    convert(tmp_path / "ours", tmp_path / "again", "keras_hub")
    again = keras_hub.models.TextClassifier.from_preset(str(tmp_path / "again"), dtype=dtype)
    assert_same_weights(again, task)
    for name in ("theirs", "again"):
        settings = json.loads((tmp_path / name / "task.json").read_text())["config"]["backbone"]
        assert settings["config"]["dtype"]["config"] == {"name": dtype}


@pytest.mark.parametrize("case", ["roberta", "albert", "distilbert"])
@pytest.mark.parametrize("head", ["classifier", "masked_lm"])
def test_a_model_of_transformers(case, head, tmp_path, caplog):
    """With position rows for padding, one segment and a pooler, none of which KerasHub has."""
    model = original(case, head)
    model.save_pretrained(tmp_path / "theirs")
    written = convert(tmp_path / "theirs", tmp_path / "preset", "keras_hub")
    if head == "masked_lm" and case not in MASKED_LMS:
        assert "MaskedLM uses a different GELU or epsilon" in caplog.text
        assert "Backbone has no variables for: " in caplog.text
        assert not (tmp_path / "preset" / "task.json").exists()
        assert not {name for name in written if "prediction" in name or "vocab" in name}
        return
    kind = {"classifier": "TextClassifier", "masked_lm": "MaskedLM"}[head]
    task = in_float64(getattr(keras_hub.models, kind).from_preset(str(tmp_path / "preset")))
    features = features_for(task.backbone, [9, 5, 3])
    inputs = {"input_ids": features["token_ids"], "attention_mask": features["padding_mask"]}
    if "segment_ids" in task.input:
        inputs["token_type_ids"] = features["segment_ids"]
    inputs = {name: torch.tensor(array).long() for name, array in inputs.items()}
    expected = model.double()(**inputs).logits.detach().numpy()
    if head == "masked_lm":
        places = np.array([[0, 8], [4, 1], [2, 0]], "int32")
        features["mask_positions"] = places
        expected = np.take_along_axis(expected, places[..., None], axis=1)
    received = task({name: features[name] for name in task.input})
    # Both in float64, except that positions and the segment were summed in float32: an error of 2
    # ** -24 on values below 1, amplified by 4 layers.
    assert difference(received, expected) < 1e-6


# === Raw strings ===


def tokenizer_for(case):
    words = ["good", "film", "bad"]
    if case == "roberta":
        merges = [("g", "o"), ("go", "o"), ("goo", "d"), ("Ġ", "good")]
        vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *byte_characters()]
        vocabulary += [a + b for a, b in merges]
        return ByteLevelBPETokenizer([*vocabulary, "<mask>"], merges)
    if case in ("albert", "xlm-roberta"):
        pieces = ["▁", "a", "b", ",", *(f"▁{word}" for word in words)]
        first = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
        if case == "xlm-roberta":
            first, pieces = ["<s>", "<pad>", "</s>", "<unk>"], [*pieces, "<mask>"]
        family = {"albert": "ALBERT", "xlm-roberta": "XLM-RoBERTa"}[case]
        scores = [0.0] * len(first) + [-2.5] * len(pieces[:-1]) + [0.0]
        return SentencePieceTokenizer(family, first + pieces, scores)
    return WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", ",", *words])


def write_ours(directory, case, kind, **arguments):
    """Writes a model directory with a KerasHub task head and a tokenizer; returns its path."""
    tokenizer = tokenizer_for(case)
    backbone = random_backbone(case, vocabulary_size=len(tokenizer.vocabulary))
    task = getattr(keras_hub.models, CASES[case][0] + kind)(backbone=backbone, **arguments)
    randomize(task, seed=1)
    task.save_to_preset(str(directory / "theirs"))
    convert(directory / "theirs", directory / "ours")
    tokenizer.save_pretrained(directory / "ours")
    return tokenizer


@pytest.mark.parametrize("case", CLASSIFIERS)
def test_preprocessor(case, tmp_path):
    tokenizer = write_ours(tmp_path, case, "TextClassifier", num_classes=2)
    convert(tmp_path / "ours", tmp_path / "made", "keras_hub")
    task = keras_hub.models.TextClassifier.from_preset(str(tmp_path / "made"))
    rows = [
        [tokenizer.cls_id, *ids, tokenizer.sep_id] for ids in tokenizer.tokenize(TEXTS).to_list()
    ]
    assert len({len(row) for row in rows}) >= 2
    length = SIZES["max_sequence_length"]
    expected = [row + [tokenizer.pad_id] * (length - len(row)) for row in rows]
    assert np.asarray(task.preprocessor(TEXTS)["token_ids"]).tolist() == expected
    again = Tokenizer.from_pretrained(tmp_path / "made")
    assert again.get_config() == tokenizer.get_config()


@pytest.mark.slow
def test_predictions_for_raw_strings(tmp_path):
    write_ours(tmp_path, "bert", "TextClassifier", num_classes=2)
    command = ["convert", "--from", str(tmp_path / "ours"), "--to", str(tmp_path / "made")]
    assert main([*command, "--form", "keras_hub"]) == 0
    task = keras_hub.models.TextClassifier.from_preset(str(tmp_path / "made"))
    received = task.predict(TEXTS, verbose=0)
    tokenizer, rows = Tokenizer.from_pretrained(tmp_path / "ours"), []
    for ids in tokenizer.tokenize(TEXTS).to_list():
        rows.append([tokenizer.cls_id, *ids, tokenizer.sep_id] + [tokenizer.pad_id] * 9)
    token_ids = np.array([row[:9] for row in rows], "int32")
    mask = (token_ids != tokenizer.pad_id).astype("int32")
    features = {"token_ids": token_ids, "padding_mask": mask, "segment_ids": 0 * mask}
    expected = TextClassifier.from_pretrained(tmp_path / "ours")(features)
    assert len(np.unique(expected)) == 6
    # Both in float32: twice the tolerance of one against float64.
    assert difference(received, expected) < 2 * TOLERANCE


@pytest.mark.parametrize("case", MASKED_LMS)
def test_masked_lm_masks_raw_strings(case, tmp_path):
    tokenizer = write_ours(tmp_path, case, "MaskedLM")
    convert(tmp_path / "ours", tmp_path / "made", "keras_hub")
    task = keras_hub.models.MaskedLM.from_preset(str(tmp_path / "made"))
    features, labels, weights = task.preprocessor(["good good film, bad film"] * 20)
    places = np.asarray(features["mask_positions"])[np.asarray(weights) == 1]
    masked = np.asarray(features["token_ids"]) == tokenizer.mask_id
    assert masked.any() and len(places) > masked.sum() / 2
    expected = tokenizer.tokenize(["good good film, bad film"]).to_list()[0]
    assert set(np.asarray(labels)[np.asarray(weights) == 1]) <= set(expected)


# === What KerasHub's files cannot express ===


def test_round_trip_keeps_class_names_and_problem_type(tmp_path):
    random_task("distilbert", "TextClassifier", num_classes=2).save_to_preset(str(tmp_path / "a"))
    convert(tmp_path / "a", tmp_path / "ours")
    names = {"id2label": {"0": "bad", "1": "good"}, "label2id": {"bad": 0, "good": 1}}
    edit_config(tmp_path / "ours", problem_type="multi_label_classification", **names)
    convert(tmp_path / "ours", tmp_path / "made", "keras_hub")
    assert keras_hub.models.TextClassifier.from_preset(str(tmp_path / "made")).num_classes == 2
    read = open_model(tmp_path / "made").config
    assert {name: read[name] for name in names} == names
    assert read["problem_type"] == "multi_label_classification"
    settings = json.loads((tmp_path / "made" / "task.json").read_text())
    (tmp_path / "made" / "task.json").write_text(json.dumps(settings | {"keras_bert_impl": 1}))
    with pytest.raises(InputError, match="task.json: keras_bert_impl must be a dict"):
        open_model(tmp_path / "made")


def test_default_head_dropout_is_the_encoders(tmp_path):
    random_task("bert", "TextClassifier", num_classes=2).save_to_preset(str(tmp_path / "theirs"))
    convert(tmp_path / "theirs", tmp_path / "ours")
    edit_config(tmp_path / "ours", classifier_dropout=None, hidden_dropout_prob=0.3)
    edit_config(tmp_path / "ours", attention_probs_dropout_prob=0.3)
    convert(tmp_path / "ours", tmp_path / "made", "keras_hub")
    assert keras_hub.models.TextClassifier.from_preset(str(tmp_path / "made")).dropout == 0.3


def test_leaves_out_heads_without_a_task(tmp_path, caplog):
    """A token classifier has tensors of the same names as a text classifier."""
    original("distilbert", "token_classifier").save_pretrained(tmp_path / "theirs")
    with caplog.at_level(logging.WARNING):
        convert(tmp_path / "theirs", tmp_path / "made", "keras_hub")
    assert (
        "DistilBertBackbone has no variables for: classifier.bias, classifier.weight" in caplog.text
    )
    assert open_model(tmp_path / "made").config["architectures"] == ["DistilBertModel"]
