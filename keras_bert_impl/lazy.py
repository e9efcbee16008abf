"""Lazy imports of public names, of TensorFlow, and of classes that Keras loads by name.

Keras finds the classes of a saved model in a registry. A class is registered when its module is
imported, but `import keras_bert_impl` does not import the modules.
"""

import functools
import importlib
import importlib.abc
import importlib.machinery
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_bert_impl.import_guesses import explain
from keras_bert_impl.io.errors import InputError

# Startup messages of TensorFlow, including errors on machines without a GPU.
_NOTICES = re.compile(
    rb"^(I0000 |WARNING: All log messages before absl::|To enable the following instructions: |"
    rb"E0000 .*failed call to cuInit).*\n"
    rb"(=== Source Location Trace: ===\s*\n(.*\.cc:\d+\n)*\n?)?",  # printed since TensorFlow 2.22
    re.MULTILINE,
)
_GPU_DRIVER = "/proc/driver/nvidia/version"
_OPTIONAL = ("jax", "matplotlib", "scipy")  # optional dependencies of TensorFlow and Keras


def lazy_names(
    package: str, homes: dict[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Returns (`__getattr__`, `__dir__`, `__all__`) of a package with lazy imports."""
    names = sorted(homes)

    def get(name):
        if name in homes:
            home = homes[name]  # a module in the package, or a full module name
            is_whole = home.startswith("keras_bert_impl.")
            return getattr(imported(home if is_whole else f"{package}.{home}"), name)
        line = explain(package, name)
        # `from package import name` hides the message of an AttributeError.
        if line is not None:
            raise ImportError(f"{package} has no {name}. {line}", name=package)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def list_names():
        return sorted([*vars(importlib.import_module(package)), *names])

    return get, list_names, names


def imported(name):
    """Imports a module. Hides TensorFlow's startup messages unless TF_CPP_MIN_LOG_LEVEL is set."""
    if "tensorflow" in sys.modules or "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        return _import(name)
    return without_lines(_NOTICES, functools.partial(_import_and_find_devices, name))


def _import(name):
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if os.environ.get("TF_USE_LEGACY_KERAS", "0").lower() in ("1", "true"):
            raise ImportError(
                "TF_USE_LEGACY_KERAS is set, so TensorFlow uses Keras 2, but this package needs "
                f"Keras 3. Unset TF_USE_LEGACY_KERAS. ({error})"
            ) from error
        raise
    keep_accelerators_for_jax()
    return module


def _import_and_find_devices(name):
    module = _import(name)
    if "tensorflow" in sys.modules and not os.path.exists(_GPU_DRIVER):
        sys.modules["tensorflow"].config.list_physical_devices()
    return module


def without_lines(pattern: re.Pattern[bytes], function: Callable[[], Any]) -> Any:
    """Calls a function, and removes the text that matches `pattern` from its stderr output."""
    try:
        stderr = os.dup(2)
    except OSError:  # stderr is closed
        return function()
    with tempfile.TemporaryFile() as written:
        _flush_stderr()
        os.dup2(written.fileno(), 2)
        try:
            return function()
        finally:
            _flush_stderr()
            os.dup2(stderr, 2)
            os.close(stderr)
            written.seek(0)
            os.write(2, pattern.sub(b"", written.read()))


def _flush_stderr():
    if sys.stderr is not None:
        sys.stderr.flush()


def import_tensorflow_alone() -> None:
    """Imports TensorFlow without the optional packages of TensorFlow and Keras, to save time."""
    if not sys.modules.keys().isdisjoint({"tensorflow", *_OPTIONAL}):
        return
    # TensorFlow imports Keras, which imports JAX unless the backend is TensorFlow.
    os.environ["KERAS_BACKEND"] = "tensorflow"
    sys.modules.update(
        dict.fromkeys(_OPTIONAL)
    )  # An import fails if the entry of the module is None.
    try:
        import tensorflow  # noqa: F401
    finally:
        for name in _OPTIONAL:
            del sys.modules[name]


def keep_accelerators_for_jax() -> None:
    """Hides GPUs and TPUs from TensorFlow if Keras uses the JAX backend."""
    keras, tf = sys.modules.get("keras"), sys.modules.get("tensorflow")
    if keras is None or tf is None or keras.backend.backend() != "jax":
        return
    for kind in ("GPU", "TPU"):
        if not tf.config.get_visible_devices(kind):
            continue
        try:
            tf.config.set_visible_devices([], kind)
        except RuntimeError as error:
            if os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE") == "false":
                return
            raise InputError(
                f"TensorFlow already uses the {kind}, which JAX needs. Import keras_bert_impl "
                "before the first TensorFlow operation, or call "
                f"tf.config.set_visible_devices([], {kind!r}) first. To share the memory of a "
                "GPU, set TF_FORCE_GPU_ALLOW_GROWTH=true and XLA_PYTHON_CLIENT_PREALLOCATE=false."
            ) from error


# === Classes that Keras looks up by name ===

_ROOT = Path(__file__).parent
# the module with the dict `GLOBAL_CUSTOM_OBJECTS`
_REGISTRY = "keras.src.saving.object_registration"


def register(load: Callable[[str], Any]) -> None:
    """Makes Keras import the module of a class when Keras loads the class by name.

    If Keras is not imported yet, the registry is extended when Keras is imported.
    """
    if _REGISTRY in sys.modules:
        _extend(sys.modules[_REGISTRY], load)
    else:
        sys.meta_path.insert(0, _Finder(load))


class _Registered(dict):
    """Registered classes by name. A lookup imports the module of the class if needed."""

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
    """Returns the module that defines a class registered as `package>Class`. None if not found."""
    package, _, kind = name.partition(">")
    found = re.compile(
        rf'register_keras_serializable\("{re.escape(package)}"\)\n(?:@.*\n)*class {kind}\b'
    )
    for path in _ROOT.rglob("*.py"):
        if kind.isidentifier() and found.search(path.read_text(encoding="utf-8")):
            return ".".join([_ROOT.name, *path.relative_to(_ROOT).with_suffix("").parts])
    return None
