"""Dropout rates that task models and layers accept."""

import numpy as np
import pytest

from keras_bert_impl.layers import ClassificationHead, Dropout
from keras_bert_impl.tasks import (
    FeatureTagger,
    MultipleChoice,
    NextSentencePredictor,
    QuestionAnswerer,
    TextClassifier,
    TokenClassifier,
)
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import encoder, tokenizer

MODELS = {
    TextClassifier: {"num_classes": 2},
    TokenClassifier: {"labels": ["O", "B-A"]},
    FeatureTagger: {"labels": ["O", "B-A"], "lstm_dim": 4},
    QuestionAnswerer: {"max_question_length": 8},
    MultipleChoice: {},
    NextSentencePredictor: {},
}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_models_reject_invalid_dropout_rates(model):
    for rate in (2.0, 1, -0.1, float("nan"), "0.1", True):
        with pytest.raises(InputError, match=r"head_dropout must be a number in \[0, 1\), got"):
            model(encoder(), tokenizer(), head_dropout=rate, **MODELS[model])
    model(encoder(), tokenizer(), head_dropout=np.float32(0.5), **MODELS[model])


def test_layers_reject_invalid_dropout_rates():
    for layer in (Dropout, lambda rate: ClassificationHead(2, dropout=rate)):
        with pytest.raises(InputError, match=r"dropout must be a number in \[0, 1\), got 2.0"):
            layer(2.0)
