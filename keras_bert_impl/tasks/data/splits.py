"""Holding out a part of labelled examples."""

import dataclasses

import numpy as np

from keras_bert_impl.io.errors import InputError

_OF_ALL = ("label_names", "metrics", "skipped")  # fields that are not a value for each example
_PARTS = 10  # of the range of numbers, of each of which the same share is held out


def hold_out(examples, share, seed=1):
    """Splits labelled examples into those to train on and those to score on.

    Of each class, or combination of several labels, the same share is held out, within one
    example, and at least one example is kept. Numbers are spread likewise over their range.
    Questions about one context stay together.

    Args:
        examples: what a reader of `tasks` returns.
        share: float between 0 and 1.
        seed: int. Decides which are held out.

    Returns:
        (train, dev), each in the order of the file.

    Raises:
        InputError: one of the two would be empty.

    Example:
        train, dev = hold_out(read_table("all.csv", "text", label="label"), 0.1)
    """
    is_held = np.zeros(len(examples), bool)
    is_held[_held(_strata(examples), share, np.random.default_rng(seed))] = True
    if is_held.all() or not is_held.any():
        raise InputError(
            f"{examples.source}: {share:g} of {len(examples)} examples leaves a part without any."
        )
    train, dev = _part(examples, ~is_held), _part(examples, is_held)
    return train, dataclasses.replace(dev, source=f"{examples.source} (held out)")


def _strata(examples):
    """list of lists of units, of each of which a share is held out; a unit is a list of numbers."""
    count = len(examples)
    if hasattr(examples, "contexts"):
        units = {}
        for number, context in enumerate(examples.contexts):
            units.setdefault(context, []).append(number)
        return [list(units.values())]
    labels = getattr(examples, "labels", None)
    if labels is None or isinstance(examples.texts[0], list):  # none, or one for each word
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
    """list of the numbers of the examples that are held out."""
    held, seen, taken = [], 0, 0
    for units in strata:
        seen += len(units)
        # Of all strata so far the share, rounded: of each one it is within one of its own.
        count = min(round(share * seen) - taken, len(units) - 1)
        taken += count
        for unit in draw.permutation(len(units))[:count]:
            held += units[unit]
    return held


def _part(examples, chosen):
    """The examples of which `chosen`, bool [examples], says so."""
    numbers = np.flatnonzero(chosen)
    fields = {
        field.name: [value[number] for number in numbers]
        for field in dataclasses.fields(examples)
        if field.name not in _OF_ALL
        and isinstance(value := getattr(examples, field.name), list)
    }
    return dataclasses.replace(examples, **fields)
