"""Families that are not supported are named before weights are read or downloaded."""

import json

import pytest

from keras_bert_impl import TextClassifier
from keras_bert_impl.checkpoints.interop.layouts import LAYOUTS
from keras_bert_impl.checkpoints.published import (
    MODELS,
    SUPPORTED,
    check_family,
    unsupported_in_name,
)
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import Document


def test_the_layouts_are_those_of_the_supported_families():
    assert list(LAYOUTS) == SUPPORTED
    for family in SUPPORTED:
        check_family(Document({"model_type": family}, "config.json"))


@pytest.mark.parametrize(
    ("config", "instead"),
    [
        ({"model_type": "deberta-v2"}, "roberta-base"),
        ({"model_type": "led"}, "longformer-base-4096"),
        ({"model_type": "unheard_of"}, "bert-base-uncased"),
        ({"model_type": ["bert"]}, "bert-base-uncased"),
        ({"architectures": ["MPNetForMaskedLM"]}, "all-MiniLM-L6-v2"),
        ({"architectures": ["LlamaForCausalLM"]}, "ModernBERT-base"),
    ],
)
def test_a_folder_without_weights_names_its_family_first(tmp_path, config, instead):
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        InputError, match="config.json: models of type .*not supported. Take "
    ) as raised:
        TextClassifier.from_pretrained(tmp_path)
    assert f"'{instead}'" in str(raised.value) and instead in MODELS


def test_a_config_without_a_family_is_a_bert():
    check_family(Document({}, "config.json"))
    check_family(Document({"architectures": ["MyOwnModel"]}, "config.json"))


@pytest.mark.parametrize("name", MODELS)
def test_no_published_name_looks_unsupported(name):
    assert unsupported_in_name(name) is None


def test_a_word_is_no_family():
    assert unsupported_in_name("my-new-model") is None
    assert unsupported_in_name("my-mpnet-model") == "mpnet"
