"""Drift between samples, against SciPy and closed forms."""

import numpy as np
import pytest
import scipy.special
import scipy.stats

from keras_bert_impl.runs.drift import Comparison, compare_classes, compare_numbers


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.5, 3.0])
@pytest.mark.parametrize("sizes", [(200, 300), (1000, 50), (5, 4)])
def test_p_value_of_numbers_equals_scipy(sizes, shift):
    draw = np.random.default_rng(0)
    first, second = (draw.normal(size=size).round(1) for size in sizes)  # has ties
    received = compare_numbers(first, second + shift).p_value
    # The asymptotic distribution of the statistic, without SciPy's correction of its argument.
    statistic = scipy.stats.ks_2samp(first, second + shift).statistic
    x = statistic * np.sqrt(np.prod(sizes) / sum(sizes))
    assert received == pytest.approx(scipy.special.kolmogorov(x), abs=1e-12)


def test_p_value_of_classes_equals_scipy():
    first, second = ["a"] * 60 + ["b"] * 30 + ["c"] * 10, ["a"] * 40 + ["b"] * 40 + ["c"] * 20
    expected = scipy.stats.chi2_contingency([[60, 30, 10], [40, 40, 20]]).pvalue
    assert compare_classes(first, second).p_value == pytest.approx(expected, rel=1e-9)


def test_rare_classes_count_as_one():
    first = ["a"] * 60 + ["b"] * 38 + ["c"] * 2
    second = ["a"] * 40 + ["b"] * 57 + ["d"] * 3
    expected = scipy.stats.chi2_contingency([[60, 38, 2], [40, 57, 3]], correction=False).pvalue
    assert compare_classes(first, second).p_value == pytest.approx(expected, rel=1e-9)


def test_index_is_symmetric_and_zero_for_equal_samples():
    first, second = ["a"] * 80 + ["b"] * 20, ["a"] * 20 + ["b"] * 80
    p, q = np.array([80.5, 20.5]) / 101, np.array([20.5, 80.5]) / 101
    expected = ((q - p) * np.log(q / p)).sum()
    assert compare_classes(first, second).psi == pytest.approx(expected)
    assert compare_classes(second, first).psi == pytest.approx(expected)
    assert compare_classes(first, first) == Comparison(0.0, 1.0)
    assert compare_numbers(range(100), range(100)) == Comparison(0.0, 1.0)


@pytest.mark.parametrize(
    "psi, p_value, expected",
    [
        (0.05, 0.0, "same"),
        (0.5, 0.01, "same"),
        (0.1, 0.009, "shifted"),
        (0.25, 0.009, "shifted far"),
    ],
)
def test_verdict(psi, p_value, expected):
    assert Comparison(psi, p_value).verdict == expected


def test_false_alarms_are_rare():
    draw = np.random.default_rng(0)
    verdicts = [
        compare_numbers(draw.normal(size=200), draw.normal(size=100)).verdict for _ in range(500)
    ]
    assert sum(verdict != "same" for verdict in verdicts) <= 5 + 3 * 5**0.5  # 1 % and 3 sigma


def test_one_value_and_constant_samples():
    assert compare_numbers([1.0], [1.0]).verdict == "same"
    for value in (0.5, 2.0):
        assert compare_numbers([1.0] * 100, [value] * 100).verdict == "shifted far"
    assert compare_classes(["a"], ["b"]).verdict == "same"  # too few to say


@pytest.mark.parametrize("values", [[], [float("nan")], [float("inf")]])
def test_rejects_missing_and_infinite_numbers(values):
    with pytest.raises(ValueError, match="finite"):
        compare_numbers([1.0], values)
    with pytest.raises(ValueError, match="at least one"):
        compare_classes(["a"], [])
