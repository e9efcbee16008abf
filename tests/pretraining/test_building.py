"""The model of a run, whose shape fits the tokenizer of its records."""

import dataclasses
import json
import types

import pytest

from keras_bert_impl.interop import huggingface_config
from keras_bert_impl.interop.huggingface import encoder_config
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.pretraining import building


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
