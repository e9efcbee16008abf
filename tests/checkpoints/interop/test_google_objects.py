"""Model Garden checkpoints and TF Hub SavedModels, against the outputs of Google's code.

tests/fixtures/google/README.md describes how they were made.
"""

import numpy as np
import pytest

from keras_bert_impl.checkpoints.interop import open_model
from keras_bert_impl.checkpoints.interop.google import is_google_checkpoint, open_google_checkpoint
from tests.checkpoints.interop.google_models import loaded, unpacked

# Both sides are in float32: each is within a few 1e-6 of the exact values, which are up to 4.
TOLERANCE = 1e-5
FEATURES = {
    "token_ids": np.array([[2, 7, 9, 3, 12, 3, 0], [2, 18, 3, 5, 6, 8, 3]], "int32"),
    "padding_mask": np.array([[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1]], "int32"),
    "segment_ids": np.array([[0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1]], "int32"),
}
REAL = FEATURES["padding_mask"] == 1
CASES = {
    "encoder": {"sequence_output": "sequence_output", "pooled_output": "pooled_output"},
    # The pooler belongs to the next-sentence head; the encoder's own is untrained.
    "pretrainer": {
        "sequence_output": "sequence_output",
        "masked_lm": "mlm_logits",
        "next_sentence": "next_sentence",
    },
    "hub_bert": {
        "sequence_output": "sequence_output",
        "pooled_output": "pooled_output",
        "masked_lm": "mlm_logits",
    },
    "hub_electra": {"sequence_output": "sequence_output", "pooled_output": "pooled_output"},
}
CASES["hub_albert"] = CASES["hub_bert"]


@pytest.mark.parametrize("name", CASES)
def test_outputs_equal_the_model_garden(name, tmp_path):
    path, expected = unpacked(name, tmp_path)
    heads = [ours for ours in CASES[name] if not ours.endswith("output")]
    # Published ELECTRA models have no pooler; the Model Garden's has one.
    model, _ = loaded(path, *heads, use_pooler=True)
    received = model(FEATURES)
    for ours, theirs in CASES[name].items():
        output, expected_output = np.asarray(received[ours]), expected[theirs]
        if output.ndim == 3:
            output, expected_output = output[REAL], expected_output[REAL]
        assert output.shape == expected_output.shape
        assert np.abs(expected_output).max() > 0.1
        assert np.abs(output - expected_output).max() < TOLERANCE, ours


@pytest.mark.parametrize("name", ["encoder", "hub_bert", "hub_albert"])
def test_every_tensor_is_read(name, tmp_path):
    path, expected = unpacked(name, tmp_path)
    _, source = loaded(path, *(["masked_lm"] if "mlm_logits" in expected else []))
    assert source.unread() == []


def test_warns_about_unused_tensors(tmp_path):
    path, _ = unpacked("pretrainer", tmp_path)
    _, source = loaded(path, "masked_lm", "next_sentence")
    pooler = "bert_encoder_v2/pooler_transform"
    assert source.unread() == [f"{pooler}/bias", f"{pooler}/kernel"]


def test_settings_without_a_file_come_from_shapes_and_program(tmp_path):
    config, _ = open_google_checkpoint(unpacked("hub_albert", tmp_path)[0])
    assert config == {
        "model_type": "albert",
        "architectures": ["AlbertForMaskedLM"],
        "vocab_size": 19,
        "embedding_size": 8,
        "hidden_size": 12,
        "num_hidden_layers": 3,  # sharing one block
        "num_hidden_groups": 1,
        "num_attention_heads": 3,
        "intermediate_size": 20,
        "max_position_embeddings": 10,
        "type_vocab_size": 2,
        "hidden_act": "gelu_new",
        "layer_norm_eps": 1e-12,
    }


def test_settings_of_a_training_run(tmp_path):
    path, _ = unpacked("pretrainer", tmp_path)
    file = path / "params.yaml"
    file.write_text(file.read_text().replace(" dropout_rate: 0.1", " dropout_rate: 0.3"))
    config, _ = open_google_checkpoint(path)
    assert (config["hidden_dropout_prob"], config["attention_probs_dropout_prob"]) == (0.3, 0.1)
    assert config["architectures"] == ["BertForPreTraining"]


def test_accepts_every_form_of_the_path(tmp_path):
    path, _ = unpacked("encoder", tmp_path)
    _, expected = open_google_checkpoint(path)
    for form in (path / "bert_model.ckpt", path / "bert_model.ckpt.index", str(path)):
        assert is_google_checkpoint(form)
        assert open_google_checkpoint(form)[1].header == expected.header
    assert not is_google_checkpoint(tmp_path)
    assert not is_google_checkpoint(path / "vocab.txt")


def test_shapes_equal_hugging_face(tmp_path):
    directory = open_model(unpacked("encoder", tmp_path)[0])
    layer = "bert.encoder.layer.1"
    assert directory.shape(f"{layer}.attention.self.query.weight") == (12, 12)
    assert directory.shape(f"{layer}.attention.self.query.bias") == (12,)
    assert directory.shape(f"{layer}.intermediate.dense.weight") == (20, 12)
    for name in (f"{layer}.attention.output.dense.weight", f"{layer}.attention.self.key.bias"):
        assert directory.read(name).shape == directory.shape(name)
