"""Losses of sentence embeddings against their formulas in PyTorch, in float64."""

import numpy as np
import pytest
import torch
from keras import ops
from torch.nn import functional

from keras_bert_impl.tasks.embedding import losses
from keras_bert_impl.utils.errors import InputError
from tests.helpers import gradient, to_numpy

DRAW = np.random.default_rng(1)
VECTORS = DRAW.normal(size=(7, 3, 5)).astype("float32")  # [batch, group, dim]
LABELS = np.array([0, 0.5, 0.25, 1, 0.5, 0, 0.75], "float32")


def torch_cosine(vectors):
    cosines = functional.cosine_similarity(vectors[:, 0], vectors[:, 1])
    return functional.mse_loss(cosines, torch.tensor(LABELS, dtype=torch.float64))


def torch_cosent(vectors):
    scores = 20 * functional.cosine_similarity(vectors[:, 0], vectors[:, 1])
    total = torch.ones((), dtype=torch.float64)
    for i in range(len(LABELS)):
        for j in range(len(LABELS)):
            if LABELS[i] < LABELS[j]:
                total = total + torch.exp(scores[i] - scores[j])
    return torch.log(total)


def torch_triplet(vectors):
    return functional.triplet_margin_loss(*vectors.unbind(1), margin=1.5)


def torch_multiple_negatives(vectors):
    anchors, positives, negatives = functional.normalize(vectors, dim=-1).unbind(1)
    logits = 20 * anchors @ torch.cat([positives, negatives]).T
    return functional.cross_entropy(logits, torch.arange(len(anchors)))


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (lambda v: ops.mean(losses.cosine_losses(v, LABELS)), torch_cosine),
        (lambda v: losses.cosent_loss(v, LABELS, 20.0), torch_cosent),
        (lambda v: ops.mean(losses.triplet_losses(v, 1.5)), torch_triplet),
        (lambda v: losses.multiple_negatives_loss(v, 20.0), torch_multiple_negatives),
    ],
    ids=["cosine", "cosent", "triplet", "multiple_negatives"],
)
def test_values_and_gradients(ours, theirs):
    value = ours(ops.convert_to_tensor(VECTORS))
    reference = torch.tensor(VECTORS, dtype=torch.float64, requires_grad=True)
    expected = theirs(reference)
    expected.backward()
    # A cosine is off by a few units of 6e-8; 20 times that is about 5e-6, in a log-sum-exp.
    assert float(value) == pytest.approx(expected.item(), abs=5e-6)
    received = to_numpy(gradient(ours, VECTORS))
    np.testing.assert_allclose(received, reference.grad.numpy(), atol=2e-5)
    assert np.abs(received).max() > 0.01


def test_closed_forms():
    # Cosines of 1 and 0, although the first pair should have the smaller one.
    pairs = np.array([[[1, 0], [2, 0]], [[0, 1], [1, 0]]], "float32")
    wrong = losses.cosent_loss(pairs, np.array([0.0, 1.0], "float32"), 20.0)
    assert float(wrong) == pytest.approx(np.log1p(np.exp(20)), rel=1e-6)
    equal = losses.cosent_loss(pairs, np.array([0.5, 0.5], "float32"), 20.0)
    assert float(equal) == 0.0
    # With equal vectors, both candidates are equally likely.
    same = losses.multiple_negatives_loss(np.ones((2, 2, 3), "float32"), 20.0)
    assert float(same) == pytest.approx(np.log(2), abs=1e-5)


def test_equal_texts_have_finite_gradients():
    def loss(vectors):
        return ops.sum(losses.triplet_losses(vectors, 1.0))

    vectors = np.ones((2, 3, 4), "float32")
    assert float(loss(vectors)) == pytest.approx(2.0)
    assert np.isfinite(to_numpy(gradient(loss, vectors))).all()


@pytest.mark.parametrize(
    "loss, group, message",
    [
        ("cosine", 3, "takes examples of two texts"),
        ("triplet", 2, r"takes examples of three texts \(anchor, positive, negative\)"),
        ("multiple_negatives", 1, "two texts .anchor, positive. or more"),
    ],
)
def test_rejects_examples_of_another_size(loss, group, message):
    with pytest.raises(InputError, match=message):
        losses.check_group(loss, group)
