"""Lazy imports, and importing TensorFlow quietly or without optional dependencies."""

import functools
import importlib
import os
import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any

# What TensorFlow writes about the machine when it starts, and as an error where there is no GPU.
_NOTICES = re.compile(
    rb"^(I0000 |WARNING: All log messages before absl::|To enable the following instructions: |"
    rb"E0000 .*failed call to cuInit).*\n",
    re.MULTILINE,
)
_GPU_DRIVER = "/proc/driver/nvidia/version"
_OPTIONAL = ("jax", "matplotlib", "scipy")  # optional dependencies of TensorFlow and Keras


def lazy_names(
    package: str, homes: dict[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Creates the module attributes a package's `__init__` needs to load its names lazily.

    Args:
        package: The package's `__name__`.
        homes: Public names -> submodules that define them.

    Returns:
        (`__getattr__`, `__dir__`, `__all__`).

    Example:
        __getattr__, __dir__, __all__ = lazy_names(__name__, {"Encoder": "models.encoder"})
    """
    names = sorted(homes)

    def get(name):
        if name in homes:
            return getattr(_imported(f"{package}.{homes[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def list_names():
        return sorted([*vars(importlib.import_module(package)), *names])

    return get, list_names, names


def _imported(name):
    """Imports a module, and TensorFlow with it without its notices if nobody asked for its log."""
    if "tensorflow" in sys.modules or "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        return importlib.import_module(name)
    return without_lines(_NOTICES, functools.partial(_import_and_find_devices, name))


def _import_and_find_devices(name):
    module = importlib.import_module(name)
    if "tensorflow" in sys.modules and not os.path.exists(_GPU_DRIVER):
        sys.modules["tensorflow"].config.list_physical_devices()
    return module


def without_lines(pattern: re.Pattern[bytes], function: Callable[[], Any]) -> Any:
    """Calls a function, and removes what matches from what it writes to stderr.

    Unlike `contextlib.redirect_stderr`, this also sees what C++ code writes. What remains is
    written when the function ends.

    Example:
        import re
        from keras_bert_impl.lazy import without_lines
        without_lines(re.compile(rb"^I0000 .*\\n", re.MULTILINE), lambda: 5)  # 5
    """
    try:
        stderr = os.dup(2)
    except OSError:  # closed
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
    """Imports TensorFlow without the optional packages that it and Keras load if installed.

    Skipping JAX, matplotlib and SciPy saves 1.2 seconds and 0.25 GiB per process. Use it in
    processes that only handle text. Does nothing if TensorFlow or one of these is already imported.
    """
    if not sys.modules.keys().isdisjoint({"tensorflow", *_OPTIONAL}):
        return
    # TensorFlow imports Keras, whose TensorFlow backend needs no JAX.
    os.environ["KERAS_BACKEND"] = "tensorflow"
    sys.modules.update(dict.fromkeys(_OPTIONAL))  # importing a name mapped to None fails
    try:
        import tensorflow  # noqa: F401
    finally:
        for name in _OPTIONAL:
            del sys.modules[name]
