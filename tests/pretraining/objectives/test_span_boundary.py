"""The span-boundary objective against a closed form in numpy."""

import dataclasses
import math

import numpy as np
import pytest
import transformers

from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining.objectives import MaskedLM, SpanBoundary
from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.training.optimizers.adamw import AdamW
from tests.helpers import TINY, randomize

LENGTH = 30
CONFIG = dataclasses.replace(TINY, max_length=LENGTH, dropout=0.0, attention_dropout=0.0)


@pytest.fixture(scope="module")
def pretrainer():
    model = Pretrainer(Encoder(CONFIG), [MaskedLM(), SpanBoundary(weight=0.5)])
    randomize(model)
    model.compile(AdamW(1e-3))
    return model


@pytest.fixture(scope="module")
def batch():
    """Spans of 2 to 5 and of 3 to 25 positions; the last slot of the first row is unused."""
    draw = np.random.default_rng(0)
    features = {
        "token_ids": draw.integers(1, CONFIG.vocabulary_size, (2, LENGTH)),
        "segment_ids": np.zeros((2, LENGTH)),
        "position_ids": np.tile(np.arange(LENGTH), (2, 1)),
        "example_ids": np.ones((2, LENGTH)),
        "masked_positions": [[2, 3, 5, 0], [3, 22, 24, 25]],
        "span_starts": [[2, 2, 2, 0], [3, 3, 3, 3]],
        "span_ends": [[5, 5, 5, 0], [25, 25, 25, 25]],
    }
    labels = draw.integers(1, CONFIG.vocabulary_size, (2, 4)).astype("int32")
    weights = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "float32")
    names = ("masked_lm", "span_boundary")
    return (
        {name: np.array(value, "int32") for name, value in features.items()},
        dict.fromkeys(names, labels),
        dict.fromkeys(names, weights),
    )


def normalized(states, layer):
    centred = states - states.mean(axis=-1, keepdims=True)
    states = centred / np.sqrt(states.var(axis=-1, keepdims=True) + layer.epsilon)
    return states * layer.gamma.numpy() + layer.beta.numpy()


def dense(states, layer):
    states = states @ layer.kernel.numpy() + layer.bias.numpy()
    return 0.5 * states * (1 + np.vectorize(math.erf)(states / math.sqrt(2)))


def test_logits_equal_the_closed_form(pretrainer, batch):
    features, _, _ = batch
    names = ("token_ids", "segment_ids", "position_ids", "example_ids")
    states = pretrainer.encoder({name: features[name] for name in names})["sequence_output"]
    states = np.asarray(states, "float64")
    head = pretrainer.get_layer("span_boundary")
    logits = np.asarray(pretrainer(features)["span_boundary"])
    for row, slot in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]:
        start, end = features["span_starts"][row, slot], features["span_ends"][row, slot]
        # Positions from the twentieth on share an embedding.
        place = min(features["masked_positions"][row, slot] - start, 19)
        of_place = np.asarray(head.place_embeddings[place])
        inputs = np.concatenate([states[row, start - 1], states[row, end + 1], of_place])
        hidden = normalized(dense(inputs, head.dense), head.layer_norm)
        hidden = normalized(dense(hidden, head.words.dense), head.words.layer_norm)
        table = pretrainer.encoder.embeddings.token_embeddings.numpy()
        expected = table @ hidden + head.words.output_bias.numpy()
        # 1e-5 as elsewhere: float32 against float64 at these widths differs by a few 1e-6.
        assert np.abs(logits[row, slot] - expected).max() < 1e-5


def test_loss_is_the_weighted_sum(pretrainer, batch):
    logs = pretrainer.evaluate(*batch[:2], sample_weight=batch[2], verbose=0, return_dict=True)
    expected = logs["masked_lm_loss"] + 0.5 * logs["span_boundary_loss"]
    assert logs["loss"] == pytest.approx(expected, rel=1e-6)


def test_directory(pretrainer, batch, tmp_path):
    pretrainer.save_pretrained(tmp_path)
    loaded = Pretrainer.from_pretrained(tmp_path, ["span_boundary", "masked_lm"])
    for name, logits in pretrainer(batch[0]).items():
        np.testing.assert_array_equal(loaded(batch[0])[name], logits)
    # `transformers` loads it as a masked language model and ignores the other head.
    theirs = transformers.BertForMaskedLM.from_pretrained(tmp_path)
    bias = theirs.cls.predictions.bias.detach().numpy()
    np.testing.assert_array_equal(bias, pretrainer.get_layer("masked_lm").output_bias.numpy())
