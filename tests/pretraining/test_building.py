"""The model of a run: shaped for the tokenizer of its records."""

import types

import pytest

from keras_bert_impl.interop import huggingface_config
from keras_bert_impl.interop.huggingface import encoder_config
from keras_bert_impl.pretraining import building


@pytest.mark.parametrize("model", ["roberta-base", "bert-base-uncased"])
@pytest.mark.parametrize("pad_id", [0, 1, 5])
def test_a_published_shape_can_be_saved_whatever_the_id_of_padding(model, pad_id):
    tokenizer = types.SimpleNamespace(vocabulary_size=100, pad_id=pad_id)
    config = building._shape(model, tokenizer, {"dropout": 0.0})
    assert (config.vocabulary_size, config.pad_token_id, config.max_length) == (100, pad_id, 512)
    read = encoder_config(huggingface_config(config), "config.json")
    assert read == config
