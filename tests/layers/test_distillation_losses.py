"""Distillation losses against PyTorch and closed forms, and the elements they ignore."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from keras_bert_impl.layers import losses as losses
from tests.helpers import difference, to_numpy

TARGETS, OUTPUTS = np.random.default_rng(0).normal(scale=2.0, size=(2, 3, 5, 4)).astype("float32")
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 1, 0]], "int32")
# Sums of 4 float32 values of up to about 10.
TOLERANCE = 4 * 10 * 2.0**-24


def tensors(*arrays):
    return [torch.from_numpy(np.asarray(array, "float64")) for array in arrays]


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_kl_divergence_equals_pytorch(temperature):
    targets, logits = tensors(TARGETS, OUTPUTS)
    expected = (
        F.kl_div(
            F.log_softmax(logits / temperature, -1),
            F.softmax(targets / temperature, -1),
            reduction="none",
        ).sum(-1)
        * temperature**2
    )
    received = losses.kl_divergence(TARGETS, OUTPUTS, temperature)
    assert difference(received, expected) < TOLERANCE * temperature**2
    assert difference(losses.kl_divergence(TARGETS, TARGETS + 3.0), np.zeros((3, 5))) < TOLERANCE


def test_kl_divergence_differs_from_soft_cross_entropy_by_a_constant():
    targets, logits, other_logits = tensors(TARGETS, OUTPUTS, OUTPUTS[::-1].copy())
    soft = F.softmax(targets, -1)
    entropy, other_entropy = (
        -(soft * F.log_softmax(x, -1)).sum(-1) for x in (logits, other_logits)
    )
    ours, of_others = (to_numpy(losses.kl_divergence(TARGETS, x)) for x in (OUTPUTS, OUTPUTS[::-1]))
    assert difference(ours - of_others, entropy - other_entropy) < 2 * TOLERANCE


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_binary_kl_divergence_equals_two_classes(temperature):
    # A binary label equals two classes with the logits x and 0.
    targets, outputs = (np.stack([x, np.zeros_like(x)], -1) for x in (TARGETS, OUTPUTS))
    expected = to_numpy(losses.kl_divergence(targets, outputs, temperature)).mean(-1)
    received = losses.binary_kl_divergence(TARGETS, OUTPUTS, temperature)
    assert difference(received, expected) < TOLERANCE * temperature**2


def test_squared_error_and_cosine_equal_pytorch():
    targets, outputs = tensors(TARGETS, OUTPUTS)
    expected = F.mse_loss(outputs, targets, reduction="none").mean(-1)
    assert difference(losses.squared_error(TARGETS, OUTPUTS), expected) < TOLERANCE
    same = torch.ones(15, dtype=torch.float64)
    expected = F.cosine_embedding_loss(
        targets.reshape(15, 4), outputs.reshape(15, 4), same, reduction="none"
    ).reshape(3, 5)
    assert difference(losses.cosine_distance(TARGETS, OUTPUTS), expected) < TOLERANCE


def test_padding_does_not_count():
    received = losses.mean_over_tokens(TARGETS[..., 0], MASK)
    expected = [TARGETS[row, : MASK[row].sum(), 0].mean() for row in range(3)]
    assert difference(received, expected) < TOLERANCE
    assert to_numpy(losses.mean_over_tokens(TARGETS[..., 0], 0 * MASK)).tolist() == [0, 0, 0]


def test_attention_error_is_the_mean_over_heads_and_pairs_of_real_tokens():
    draw = np.random.default_rng(1)
    teacher, student = draw.normal(size=(2, 3, 2, 5, 5)).astype("float32")
    received = losses.attention_error(teacher, student, MASK)
    for row, count in enumerate(MASK.sum(1)):
        target, output = tensors(teacher[row, :, :count, :count], student[row, :, :count, :count])
        # A mean of up to 50 squares of up to 16; each term of the sum is rounded.
        assert abs(float(received[row]) - float(F.mse_loss(output, target))) < 50 * 16 * 2.0**-24
