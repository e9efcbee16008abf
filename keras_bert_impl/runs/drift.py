"""Data drift: compares served texts and their predictions with the training set."""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.data.batches.blocks import blocks
from keras_bert_impl.tasks.registry import task_of_model
from keras_bert_impl.utils.errors import InputError

_BINS = 10  # The bins are deciles of the reference.
_LARGE, _SMALL = 0.25, 0.1  # conventional limits of the population stability index
_SIGNIFICANT = 0.01
_MIN_EXPECTED = 5  # minimum expected count of a class, for the chi-square approximation


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Difference in one quantity between the served texts and the reference.

    Attributes:
        psi: population stability index: the sum of (q - p) log(q / p) over bins or classes. p is
            the fraction of the reference texts in a bin or class, and q is the fraction of the
            served texts. 0.5 is added to each count. Therefore, with few texts, the index is not
            exactly 0 even if p and q are equal.
        p_value: p-value of the Kolmogorov-Smirnov test (numbers) or of the chi-square test
            (classes).
    """

    psi: float
    p_value: float

    @property
    def verdict(self) -> str:
        """`"same"`, `"shifted"` or `"shifted far"`."""
        if self.psi < _SMALL or self.p_value >= _SIGNIFICANT:
            return "same"
        return "shifted far" if self.psi >= _LARGE else "shifted"


def compare_numbers(reference: Sequence[float], served: Sequence[float]) -> Comparison:
    first, second = (np.sort(np.asarray(values, "float64")) for values in (reference, served))
    if not (first.size and second.size and np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError("expected at least one finite number in each sample.")
    edges = np.unique(np.quantile(first, np.arange(1, _BINS) / _BINS))
    # Each edge is a separate bin, because integers are often equal to an edge.
    bins = (np.searchsorted(edges, v) + np.searchsorted(edges, v, "right") for v in (first, second))
    counts = np.array([np.bincount(b, minlength=2 * len(edges) + 1) for b in bins])
    return Comparison(
        _compute_psi(*counts[:, counts.any(0)]), _run_kolmogorov_smirnov_test(first, second)
    )


def compare_classes(reference: Sequence[str], served: Sequence[str]) -> Comparison:
    if not (len(reference) and len(served)):
        raise ValueError("expected at least one name in each sample.")
    reference_counts, served_counts = Counter(reference), Counter(served)
    names = sorted(reference_counts | served_counts)
    counts = np.array(
        [[reference_counts[name] for name in names], [served_counts[name] for name in names]],
        "float64",
    )
    return Comparison(_compute_psi(*counts), _run_chi_square_test(counts))


def _compute_psi(reference, served):
    """Computes the population stability index of two arrays of counts, smoothed by 0.5."""
    p, q = ((counts + 0.5) / (counts + 0.5).sum() for counts in (reference, served))
    return float(((q - p) * np.log(q / p)).sum())


def _run_kolmogorov_smirnov_test(first, second):
    """Returns the asymptotic p-value of the Kolmogorov-Smirnov test for sorted arrays."""
    points = np.concatenate([first, second])
    shares = (np.searchsorted(v, points, side="right") / v.size for v in (first, second))
    statistic = np.abs(np.subtract(*shares)).max()
    x = statistic * math.sqrt(first.size * second.size / (first.size + second.size))
    if x < 0.2:  # The series converges slowly here. The result is 1 with an error below 1e-12.
        return 1.0
    k = np.arange(1, 101)
    return float(np.clip(2 * ((-1.0) ** (k - 1) * np.exp(-2 * (k * x) ** 2)).sum(), 0, 1))


def _run_chi_square_test(counts):
    """Returns the p-value of the chi-square test for two rows of counts."""
    expected = counts.sum(0) * counts.sum(1, keepdims=True) / counts.sum()
    rare = expected.min(0) < _MIN_EXPECTED
    if rare.any():  # Rare classes are merged.
        counts = np.column_stack([counts[:, ~rare], counts[:, rare].sum(1)])
        expected = counts.sum(0) * counts.sum(1, keepdims=True) / counts.sum()
    if counts.shape[1] < 2:
        return 1.0
    statistic = ((counts - expected) ** 2 / expected).sum()
    halves = tf.constant([(counts.shape[1] - 1) / 2, statistic / 2], "float64")
    return float(tf.math.igammac(*halves))


@dataclasses.dataclass
class Sample:
    """Statistics of texts and their predictions, for `compare_samples`.

    Attributes:
        numbers: dict of name -> values. `tokens` and `unknown tokens` are the number of tokens and
            the fraction of unknown tokens of each text. Other names, such as `score`, are from the
            predictions.
        classes: dict of name -> class names. `label` contains the predicted labels. Empty if the
            predictions have no labels.
    """

    numbers: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    classes: dict[str, list[str]] = dataclasses.field(default_factory=dict)


def sample_of(model: Any, texts: Iterable) -> Sample:
    """Predicts texts, and returns statistics of the texts and predictions."""
    task, sample = task_of_model(model), Sample()
    for block in filter(None, blocks(texts)):
        for name, values in _measure_texts(model.tokenizer, block).items():
            sample.numbers.setdefault(name, []).extend(values)
        for answer, _ in task.predictions(model, block):
            for name, value in _extract_numbers(answer):
                sample.numbers.setdefault(name, []).append(value)
            for name in _extract_classes(answer):
                sample.classes.setdefault("label", []).append(name)
    if not sample.numbers:
        raise InputError("there are no texts to compare.")
    return sample


def compare_samples(reference: Sample, served: Sample) -> dict[str, Comparison]:
    compared = {
        name: compare_numbers(values, served.numbers[name])
        for name, values in reference.numbers.items()
        if name in served.numbers
    }
    for name, names in reference.classes.items():
        if name in served.classes:
            compared[name] = compare_classes(names, served.classes[name])
    return compared


def _measure_texts(tokenizer, block) -> dict[str, list[float]]:
    """Returns the number of tokens of each text or pair, and the fraction of unknown tokens."""
    if not all(isinstance(part, str) for item in block for part in _collect_strings(item)):
        return {}
    parts = [part for item in block for part in _collect_strings(item)]
    owners = np.repeat(np.arange(len(block)), [len(_collect_strings(item)) for item in block])
    tokens = tokenizer.tokenize(parts)
    sizes = tokens.row_lengths().numpy()
    is_unknown = tokens.values.numpy() == tokenizer.unk_id
    lengths = np.bincount(owners, sizes, len(block))
    unknown = np.bincount(np.repeat(owners, sizes), is_unknown, len(block))
    return {
        "tokens": lengths.tolist(),
        "unknown tokens": (unknown / np.maximum(lengths, 1)).tolist(),
    }


def _collect_strings(item):
    """Returns the strings of a text, a pair, or a prompt with endings."""
    if isinstance(item, (list, tuple)):
        return [part for inner in item for part in _collect_strings(inner)]
    return [item]


def _extract_numbers(answer) -> Iterator[tuple[str, float]]:
    for name, value in answer.items():
        if isinstance(value, float):
            yield name, value
        elif name == "values":  # Regression has no class names.
            yield from ((f"value {number}", output) for number, output in enumerate(value))
        elif name == "entities":
            yield name, float(len(value))


def _extract_classes(answer) -> list[str]:
    """Returns the class names in a prediction: the label, or the types of the entities."""
    if "label" in answer:
        return [answer["label"]]
    if "entities" in answer:
        return [entity["type"] for entity in answer["entities"]] or ["(none)"]
    if "labels" in answer:
        return answer["labels"] or ["(none)"]
    if "choice" in answer:
        return [f"choice {answer['choice'] + 1}"]
    if "answer" in answer:
        return ["answer" if answer["answer"] else "(none)"]
    return []
