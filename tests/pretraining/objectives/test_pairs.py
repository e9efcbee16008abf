"""Sentence order against ALBERT's own pre-training model in `transformers`."""

import dataclasses

import numpy as np
import pytest
import torch
import transformers

from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.training.optimizers.adamw import AdamW
from tests.helpers import TINY, randomize

ALBERT = dataclasses.replace(
    TINY,
    architecture="albert",
    embedding_dim=10,
    num_layer_groups=1,
    dropout=0.0,
    attention_dropout=0.0,
)


@pytest.fixture(scope="module")
def batch():
    draw = np.random.default_rng(0)
    rows, length = 4, 12
    features = {
        "token_ids": draw.integers(1, ALBERT.vocabulary_size, (rows, length)),
        "segment_ids": draw.integers(0, ALBERT.num_segments, (rows, length)),
        "position_ids": np.tile(np.arange(length), (rows, 1)),
        "example_ids": np.ones((rows, length)),
        "masked_positions": np.tile([2, 5, 9], (rows, 1)),
        "cls_positions": np.zeros((rows, 1)),
    }
    labels = {
        "masked_lm": draw.integers(1, ALBERT.vocabulary_size, (rows, 3)),
        "sentence_order": [[0], [1], [1], [1]],
    }
    weights = {name: np.ones(np.shape(ids), "float32") for name, ids in labels.items()}
    features, labels = (
        {name: np.array(value, "int32") for name, value in values.items()}
        for values in (features, labels)
    )
    return features, labels, weights


def test_training_equals_pytorch(batch, tmp_path):
    features, labels, weights = batch
    model = Pretrainer(Encoder(ALBERT), ["masked_lm", "sentence_order"])
    randomize(model)
    model.save_pretrained(tmp_path)
    theirs = transformers.AlbertForPreTraining.from_pretrained(
        tmp_path, classifier_dropout_prob=0.0
    ).double()
    words = np.full(features["token_ids"].shape, -100)
    np.put_along_axis(words, features["masked_positions"], labels["masked_lm"], axis=1)
    # Epsilon as in the step tests: Adam amplifies rounding by at most rate / epsilon = 10.
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=1e-2, eps=1e-3, weight_decay=0.0)
    model.compile(AdamW(1e-2, weight_decay=0.0, epsilon=1e-3))
    for _ in range(3):
        model.reset_metrics()
        ours = model.train_on_batch(features, labels, weights, return_dict=True)
        loss = theirs(
            input_ids=torch.tensor(features["token_ids"]),
            token_type_ids=torch.tensor(features["segment_ids"]),
            labels=torch.tensor(words),
            sentence_order_label=torch.tensor(labels["sentence_order"][:, 0]).long(),
        ).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        assert float(ours["loss"]) == pytest.approx(loss.item(), rel=1e-5)
    assert 0 <= float(ours["sentence_order_accuracy"]) <= 1


def test_bert_stores_sentence_order_as_next_sentence(tmp_path):
    model = Pretrainer(Encoder(TINY), ["masked_lm", "sentence_order"])
    randomize(model)
    model.save_pretrained(tmp_path)
    theirs = transformers.BertForPreTraining.from_pretrained(tmp_path)
    head = model.get_layer("sentence_order").dense
    their_kernel = theirs.cls.seq_relationship.weight.detach().numpy().T
    np.testing.assert_array_equal(their_kernel, head.kernel.numpy())
    loaded = Pretrainer.from_pretrained(tmp_path, ["masked_lm", "sentence_order"])
    for ours, restored in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, restored)


@pytest.mark.parametrize(
    "objectives", [[], ["masked_lm", "masked_lm"], ["masked_words"], [["masked_lm"]]]
)
def test_rejects_invalid_arguments(objectives):
    with pytest.raises(ValueError, match="Received"):
        Pretrainer(Encoder(TINY), objectives)
