"""Attention by the offsets of packed examples. What needs a GPU is skipped without one."""

import keras
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="a kernel of JAX")


def test_segments_are_the_runs_of_equal_numbers():
    from keras_bert_impl.layers.fused_attention import MOST_SEGMENTS, segments

    ids = np.array([[1, 1, 2, 3, 3, 0, 0], [1] * 7], "int32")
    lengths, starts = segments(ids)
    assert lengths.shape == (2, MOST_SEGMENTS) and starts.shape == (2, MOST_SEGMENTS + 1)
    assert lengths[:, :4].tolist() == [[2, 1, 2, 2], [7, -1, -1, -1]]
    assert starts[:, :4].tolist() == [[0, 2, 3, 5], [0, -1, -1, -1]]
    assert (lengths[:, 4:] == -1).all() and (starts[:, 4:] == -1).all()


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([1, 1, 2, 0], True),
        ([0, 0, 0, 0], True),
        ([1, 2, 1, 0], False),  # an example in two pieces
        ([1, 0, 2, 2], False),
        (range(1, 10), True),  # as many segments as it takes
        (range(1, 11), False),
    ],
)
def test_rows_that_fit(ids, expected):
    from keras_bert_impl.layers.fused_attention import fits

    row = np.array([list(ids)], "int32")
    assert bool(fits(row)) is expected
    # One row that does not fit is enough.
    assert bool(fits(np.concatenate([row, np.ones_like(row)]))) is expected


@pytest.mark.parametrize("length", [512, 2048])
@pytest.mark.parametrize("pieces", [3, 20])
def test_outputs_and_gradients_equal_the_formula_on_a_gpu(length, pieces):
    import jax
    import jax.numpy as jnp

    from keras_bert_impl.layers import fused_attention as fused

    if fused.fused_kernel() != "cudnn" or float(jax.devices()[0].compute_capability) < 9:
        pytest.skip("needs a GPU of compute capability 9.0")
    rows = [1 + np.arange(length - 30) * pieces // (length - 30), np.arange(length) // 7 % 2 + 1]
    ids = np.stack([np.pad(row, (0, length - len(row))) for row in rows]).astype("int32")
    for row_ids in (ids[:1], ids):  # with offsets if the pieces are few; by the mask
        query, key, value, slope = jnp.asarray(
            np.random.default_rng(0).normal(size=(4, len(row_ids), 2, length, 64)), "bfloat16"
        )
        query = query * 64**-0.5

        def by_formula(query, key, value):
            same = (row_ids[:, :, None] == row_ids[:, None, :])[:, None]
            scores = jnp.where(same, query @ key.swapaxes(-1, -2), -jnp.inf)
            return jax.nn.softmax(scores) @ value

        def by_kernel(query, key, value):
            return fused.fused_attention(query, key, value, jnp.asarray(row_ids))

        outputs, pull = jax.vjp(jax.jit(by_kernel), query, key, value)
        exact, pull_exact = jax.vjp(by_formula, *(x.astype("float32") for x in (query, key, value)))
        pairs = zip((outputs, *pull(slope)), (exact, *pull_exact(slope.astype("float32"))))
        for received, expected in pairs:
            error = jnp.linalg.norm(received.astype("float32") - expected)
            # Results, weights and their gradients are rounded to bfloat16, 2^-9 relative each.
            assert error <= 4 * 2.0**-9 * jnp.linalg.norm(expected)
