"""Names that do not exist in a package, as they are imported."""

import importlib
import inspect

import pytest

import keras_bert_impl
from keras_bert_impl.import_guesses import _LINES, explain

FOREIGN = {
    "AutoTokenizer": "Tokenizer.from_pretrained",
    "BertTokenizerFast": "Tokenizer.from_pretrained",
    "AutoModel": "Encoder.from_pretrained",
    "TFBertModel": "Encoder.from_pretrained",
    "RobertaBackbone": "Encoder.from_pretrained",
    "AutoModelForSequenceClassification": "TextClassifier.from_pretrained",
    "TFBertForTokenClassification": "TokenClassifier.from_pretrained",
    "BertForMaskedLM": "MaskedLM.from_pretrained",
    "BertMaskedLM": "MaskedLM.from_pretrained",
    "FlaubertWithLMHeadModel": "MaskedLM.from_pretrained",
    "GPT2LMHeadModel": "CausalLM.from_pretrained",
    "AutoModelForCausalLM": "CausalLM.from_pretrained",
    "BertConfig": "EncoderConfig.named",
    "BertTextClassifier": "TextClassifier.from_pretrained",
    "SentenceTransformer": "TextEmbedder.from_pretrained",
    "CrossEncoder": "TextClassifier.from_pretrained",
    "pipeline": "TextClassifier.from_pretrained",
    "Trainer": "finetune",
    "TFTrainingArguments": "finetune",
    "load_trained_model_from_checkpoint": "Encoder.from_pretrained",
    "read_table": "from keras_bert_impl.tasks import read_table",
    "FinetuneSettings": "from keras_bert_impl.tasks import FinetuneSettings",
    "MeanPooling": "from keras_bert_impl.layers import MeanPooling",
    "local_directory": "from keras_bert_impl.hub import local_directory",
    "TextClasifier": "Did you mean 'TextClassifier'",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_the_message_has_the_line_to_write(name):
    with pytest.raises(ImportError, match=f"has no {name}") as raised:
        exec(f"from keras_bert_impl import {name}")
    assert FOREIGN[name] in str(raised.value)
    module, _, imported = FOREIGN[name].removeprefix("from ").partition(" import ")
    if imported:
        assert hasattr(importlib.import_module(module), imported)


@pytest.mark.parametrize("line", _LINES.values())
def test_the_names_in_the_lines_exist(line):
    named = {word for word in keras_bert_impl.__all__ if word in line}
    assert named or line.startswith(("keras.", "keras_bert_impl.tasks.read_table", "model.fit"))


def test_every_public_name_of_a_room_is_found_from_above():
    for room in ("tasks", "pretraining", "layers", "training", "interop", "hub", "tokenizers"):
        module = importlib.import_module(f"keras_bert_impl.{room}")
        for name in set(getattr(module, "__all__", ())) - set(keras_bert_impl.__all__):
            if not inspect.ismodule(getattr(module, name)):
                assert f"import {name}`" in explain("keras_bert_impl", name)


def test_other_names_are_left_to_python():
    assert not hasattr(keras_bert_impl, "zzz") and not hasattr(keras_bert_impl, "__wrapped__")
    with pytest.raises(ImportError, match="cannot import name 'zzz'"):
        exec("from keras_bert_impl import zzz")
    from keras_bert_impl import hub, tokenizers

    assert inspect.ismodule(hub) and inspect.ismodule(tokenizers)
