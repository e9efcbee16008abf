"""Models that `transformers` cannot compute say so when they are saved, and in their card."""

import dataclasses
import logging

import pytest
import transformers

from keras_bert_impl import (
    Encoder,
    FeatureTagger,
    LongTexts,
    TextClassifier,
    TextEmbedder,
    TokenClassifier,
)
from keras_bert_impl.pretraining.building import model_config
from tests.tasks import helpers

TAGS = ["O", "B-X"]
WINDOWS = LongTexts("mean", doc_stride=4)
MODELS = {
    "pooling='mean'": lambda *parts: TextClassifier(*parts, num_classes=2, pooling="mean"),
    "pooling='attention'": lambda *parts: TextClassifier(
        *parts, num_classes=2, pooling="attention"
    ),
    "long_texts='mean'": lambda *parts: TextClassifier(*parts, num_classes=2, long_texts=WINDOWS),
    "crf=True": lambda *parts: TokenClassifier(*parts, labels=TAGS, crf=True),
    "a tagger on the encoder": lambda *parts: FeatureTagger(*parts, labels=TAGS, lstm_dim=4),
}


def saved(model, directory, caplog):
    """Returns the warnings of `save_pretrained`, and the card."""
    with caplog.at_level(logging.WARNING):
        model.save_pretrained(directory)
    return caplog.text, (directory / "README.md").read_text()


def test_a_causal_tagger_of_modernbert_is_named(tmp_path, caplog):
    config = model_config("cpu_small.json")
    sizes = {"vocabulary_size": 100, "hidden_dim": 16, "num_layers": 1, "num_heads": 2}
    encoder = Encoder(dataclasses.replace(config, causal=True, intermediate_dim=8, **sizes))
    model = TokenClassifier(encoder, helpers.tokenizer(), labels=TAGS)
    for text in saved(model, tmp_path / "model", caplog):
        assert "Other libraries do not support taggers on a causal ModernBERT" in text
    # transformers has no class for these files, as the warning says.
    with pytest.raises(ValueError, match="Unrecognized configuration class"):
        transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "model")


@pytest.mark.parametrize("setting", MODELS)
def test_what_transformers_does_not_have_is_named(setting, tmp_path, caplog):
    model = MODELS[setting](helpers.encoder(), helpers.tokenizer())
    for text in saved(model, tmp_path / "model", caplog):
        assert f"Other libraries do not support {setting}: `transformers`" in text


def test_windows_of_an_embedder_are_named(tmp_path, caplog):
    model = TextEmbedder(helpers.encoder(), helpers.tokenizer(), long_texts=WINDOWS)
    assert all("long_texts='mean'" in text for text in saved(model, tmp_path / "model", caplog))


def test_nothing_is_said_of_a_model_that_transformers_computes(tmp_path, caplog):
    parts = helpers.encoder(), helpers.tokenizer()
    for model in (
        TextClassifier(*parts, num_classes=2),
        TokenClassifier(*parts, labels=TAGS),
        TextEmbedder(*parts),
    ):
        warned, card = saved(model, tmp_path / type(model).__name__, caplog)
        assert "Other libraries" not in warned + card


def test_the_pooler_of_transformers_is_new(tmp_path):
    """What the warning says is true: the pooler is missing in the files."""
    model = MODELS["pooling='mean'"](helpers.encoder(use_pooler=False), helpers.tokenizer())
    model.save_pretrained(tmp_path / "model")
    _, report = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "model", output_loading_info=True
    )
    assert "bert.pooler.dense.weight" in report["missing_keys"]
