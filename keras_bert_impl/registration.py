"""Lets Keras find the classes of this package by name, without importing them beforehand.

Keras looks a class of a file up among the registered ones, and a class is registered when its
module is imported, which `import keras_bert_impl` leaves for later.
"""

import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parent
_REGISTRY = "keras.src.saving.object_registration"  # has the dict `GLOBAL_CUSTOM_OBJECTS`


def register(load: Callable[[str], Any]) -> None:
    """Extends Keras's registry now, or as soon as Keras is imported."""
    if _REGISTRY in sys.modules:
        _extend(sys.modules[_REGISTRY], load)
    else:
        sys.meta_path.insert(0, _Finder(load))


class _Registered(dict):
    """Registered classes by name; imports the module of a class of this package when asked."""

    load: Callable[[str], Any]

    def __contains__(self, name: object) -> bool:
        if not super().__contains__(name) and str(name).startswith(_ROOT.name):
            module = _module_of(str(name))
            if module is not None:
                self.load(module)
        return super().__contains__(name)


def _extend(module, load):
    if not isinstance(module.GLOBAL_CUSTOM_OBJECTS, _Registered):
        module.GLOBAL_CUSTOM_OBJECTS = _Registered(module.GLOBAL_CUSTOM_OBJECTS)
        module.GLOBAL_CUSTOM_OBJECTS.load = load


class _Finder(importlib.abc.MetaPathFinder):
    """Extends the registry when Keras is imported."""

    def __init__(self, load: Callable[[str], Any]) -> None:
        self._load = load

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != _REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_extend(module):
                execute(module)
                _extend(module, self._load)

            spec.loader.exec_module = execute_and_extend  # type: ignore[method-assign]
        return spec


def _module_of(name):
    """Returns the module that registers `package>Class`, or None."""
    package, _, kind = name.partition(">")
    found = re.compile(
        rf'register_keras_serializable\("{re.escape(package)}"\)\n(?:@.*\n)*class {kind}\b'
    )
    for path in _ROOT.rglob("*.py"):
        if kind.isidentifier() and found.search(path.read_text(encoding="utf-8")):
            return ".".join([_ROOT.name, *path.relative_to(_ROOT).with_suffix("").parts])
    return None
