"""The model of a run, whose shape fits the tokenizer of its records."""

import dataclasses
import json
import types

import pytest
import transformers

from keras_bert_impl.checkpoints.interop import huggingface_config
from keras_bert_impl.checkpoints.interop.huggingface import encoder_config
from keras_bert_impl.pretraining import building
from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import encoder


@pytest.mark.parametrize("model", ["roberta-base", "bert-base-uncased"])
@pytest.mark.parametrize("pad_id", [0, 1, 5])
def test_published_shapes_can_be_saved_with_any_padding_id(model, pad_id):
    tokenizer = types.SimpleNamespace(vocabulary_size=100, pad_id=pad_id)
    config = building._shape(model, tokenizer, {"dropout": 0.0})
    assert (config.vocabulary_size, config.pad_token_id, config.max_length) == (100, pad_id, 512)
    read = encoder_config(huggingface_config(config), "config.json")
    assert read == config


def test_recipe_model_is_found_from_any_folder_after_local_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenizer = types.SimpleNamespace(vocabulary_size=100, pad_id=0)
    config = building._shape("budget_24h.json", tokenizer, {})
    assert config.num_layers == 16
    written = huggingface_config(dataclasses.replace(config, num_layers=3))
    (tmp_path / "budget_24h.json").write_text(json.dumps(written))
    assert building._shape("budget_24h.json", tokenizer, {}).num_layers == 3
    with pytest.raises(InputError, match="cannot read other.json"):
        building._shape("other.json", tokenizer, {})


@pytest.mark.parametrize("has_pooler", [False, True])
def test_a_pooler_is_saved_only_if_it_was_trained(tmp_path, has_pooler):
    encoder(use_pooler=has_pooler).save_pretrained(tmp_path / "begun")
    config = json.loads((tmp_path / "begun" / "config.json").read_text())
    config.get("keras_bert_impl", {}).pop("use_pooler", None)  # as files of `transformers` are
    (tmp_path / "begun" / "config.json").write_text(json.dumps(config))
    pretrainer = Pretrainer.from_pretrained(tmp_path / "begun", ["masked_lm"])
    assert pretrainer.encoder.config.use_pooler is has_pooler
    both = Pretrainer.from_pretrained(tmp_path / "begun", ["masked_lm", "next_sentence"])
    assert both.encoder.config.use_pooler


def test_a_model_that_becomes_causal_keeps_its_tensors(tmp_path):
    config = transformers.ModernBertConfig(
        vocab_size=20,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=32,
        pad_token_id=0,
        layer_types=["full_attention"],
    )
    transformers.ModernBertModel(config).save_pretrained(tmp_path / "modern")
    with pytest.raises(InputError, match="pass its config.json"):
        Pretrainer.from_pretrained(tmp_path / "modern", ["left_to_right"], causal=True)
