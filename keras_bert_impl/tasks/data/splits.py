"""Splits labeled examples into a training set and a held-out set."""

import dataclasses
from typing import TypeVar

import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.settings import Fraction, check
from keras_bert_impl.tasks.data.examples import LabeledExamples

AnyExamples = TypeVar("AnyExamples", bound=LabeledExamples)
_OF_ALL = ("label_names", "metrics", "skipped")  # fields without a value per example
_PARTS = 10  # parts of the label range; the same share of each is held out


def hold_out(examples: AnyExamples, share: float, seed: int = 1) -> tuple[AnyExamples, AnyExamples]:
    """Splits labeled examples into a training set and a development set.

    Returns:
        (train, dev), each in the order of the file.
    """
    share = check("share", share, Fraction)
    is_held = np.zeros(len(examples), bool)
    is_held[_held(_strata(examples), share, np.random.default_rng(seed))] = True
    if is_held.all() or not is_held.any():
        raise InputError(
            f"{examples.source}: a share of {share:g} of {len(examples)} examples leaves one part "
            "empty."
        )
    train, dev = _part(examples, ~is_held), _part(examples, is_held)
    read_with = examples.read_with
    if read_with is not None:  # a command splits files, but no folders of data sets
        of_split = {"dev_split": share, "seed": seed}
        read_with = read_with | of_split if "dev" in read_with else None
    source = f"{examples.source} (held out)"
    return train, dataclasses.replace(dev, source=source, read_with=read_with)


def _strata(examples):
    """Groups examples to strata: list of lists of units; a unit is a list of example indices."""
    count = len(examples)
    if hasattr(examples, "contexts"):
        units = {}
        for number, context in enumerate(examples.contexts):
            units.setdefault(context, []).append(number)
        return [list(units.values())]
    labels = getattr(examples, "labels", None)
    if labels is None or isinstance(examples.texts[0], list):  # no labels, or one per word
        return [[[number] for number in range(count)]]
    if isinstance(labels[0], float):
        parts = np.array_split(np.argsort(labels, kind="stable"), _PARTS)
        return [[[number] for number in part] for part in parts if len(part)]
    strata = {}
    for number, label in enumerate(labels):
        key = tuple(sorted(label)) if isinstance(label, list) else label
        strata.setdefault(key, []).append([number])
    return [strata[key] for key in sorted(strata, key=str)]


def _held(strata, share, draw):
    """Draws the units to hold out; returns the list of their example indices."""
    held, seen, taken = [], 0, 0
    for units in strata:
        seen += len(units)
        # The rounded share of all strata so far; each stratum is within one of its own share.
        count = min(round(share * seen) - taken, len(units) - 1)
        taken += count
        for unit in draw.permutation(len(units))[:count]:
            held += units[unit]
    return held


def _part(examples, chosen):
    """Selects examples by `chosen`, bool [examples]."""
    numbers = np.flatnonzero(chosen)
    fields = {
        field.name: [value[number] for number in numbers]
        for field in dataclasses.fields(examples)
        if field.name not in _OF_ALL and isinstance(value := getattr(examples, field.name), list)
    }
    return dataclasses.replace(examples, **fields)
