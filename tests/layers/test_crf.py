"""The CRF against brute force over all label sequences, on either backend."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_bert_impl.layers import CRF
from tests.helpers import compiled, difference, gradient, randomize, to_numpy

LABELS = 3
# Full, with holes, a prefix, a single position, and empty.
MASK = np.array([[1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0] * 5])
EMISSIONS = np.random.default_rng(0).normal(size=(5, 5, LABELS)).astype("float32")
GOLD = np.random.default_rng(1).integers(0, LABELS, (5, 5))
# Sums of at most 243 float32 terms of magnitude 10.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def layer():
    crf = CRF(LABELS, name="crf")
    crf.build(EMISSIONS.shape)
    randomize(crf, scale=1.0)
    return crf


def all_sequences(crf, row):
    """Returns (labels [sequences, positions], float64 probabilities [sequences]) of a row."""
    places = np.flatnonzero(MASK[row])
    emissions = EMISSIONS[row, places].astype("float64")
    transitions, start, end = (
        to_numpy(weight.value).astype("float64") for weight in (crf.transitions, crf.start, crf.end)
    )
    sequences = np.array(list(itertools.product(range(LABELS), repeat=len(places))))
    scores = emissions[np.arange(len(places)), sequences].sum(axis=1)
    scores += transitions[sequences[:, :-1], sequences[:, 1:]].sum(axis=1)
    scores += start[sequences[:, 0]] + end[sequences[:, -1]]
    exponentials = np.exp(scores - scores.max())
    return sequences, exponentials / exponentials.sum()


def test_equals_the_sum_over_all_sequences(layer):
    received = to_numpy(layer.log_likelihood(EMISSIONS, GOLD, MASK))
    marginals, decoded = to_numpy(layer(EMISSIONS, MASK)), to_numpy(layer.decode(EMISSIONS, MASK))
    for row in range(4):
        places = np.flatnonzero(MASK[row])
        sequences, probabilities = all_sequences(layer, row)
        is_gold = (sequences == GOLD[row, places]).all(axis=1)
        assert received[row] == pytest.approx(np.log(probabilities[is_gold][0]), abs=TOLERANCE)
        np.testing.assert_array_equal(decoded[row, places], sequences[probabilities.argmax()])
        of_labels = sequences[..., None] == np.arange(LABELS)  # [sequences, positions, labels]
        expected = (of_labels * probabilities[:, None, None]).sum(axis=0)
        np.testing.assert_allclose(marginals[row, places], expected, atol=TOLERANCE)
    assert received[4] == 0 and not decoded[4].any()
    assert not marginals[MASK == 0].any() and not decoded[MASK == 0].any()


def test_transitions_decide(layer):
    crf = CRF(2)
    crf.build((None, None, 2))
    emissions = np.array([[[1.0, 0.0], [0.0, 0.1], [1.0, 0.0]]], "float32")
    mask = np.ones((1, 3))
    assert to_numpy(crf.decode(emissions, mask)).tolist() == [[0, 1, 0]]
    crf.transitions.assign([[0.0, -1.0], [0.0, 0.0]])
    assert to_numpy(crf.decode(emissions, mask)).tolist() == [[0, 0, 0]]
    crf.start.assign([-5.0, 0.0])
    assert to_numpy(crf.decode(emissions, mask)).tolist() == [[1, 1, 0]]


def test_gradient_is_expected_minus_observed_counts(layer):
    """With respect to the emissions: one-hot gold labels minus the marginal probabilities."""
    slopes = to_numpy(gradient(lambda x: ops.sum(layer.log_likelihood(x, GOLD, MASK)), EMISSIONS))
    gold = np.eye(LABELS)[GOLD] * MASK[..., None]
    assert difference(slopes, gold - to_numpy(layer(EMISSIONS, MASK))) < TOLERANCE


def test_trains_its_weights(layer):
    """Weights move by observed minus expected counts, summed over all rows."""
    before = [to_numpy(weight.value) for weight in layer.weights]
    crf = CRF(LABELS)
    crf.build(EMISSIONS.shape)
    crf.set_weights(before)

    class Negative(keras.Model):
        """Outputs the negative log-likelihood, for Keras to minimize."""

        def __init__(self):
            super().__init__()
            self.crf = crf

        def call(self, emissions):
            return -self.crf.log_likelihood(emissions, GOLD, MASK)

    model = Negative()
    model.compile(keras.optimizers.SGD(1.0), loss=lambda _, losses: losses)
    model.fit(EMISSIONS, np.zeros(5), batch_size=5, shuffle=False, verbose=0)  # mean over 5 rows
    moved = [5 * (to_numpy(w.value) - old) for w, old in zip(crf.weights, before)]
    expected = [np.zeros_like(weight, dtype="float64") for weight in before]
    for row in range(4):
        sequences, probabilities = all_sequences(layer, row)
        gold = GOLD[row, np.flatnonzero(MASK[row])]
        for labels, share in [(gold, 1.0), *zip(sequences, -probabilities)]:
            np.add.at(expected[0], (labels[:-1], labels[1:]), share)
            expected[1][labels[0]] += share
            expected[2][labels[-1]] += share
    for received, count in zip(moved, expected, strict=True):
        np.testing.assert_allclose(received, count, atol=5 * TOLERANCE)


def test_trains_compiled(layer):
    """XLA cannot differentiate a loop whose length it does not know."""
    labels, mask = ops.convert_to_tensor(GOLD), ops.convert_to_tensor(MASK)

    def slopes(emissions):
        return gradient(lambda x: ops.sum(layer.log_likelihood(x, labels, mask)), emissions)

    tensor = ops.convert_to_tensor(EMISSIONS)
    assert difference(compiled(slopes)(tensor), slopes(tensor)) < TOLERANCE


def test_long_rows_stay_finite():
    crf = CRF(LABELS)
    crf.build((None, None, LABELS))
    shape = (1, 100)
    labels, mask = np.zeros(shape, int), np.ones(shape)
    received = to_numpy(crf.log_likelihood(np.full((*shape, LABELS), 50.0), labels, mask))
    # 100 independent choices of three labels. Sums up to 5000 round to 5e-4, about 100 times.
    assert received[0] == pytest.approx(-100 * np.log(LABELS), abs=0.05)


def test_long_rows_are_as_exact_as_short_ones():
    """If each transition score is a sum of two per-label terms, positions are independent."""
    draw, length = np.random.default_rng(0), 510
    before, after, start, end = draw.normal(size=(4, LABELS))
    crf = CRF(LABELS)
    crf.build((None, None, LABELS))
    crf.set_weights([before[:, None] + after, start, end])
    emissions = draw.normal(loc=5.0, size=(1, length, LABELS)).astype("float32")
    logits = emissions[0] + before + after
    logits[0] += start - after
    logits[-1] += end - before
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    mask = np.ones((1, length))
    # Numbers of magnitude 10 have an error of 5e-7 each, and the influence of earlier positions
    # decays fast.
    received = to_numpy(compiled(crf)(emissions, mask))[0]
    np.testing.assert_allclose(received, expected, atol=5e-6)
    decoded = to_numpy(compiled(crf.decode)(emissions, mask))[0]
    np.testing.assert_array_equal(decoded, logits.argmax(axis=1))


def test_configuration():
    crf = CRF.from_config(CRF(LABELS, dtype="mixed_bfloat16", name="tags").get_config())
    outputs = crf(keras.KerasTensor((2, 5, LABELS)), keras.KerasTensor((2, 5), dtype="int32"))
    assert outputs.shape == (2, 5, LABELS) and outputs.dtype == "float32"
    assert crf.count_params() == LABELS * LABELS + 2 * LABELS and crf.name == "tags"
    assert {weight.dtype for weight in crf.weights} == {"float32"}
