"""What is loaded late or not at all: public names until their first use, JAX where only text is."""

import importlib
import os
import sys


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


def import_tensorflow_without_jax():
    """Imports TensorFlow, and keeps it from loading a JAX that is installed, too.

    TensorFlow Lite's converter looks for one: 0.2 GiB and 0.7 seconds of every process. For
    processes that handle text alone; one that has TensorFlow or JAX already stays as it is.
    """
    if "tensorflow" in sys.modules or "jax" in sys.modules:
        return
    os.environ["KERAS_BACKEND"] = "tensorflow"  # comes with TensorFlow; this one needs no JAX
    sys.modules["jax"] = None
    try:
        import tensorflow  # noqa: F401
    finally:
        del sys.modules["jax"]
