"""One row for each name or argument that users of other libraries type first."""

import pytest

from keras_bert_impl.errors import InputError
from keras_bert_impl.first_guesses import GUESSES, first_guesses, known_arguments


def test_a_name_that_a_class_has_is_left_alone(monkeypatch):
    monkeypatch.setitem(GUESSES, "Thing", {"encode": "thing.tokenize(x)", "real": "-"})

    @first_guesses("Thing")
    class Thing:
        real = 3

    class Special(Thing):
        encode = 4

    assert (Thing.real, Special().encode, hasattr(Thing(), "encode")) == (3, 4, False)
    for owner in Thing, Thing():
        with pytest.raises(AttributeError, match=r"no attribute 'encode'. Write thing.tokenize\(x\)"):
            owner.encode


def test_other_arguments_remain_those_of_python(monkeypatch):
    monkeypatch.setitem(GUESSES, "function", {"lr": "function(rate=0.1)", "rate": "-"})

    @known_arguments("function")
    def function(rate=1):
        return rate

    assert function(rate=2) == function(2) == 2
    with pytest.raises(InputError, match=r"no argument 'lr'. Write function\(rate=0.1\)"):
        function(lr=2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'x'"):
        function(x=2)
