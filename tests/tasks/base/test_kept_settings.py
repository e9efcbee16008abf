"""Settings that are saved in the files of a task model."""

import pytest

from keras_bert_impl.tasks import (
    MultipleChoice,
    NextSentencePredictor,
    QuestionAnswerer,
    TextClassifier,
    TextEmbedder,
    TokenClassifier,
)
from keras_bert_impl.tasks.base.kept_settings import kept_settings, within_positions
from keras_bert_impl.tasks.base.long_texts import LongTexts
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import Document
from tests.tasks.helpers import classifier, encoder


def kept(model_class, **settings):
    names = ("max_length", *model_class.settings)
    return kept_settings(Document({"keras_bert_impl": settings}, "config.json"), model_class, names)


def test_reads_settings_with_their_types():
    settings = {"max_length": 16, "null_threshold": -1.5, "num_best": 3, "other": 3}
    assert kept(QuestionAnswerer, **settings) == {
        "max_length": 16,
        "null_threshold": -1.5,
        "num_best": 3,
    }
    assert kept(TextEmbedder, layer_weights=[1, 0.5]) == {"layer_weights": (1.0, 0.5)}
    assert kept(NextSentencePredictor, head_dropout=None) == {"head_dropout": None}
    long_texts = {"way": "mean", "head_tokens": None, "doc_stride": 4, "max_windows": None}
    assert kept(TextClassifier, long_texts=long_texts) == {
        "long_texts": LongTexts("mean", doc_stride=4)
    }


@pytest.mark.parametrize(
    ("model_class", "settings", "message"),
    [
        (TextClassifier, {"max_length": "16"}, "keras_bert_impl.max_length must be an integer"),
        (QuestionAnswerer, {"num_best": -1}, "num_best must be a positive integer, got -1"),
        (
            NextSentencePredictor,
            {"head_dropout": float("nan")},
            "keras_bert_impl.head_dropout must",
        ),
        (
            NextSentencePredictor,
            {"head_dropout": 2.0},
            r"head_dropout must be a number in \[0, 1\)",
        ),
        (TextEmbedder, {"layer_weights": [0.5, float("inf")]}, "layer_weights must be a list of"),
        (TextEmbedder, {"layer_weights": {"0": 1}}, "layer_weights must be a list of"),
        (QuestionAnswerer, {"null_threshold": True}, "null_threshold must be a number"),
        (TextEmbedder, {"long_texts": {"way": "x"}}, "long_texts: long_texts must be one of"),
    ],
)
def test_rejects_settings_of_another_type(model_class, settings, message):
    with pytest.raises(InputError, match=f"^config.json: .*{message}"):
        kept(model_class, **settings)


def test_limits_max_length_to_the_positions(caplog):
    config = encoder().config
    assert within_positions({"max_length": 512, "crf": True}, config, "model") == {
        "max_length": 32,
        "crf": True,
    }
    assert "model: max_length is 512, but the encoder has 32 positions" in caplog.text
    assert within_positions({"max_length": 32}, config, "model") == {"max_length": 32}
    assert within_positions({}, config, "model") == {}


def test_another_task_does_not_take_over_settings(tmp_path):
    classifier(pooling="max", long_texts="mean", max_length=16).save_pretrained(tmp_path)
    assert TextEmbedder.from_pretrained(tmp_path).pooling == "mean"
    answerer = QuestionAnswerer.from_pretrained(tmp_path, max_question_length=2)
    assert (answerer.doc_stride, answerer.max_length) == (128, 16)
    assert MultipleChoice.from_pretrained(tmp_path).long_texts.way == "truncate"
    assert TokenClassifier.from_pretrained(tmp_path, num_classes=2).doc_stride == 8
    assert TextClassifier.from_pretrained(tmp_path).pooling == "max"


def test_a_subclass_takes_over_settings(tmp_path):
    class Own(TextClassifier):
        pass

    classifier(pooling="max").save_pretrained(tmp_path)
    assert Own.from_pretrained(tmp_path).pooling == "max"
