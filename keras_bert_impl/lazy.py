"""What is loaded late or not at all."""

import importlib
import os
import sys

_OPTIONAL = ("jax", "matplotlib", "scipy")  # of TensorFlow and Keras


def lazy_names(package, homes):
    """What a package's `__init__` has to define for names that stand in its modules.

    Args:
        package: str, its `__name__`.
        homes: dict of public name to the module of the package that has it.

    Returns:
        (`__getattr__`, `__dir__`, `__all__`).

    Example:
        __getattr__, __dir__, __all__ = lazy_names(__name__, {"Encoder": "models.encoder"})
    """
    names = sorted(homes)

    def get(name):
        if name in homes:
            return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def list_names():
        return sorted([*vars(importlib.import_module(package)), *names])

    return get, list_names, names


def import_tensorflow_alone():
    """Imports TensorFlow without what it and Keras load only because it is installed.

    That is JAX, matplotlib and SciPy: 1.2 seconds and 0.25 GiB of every process. For those that
    handle text alone; one that has TensorFlow, or one of these, already stays as it is.
    """
    if not sys.modules.keys().isdisjoint({"tensorflow", *_OPTIONAL}):
        return
    os.environ["KERAS_BACKEND"] = "tensorflow"  # comes with TensorFlow; this one needs no JAX
    sys.modules.update(dict.fromkeys(_OPTIONAL))  # with None there an import fails
    try:
        import tensorflow  # noqa: F401
    finally:
        for name in _OPTIONAL:
            del sys.modules[name]
