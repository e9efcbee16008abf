"""The public API: every argument is annotated, and everything is documented."""

import importlib
import inspect

import pytest

PACKAGES = [
    "keras_bert_impl",
    "keras_bert_impl.reports.attribution",
    "keras_bert_impl.checkpoints.hub",
    "keras_bert_impl.checkpoints.interop",
    "keras_bert_impl.layers",
    "keras_bert_impl.reports.plots",
    "keras_bert_impl.pretraining",
    "keras_bert_impl.reports",
    "keras_bert_impl.serving",
    "keras_bert_impl.tasks",
    "keras_bert_impl.tokenizers",
    "keras_bert_impl.training",
]
PACKAGES = [name for name in PACKAGES if getattr(importlib.import_module(name), "__all__", None)]
SPECIAL = ("__init__", "__call__")
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def public_objects():
    """Returns a dict of dotted name to class or function for all public names but constants."""
    objects = {}
    for package in map(importlib.import_module, PACKAGES):
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                objects[f"{value.__module__}.{value.__qualname__}"] = value
    return objects


OBJECTS = public_objects()


def functions_of(value):
    """Yields (name, function) for a function, or for the public methods defined by a class."""
    if inspect.isfunction(value):
        yield value.__name__, value
        return
    for name, member in vars(value).items():
        member = getattr(member, "__func__", getattr(member, "fget", member))
        is_own = getattr(member, "__module__", "").startswith("keras_bert_impl")
        if inspect.isfunction(member) and is_own and (name in SPECIAL or name[0] != "_"):
            yield name, member


def is_of_keras(value, name):
    """Whether a method overrides one that Keras calls and describes."""
    bases = getattr(value, "__mro__", ())
    return any(name in vars(base) for base in bases if base.__module__.startswith("keras."))


@pytest.mark.parametrize("name", OBJECTS)
def test_every_argument_is_annotated(name):
    missing = []
    for function_name, function in functions_of(OBJECTS[name]):
        signature = inspect.signature(function)
        parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
        missing += [
            f"{function_name}({parameter.name})"
            for parameter in parameters
            if parameter.annotation is inspect.Parameter.empty and parameter.kind not in VARIABLE
        ]
        if signature.return_annotation is inspect.Signature.empty and function_name != "__init__":
            missing.append(f"{function_name} -> ?")
    assert not missing


@pytest.mark.parametrize("name", OBJECTS)
def test_everything_is_documented(name):
    value = OBJECTS[name]
    assert inspect.getdoc(value)
    undocumented = [
        function_name
        for function_name, function in functions_of(value)
        if function_name not in SPECIAL
        and not is_of_keras(value, function_name)
        and not inspect.getdoc(getattr(value, function_name, function))
    ]
    assert not undocumented
