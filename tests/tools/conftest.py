"""Imports the modules of tools/bench, which is not a package."""

import importlib
import sys
from pathlib import Path

import pytest

BENCH = str(Path(__file__).resolve().parents[2] / "tools" / "bench")


@pytest.fixture(scope="module")
def bench():
    """A function that imports a module of tools/bench by its name."""
    before = set(sys.modules)
    sys.path.insert(0, BENCH)
    yield importlib.import_module
    sys.path.remove(BENCH)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(BENCH):
            del sys.modules[name]
