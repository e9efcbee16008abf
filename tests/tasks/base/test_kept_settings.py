"""Settings that are saved in the files of a task model."""

import pytest

from keras_bert_impl.io.document import Document
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks import (
    MultipleChoice,
    QuestionAnswerer,
    TextClassifier,
    TextEmbedder,
    TokenClassifier,
)
from keras_bert_impl.tasks.base.kept_settings import kept_settings, within_positions
from tests.tasks.helpers import classifier, encoder


def kept(names, **own):
    return kept_settings(Document({"keras_bert_impl": own}, "config.json"), names)


def test_reads_settings_with_their_types():
    own = {"max_length": 16, "null_threshold": -1.5, "head_dropout": None, "other": 3}
    names = ("max_length", *QuestionAnswerer.settings)
    assert kept(names, **own) == {"max_length": 16, "null_threshold": -1.5, "head_dropout": None}
    assert kept(TextEmbedder.settings, layer_weights=[1, 0.5]) == {"layer_weights": [1, 0.5]}


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"max_length": "16"}, "keras_bert_impl.max_length must be an integer from 1"),
        ({"max_length": -1}, "max_length must be an integer from 1 .*Received: -1"),
        (
            {"head_dropout": float("nan")},
            "keras_bert_impl.head_dropout must be a number at least 0",
        ),
        ({"head_dropout": 2.0}, "head_dropout must be a number at least 0 and below 1"),
        ({"layer_weights": [0.5, float("inf")]}, "layer_weights.1 must be a number"),
        ({"layer_weights": {"0": 1}}, "layer_weights must be a list of numbers"),
        ({"null_threshold": True}, "null_threshold must be a number"),
    ],
)
def test_rejects_settings_of_another_type(own, message):
    names = ("max_length", *QuestionAnswerer.settings, *TextEmbedder.settings)
    with pytest.raises(InputError, match=f"^config.json: .*{message}"):
        kept(names, **own)


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
