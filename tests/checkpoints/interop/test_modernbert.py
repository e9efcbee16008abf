"""Alternative spellings in ModernBERT's files, and settings that have no equivalent."""

import dataclasses

import numpy as np
import pytest
import torch
import transformers

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop import (
    encoder_config,
    has_head,
    head_tensors,
    huggingface_config,
    open_model,
    read_encoder_config,
)
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.parity import batch, original_outputs
from tests.helpers import MODERN, difference

BASE = EncoderConfig.named("ModernBERT-base")
SHAPE = {
    "model_type": "modernbert",
    "vocab_size": 50368,
    "hidden_size": 768,
    "num_hidden_layers": 22,
    "num_attention_heads": 12,
    "intermediate_size": 1152,
    "classifier_pooling": "mean",
}
# Newer versions write a dict where older ones wrote numbers.
BASES = {
    "full_attention": {"rope_type": "default", "rope_theta": 160000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
}
TYPES = [("sliding" if index % 3 else "full") + "_attention" for index in range(22)]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"global_attn_every_n_layers": 3, "local_attention": 128, "global_rope_theta": 160000.0},
        {"layer_types": TYPES, "rope_parameters": BASES},
    ],
    ids=["silent", "numbers", "lists"],
)
def test_forms_of_the_published_configuration(settings):
    assert encoder_config(SHAPE | settings) == BASE


def test_transformers_reads_ours():
    config = dataclasses.replace(MODERN, dropout=0.2, attention_dropout=0.2)
    theirs = transformers.ModernBertConfig(**huggingface_config(config))
    assert theirs.layer_types == ["full_attention", "sliding_attention"] * 2
    assert theirs.rope_parameters["full_attention"]["rope_theta"] == 1000.0
    assert theirs.rope_parameters["sliding_attention"]["rope_theta"] == 10.0
    assert theirs.sliding_window == 2
    rates = theirs.embedding_dropout, theirs.mlp_dropout, theirs.attention_dropout
    assert (rates, theirs.classifier_pooling) == ((0.2, 0.2, 0.2), "mean")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"mlp_dropout": 0.1},
            "embedding_dropout, attention_dropout and mlp_dropout must be equal",
        ),
        ({"attention_bias": True}, "attention_bias is True; only False is supported"),
        ({"norm_bias": True}, "norm_bias is True; only False is supported"),
        ({"classifier_bias": True}, "classifier_bias is True; only False"),
        ({"classifier_activation": "relu"}, "classifier_activation is 'relu'; only 'gelu'"),
        ({"classifier_pooling": "max"}, "pooling must be one of cls, mean"),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling is .*; only None is supported"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "'yarn'} are not supp"),
        ({"rope_parameters": {"rope_theta": 1.0}}, "rope_parameters.rope_theta must be a dict"),
        ({"rope_parameters": 3}, "config.json: "),
        ({"layer_types": TYPES[1:] + TYPES[:1]}, "layer_types must repeat one global layer"),
        ({"layer_types": TYPES[:-1]}, "layer_types must repeat one global layer"),
        ({"layer_types": 3}, "config.json: "),
        ({"local_attention": 1}, "window must be a positive integer"),
        (
            {"global_attn_every_n_layers": 0},
            "global_attn_every_n_layers must be a positive integer",
        ),
    ],
    ids=str,
)
def test_rejects_unsupported_settings(settings, message):
    with pytest.raises(InputError, match=message):
        encoder_config(SHAPE | settings)


@pytest.mark.parametrize(
    "fields",
    [
        {"dropout": 0.1, "attention_dropout": 0.0},
        {"use_bias": True},
        {"gated": False},
        {"final_norm": False},
        {"rotary_base": None, "local_rotary_base": None},
    ],
    ids=str,
)
def test_rejects_what_the_files_cannot_express(fields):
    with pytest.raises(
        InputError, match="must be equal|a modernbert model directory cannot express"
    ):
        huggingface_config(dataclasses.replace(MODERN, **fields))


def test_published_windows_and_bases_on_a_long_row(tmp_path):
    """With 300 tokens, most pairs are outside the window of 64 to each side."""
    config = transformers.ModernBertConfig(
        vocab_size=53,
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=24,
        pad_token_id=1,
        cls_token_id=2,
        sep_token_id=3,
        bos_token_id=2,
        eos_token_id=3,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    model = transformers.ModernBertModel(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape)
    model.save_pretrained(tmp_path)
    features = batch(53, [300])
    encoder = Encoder.from_pretrained(tmp_path)
    assert (encoder.config.window, encoder.config.max_length) == (64, 8192)
    outputs = encoder.with_outputs("hidden_states", "attention_scores")(features)
    expected = original_outputs(model, features)
    for ours, theirs in zip(outputs["hidden_states"], expected["hidden_states"]):
        assert difference(ours, theirs) < 1e-5  # see test_parity.py
    local = np.asarray(outputs["attention_scores"][1])[0, :, 150]  # [heads, keys]
    assert (local[:, 86:215] > 0).all() and local[:, :86].sum() + local[:, 215:].sum() == 0


def test_a_causal_encoder_has_no_head_for_answers(tmp_path):
    Encoder(dataclasses.replace(MODERN, causal=True)).save_pretrained(tmp_path)
    source = open_model(tmp_path)
    config = read_encoder_config(source)
    assert config.causal and not has_head(source, config, "question_answerer")
    with pytest.raises(InputError, match="head must be one of masked_lm.* for modernbert-decoder"):
        head_tensors(config, "question_answerer")
    with pytest.raises(InputError, match="transformers has no class for modernbert-decoder with"):
        huggingface_config(config, "question_answerer")
