"""FLOPs of a model against published figures."""

import dataclasses

import pytest

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.training.runs.reports import encoder_flops, matmul_peak, vocabulary_flops
from tests.helpers import MODERN

BASE = EncoderConfig.named("bert-base-uncased")


@pytest.mark.parametrize(("length", "expected"), [(128, 22.4e9), (512, 96.6e9)])
def test_bert_base(length, expected):
    assert length * encoder_flops(BASE, length) == pytest.approx(expected, rel=3e-3)


def test_parts_by_hand():
    config = dataclasses.replace(
        BASE, num_layers=1, hidden_dim=10, num_heads=2, intermediate_dim=30, embedding_dim=6
    )
    # 4 matrices of 10 * 10, 2 of 10 * 30; scores and sums over 7 keys of width 10; embeddings 6 *
    # 10
    assert encoder_flops(config, 7) == 2 * (400 + 600 + 2 * 70 + 60)
    assert vocabulary_flops(config) == 2 * (10 * 6 + 6 * BASE.vocabulary_size)


def test_windows_and_gates():
    # 4 layers; 2 of them see 2 tokens on each side and the token itself. The feed-forward has 3
    # matrices.
    maps = 4 * 16 * 16 + 3 * 16 * 24
    assert encoder_flops(MODERN, 12) == 2 * (4 * maps + 2 * 16 * (2 * 12 + 2 * 5))
    assert encoder_flops(MODERN, 3) == 2 * (4 * maps + 2 * 16 * 4 * 3)


def test_peak_rate_is_plausible():
    assert 1e8 < matmul_peak("float32") < 1e17
    assert matmul_peak("float32") == matmul_peak("float32")  # measured once, then cached
