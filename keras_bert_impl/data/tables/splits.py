"""Splits of labeled examples into a training and a validation set."""

import collections
from collections.abc import Hashable
from typing import Any, TypeVar

import numpy as np

from keras_bert_impl.data.tables.examples import LabeledExamples, check_read
from keras_bert_impl.data.tables.labels import sort_names
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import Fraction, check

AnyExamples = TypeVar("AnyExamples", bound=LabeledExamples)
_PARTS = 10  # number of label bins for regression


def hold_out(
    examples: AnyExamples, fraction: float, seed: int = 1
) -> tuple[AnyExamples, AnyExamples]:
    """Splits labeled examples into a training and a validation set.

    If the examples have `dates`, the validation set contains the latest examples. Otherwise, the
    split is stratified by label (for regression, by bins of labels). Both sets contain each label
    that at least two examples have, if the validation set has room for one example of each label.
    Examples with the same text, context or group stay in the same set and count as one. Texts are
    compared without case and surrounding white space.

    Args:
        examples: return value of a reader such as `read_table`.
        fraction: fraction of the examples in the validation set.
        seed: determines the split.

    Returns:
        (train, dev), each in the order of the file.
    """
    check_read(examples)
    fraction = check("fraction", fraction, Fraction)
    is_held = np.zeros(len(examples), bool)
    dates = getattr(examples, "dates", None)
    if dates is not None:
        is_held = np.array(dates) > _find_last_training_date(dates, fraction)
    else:
        is_held[_choose_held(_build_strata(examples), fraction, np.random.default_rng(seed))] = True
    if is_held.all() or not is_held.any():
        raise InputError(
            f"{examples.source}: fraction={fraction:g} of {len(examples)} examples leaves one set "
            "empty. Examples with the same text, group or date stay in the same set."
        )
    train, dev = (examples.select(np.flatnonzero(mask)) for mask in (~is_held, is_held))
    read_with = examples.read_with
    if read_with is not None:  # --dev-split supports only files
        split_options = {"dev_split": fraction, "seed": seed}
        read_with = read_with | split_options if "dev" in read_with else None
    source = f"{examples.source} (held out)"
    return train, dev.replace(source=source, read_with=read_with)


def folds(
    examples: AnyExamples, count: int, seed: int = 1
) -> list[tuple[AnyExamples, AnyExamples, np.ndarray]]:
    """Splits labeled examples for cross-validation; each example is held out once.

    The folds are stratified and keep groups and equal texts together, as in `hold_out`.

    Args:
        examples: return value of a reader such as `read_table`.
        count: number of folds.
        seed: determines the folds.

    Returns:
        (train, dev, indices of `dev` in `examples`) for each fold.
    """
    if not 2 <= check("folds", count, int) <= len(examples):
        raise InputError(
            f"folds must be from 2 to {len(examples)}, the number of examples. Received: {count}"
        )
    draw, numbers = np.random.default_rng(seed), np.zeros(len(examples), int)
    sizes = np.zeros(count, int)
    for units in _build_strata(examples):
        stratum_sizes = np.zeros(count, int)
        for place in sorted(draw.permutation(len(units)), key=lambda place: -len(units[place])):
            # The fold has the fewest examples of the stratum and, among equals, of all strata.
            fold = np.lexsort((sizes, stratum_sizes))[0]
            numbers[units[place]] = fold
            stratum_sizes[fold] += len(units[place])
            sizes[fold] += len(units[place])
    if not sizes.all():
        raise InputError(
            f"{examples.source} has fewer groups of examples than {count} folds. Examples with the "
            "same text or group stay in the same fold."
        )
    parts = []
    for fold in range(count):
        is_held = numbers == fold
        train, dev = (examples.select(np.flatnonzero(mask)) for mask in (~is_held, is_held))
        train, dev = (part.replace(read_with=None) for part in (train, dev))
        source = f"{examples.source} (fold {fold + 1} of {count})"
        parts.append((train, dev.replace(source=source), np.flatnonzero(is_held)))
    return parts


def with_all_names(examples: AnyExamples) -> AnyExamples:
    """Sets `label_names` to all labels of the examples. Subsets of the examples keep the names."""
    labels = examples.labels
    if not labels or not isinstance(labels[0], (str, list)) or examples.label_names:  # type: ignore[attr-defined]
        return examples
    rows = labels if isinstance(labels[0], list) else [labels]
    return examples.replace(label_names=sort_names(name for row in rows for name in row))


def leave_out(examples: AnyExamples, held: LabeledExamples) -> AnyExamples:
    """Removes the examples whose text or context occurs in `held`."""
    held_keys = set(map(same_text, held.undivided))
    indices = [n for n, text in enumerate(examples.undivided) if same_text(text) not in held_keys]
    if not indices:
        raise InputError(f"all examples of {examples.source} are in {held.source}.")
    return examples.select(indices)


def _find_last_training_date(dates, fraction):
    """Returns the last date of the training set; about `fraction` of the examples are later."""
    ordered = np.sort(dates)
    later = len(ordered) - np.searchsorted(ordered, ordered, "right")  # counts later examples
    return ordered[np.abs(later - fraction * len(ordered)).argmin()]


def same_text(text: Any) -> Hashable:
    """Returns a key to compare texts, pairs or choices without regard to case."""
    return text.strip().casefold() if isinstance(text, str) else tuple(map(same_text, text))


def _find_units(examples):
    """Returns units: lists of the indices of examples that must stay in the same set."""
    parents = list(range(len(examples)))

    def find_root(number):
        while parents[number] != number:
            parents[number] = number = parents[parents[number]]
        return number

    columns = [list(map(same_text, examples.undivided))]
    columns += [getattr(examples, "groups", None) or []]
    for column in columns:
        first: dict[Hashable, int] = {}
        for number, value in enumerate(column):
            parent, child = sorted((find_root(first.setdefault(value, number)), find_root(number)))
            parents[child] = parent
    units = collections.defaultdict(list)
    for number in range(len(examples)):
        units[find_root(number)].append(number)
    return list(units.values())


def _build_strata(examples):
    """Groups units by label. The label of a unit is the most common label of its examples."""
    labels = getattr(examples, "labels", None)
    if labels is None or hasattr(examples, "contexts") or isinstance(examples.texts[0], list):
        keys = [0] * len(examples)  # there is no label for each text
    elif isinstance(labels[0], float):
        ranks = np.argsort(np.argsort(labels, kind="stable"))
        keys = (ranks * _PARTS // len(labels)).tolist()
    else:
        keys = [tuple(sorted(label)) if isinstance(label, list) else label for label in labels]
    strata = collections.defaultdict(list)
    for unit in _find_units(examples):
        ((key, _),) = collections.Counter(keys[number] for number in unit).most_common(1)
        strata[key].append(unit)
    return [strata[key] for key in sorted(strata, key=str)]


def _choose_held(strata, fraction, draw):
    held: list[int] = []
    targets = np.cumsum(_plan_sizes(strata, fraction))
    for units, target in zip(strata, targets):
        num_left, before = len(units), len(held)
        order = draw.permutation(len(units))
        for number in order:
            # Hold out a unit if the total is then closer to its target.
            missing = target - len(held)
            if missing <= 0 or num_left == 1:
                break
            if len(units[number]) < 2 * missing:
                held += units[number]
                num_left -= 1
        smallest = min(units, key=len)
        if len(held) == before < target and num_left > 1 and len(smallest) <= targets[-1]:
            held += smallest
    return held


def _plan_sizes(strata, fraction):
    """Returns the number of examples to hold out of each stratum, at least one if possible."""
    ends = np.cumsum([sum(map(len, units)) for units in strata])
    sizes = np.diff([round(fraction * end) for end in ends], prepend=0)
    total = sizes.sum()
    least = np.array([len(units) > 1 for units in strata], int)
    if least.sum() <= total:
        sizes = np.maximum(sizes, least)
        while sizes.sum() > total and (sizes > least).any():
            sizes[np.argmax(sizes - least)] -= 1
    return sizes
