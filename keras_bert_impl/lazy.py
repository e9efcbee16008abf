"""Public names of a package that are loaded on first use."""

import importlib


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
