"""Attention maps: weights, token labels, and the grid of heads."""

import struct

import numpy as np
import pytest

from keras_bert_impl.reports.plots import attention_map
from keras_bert_impl.utils.errors import InputError

TOKENS = ["[CLS]", "a", "cat", "##s", "[SEP]"]


def weights(heads, length):
    """Distinct rows that sum to 1: [heads, length, length]."""
    scores = np.arange(heads * length * length, dtype="float32").reshape(heads, length, length) + 1
    return scores / scores.sum(-1, keepdims=True)


def test_one_head(tmp_path):
    path = tmp_path / "map.png"
    scores = weights(1, 5)[0]
    figure = attention_map(TOKENS, scores, path, "Layer 1, head 0")
    axes, scale = figure.axes
    drawn = axes.images[0].get_array()
    np.testing.assert_allclose(np.square(drawn), scores, rtol=1e-6)  # float32 root and square
    assert [label.get_text() for label in axes.get_xticklabels()] == TOKENS
    assert [label.get_text() for label in axes.get_yticklabels()] == TOKENS
    assert "attention weight" in scale.get_ylabel()
    assert figure.get_suptitle() == "Layer 1, head 0"
    # (1.6 + 3.4) by (0.9 + 3.4) inches at 120 dpi; rounding may lose one dot.
    head = path.read_bytes()[:24]
    assert struct.unpack(">II", head[16:24]) == pytest.approx((600, 516), abs=1)


def test_heads_are_a_grid_without_padding(tmp_path):
    scores = weights(6, 9)
    figure = attention_map(TOKENS, scores, tmp_path / "map.png", names=list("uvwxyz"))
    *maps, _ = figure.axes
    assert [axes.get_title() for axes in maps] == list("uvwxyz")
    for axes, head in zip(maps, scores, strict=True):
        drawn = axes.images[0].get_array()
        np.testing.assert_allclose(np.square(drawn), head[:5, :5], rtol=1e-6)
    assert len({round(axes.get_position().x0, 3) for axes in maps}) == 3  # 3 columns, 2 rows


def test_long_texts_name_only_some_tokens(tmp_path):
    tokens = [f"t{number}" for number in range(100)]
    figure = attention_map(tokens, weights(1, 100)[0], tmp_path / "map.png")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == tokens[::2]
    assert figure.axes[0].images[0].get_array().shape == (100, 100)


@pytest.mark.parametrize(
    "tokens, scores, names, message",
    [
        (TOKENS, np.ones([4, 4]), None, r"\[4, 4\] for 5 tokens"),
        (TOKENS, np.ones([5, 6]), None, r"\[5, 6\]"),
        (TOKENS, np.ones([1, 2, 5, 5]), None, r"\[1, 2, 5, 5\]"),
        ([], np.ones([5, 5]), None, "nothing to draw: no tokens"),
        (TOKENS, np.ones([2, 5, 5]), ["one"], "1 names for 2 heads"),
    ],
)
def test_rejects_shapes_that_do_not_match(tmp_path, tokens, scores, names, message):
    with pytest.raises(InputError, match=message):
        attention_map(tokens, scores, tmp_path / "map.png", names=names)
    assert not list(tmp_path.iterdir())
