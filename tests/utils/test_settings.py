"""Validation of settings: every type, range and choice, and the message of each."""

import dataclasses
import fractions
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

from keras_bert_impl.utils import settings
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import OneOf, Range, check, rule

NAN, INFINITY = float("nan"), float("inf")
OPTIMIZER = Annotated[str, OneOf("adamw", "lamb")]
HOURS = settings.PositiveFloat | None


@pytest.mark.parametrize(
    ("annotation", "words", "good", "bad"),
    [
        (settings.PositiveInt, "a positive integer", [1, 2**31 - 1], [0, -1, 1.0, "1", True, None,
                                                                      NAN, [1], 2**31]),
        (settings.NonNegativeInt, "an integer, at least 0", [0], [-1, False, 0.5]),
        (int, "an integer", [-5], [1.5, 2**40, "a"]),
        (settings.PositiveFloat, "a positive number", [1e-30, 3], [0.0, -1, NAN, INFINITY, True, "1"]),
        (settings.NonNegativeFloat, "a number, at least 0", [0, 0.0], [-1e-9, NAN]),
        (settings.Rate, "a number in [0, 1)", [0, 0.999], [1, 1.0, 7, -0.1, NAN, True]),
        (settings.Fraction, "a number in (0, 1)", [0.5], [0, 1]),
        (settings.Share, "a number in [0, 1]", [0, 1], [1.1, -INFINITY]),
        (settings.Seed, "an integer in [0, 4294967295]", [0, 2**32 - 1], [-1, 2**32]),
        (Annotated[float, Range(above=1)], "a number, above 1", [1.5], [1]),
        (Annotated[int, Range(most=8)], "an integer, at most 8", [8], [9]),
        (bool, "True or False", [True], [1, 0, "yes", None]),
        (str, "a string", ["a"], [1, b"a", None]),
        (OPTIMIZER, "one of adamw, lamb", ["lamb"], ["sgd", "AdamW", 1, None]),
        (HOURS, "a positive number or None", [None, 2], [0, "None"]),
        (tuple[float, ...], "a list of values, each a number", [(), (0.8, 1)], [3, (NAN,), ("a",)]),
        (tuple[OPTIMIZER, ...], "a list of values, each one of adamw, lamb (at least one, without duplicates)",
         [("lamb",), ("lamb", "adamw")], [(), [], ("lamb", "lamb"), ("sgd",)]),
        (dict | OPTIMIZER, "a dict or one of adamw, lamb", [{"a": 1}, "lamb"], [[], "sgd"]),
    ],
)  # fmt: skip
def test_accepts_and_rejects_values_by_annotation(annotation, words, good, bad):
    assert rule(annotation) == words
    for value in good:
        assert check("x", value, annotation) == value
    for value in bad:
        with pytest.raises(InputError, match="^x must be ") as error:
            check("x", value, annotation)
        assert f"x must be {words}, got {value!r}." in str(error.value)


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        (np.int64(3), settings.PositiveInt, 3),
        (np.array(3), settings.PositiveInt, 3),
        (np.float32(0.5), settings.Rate, 0.5),
        (fractions.Fraction(1, 2), settings.Rate, 0.5),
        (np.bool_(True), bool, True),
        (np.str_("lamb"), OPTIMIZER, "lamb"),
        (Path("folder"), str, "folder"),
        ([1, np.int32(2)], tuple[int, ...], (1, 2)),
        (np.array([0.5, 0.5]), tuple[float, ...], (0.5, 0.5)),
        ("masked_lm", tuple[str, ...] | None, ("masked_lm",)),
    ],
)
def test_converts_numpy_values_to_python(value, annotation, expected):
    converted = check("x", value, annotation)
    assert converted == expected and type(converted) is type(expected)


def test_rejects_arrays_as_numbers():
    for annotation in (settings.PositiveInt, settings.PositiveFloat):
        with pytest.raises(InputError, match="x must be a positive"):
            check("x", np.array([3, 4]), annotation)


def test_suggests_a_near_choice_and_cuts_long_values():
    with pytest.raises(InputError, match=r"got 'adam'\. Did you mean 'adamw'\?$"):
        check("optimizer", "adam", OPTIMIZER)
    with pytest.raises(InputError) as error:
        check("optimizer", "x" * 100_000, OPTIMIZER)
    assert len(str(error.value)) < 200


def test_a_dataclass_is_validated_field_by_field():
    @dataclasses.dataclass(frozen=True)
    class Mine:
        epochs: settings.PositiveInt = 3
        split: tuple[settings.Share, ...] = (0.5, 0.5)

        def __post_init__(self):
            settings.validate(self)

    mine = Mine(np.int64(4), [1, 0])
    assert mine == Mine(4, (1.0, 0.0)) and type(mine.epochs) is int
    with pytest.raises(InputError, match=r"epochs must be a positive integer, got 0\."):
        Mine(epochs=0)
    with pytest.raises(
        InputError, match=r"split must be a list of values, each a number in \[0, 1"
    ):
        dataclasses.replace(mine, split=(2,))
