"""A wheel of this checkout, and a new environment that has it and what it depends on."""

import functools
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_FILES = ("setup.cfg", "pyproject.toml", "DESCRIPTION.md", "README.md", "LICENSE")


def run(*command, **arguments):
    """Runs a command without this checkout on its path; returns the completed process."""
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    clean |= {"CUDA_VISIBLE_DEVICES": "-1"}
    return subprocess.run(
        list(map(str, command)), env=clean, capture_output=True, text=True, **arguments
    )


def ask(command, text, path=None):
    """Serves a model on a free port; returns the answer for a text.

    Args:
        command: the words of `keras-bert serve`.
        path: the checkout to import from, or None for what is installed.
    """
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    clean |= {"PYTHONPATH": str(path)} if path else {}
    words = [*map(str, command), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=clean, text=True) as server:
        try:
            url = server.stdout.readline().split()[-1]
            body = json.dumps({"instances": [text]}).encode()
            with urllib.request.urlopen(f"{url}:predict", body, timeout=60) as response:
                return json.load(response)["predictions"][0]
        finally:
            server.terminate()


@functools.cache
def wheel(folder):
    """Builds the wheel from a copy: old files in `build` would end up in it. Skips without pip."""
    source = folder / "source"
    shutil.copytree(
        ROOT / "keras_bert_impl",
        source / "keras_bert_impl",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for name in _FILES:
        shutil.copy(ROOT / name, source / name)
    if run(sys.executable, "-m", "pip", "--version").returncode:
        pytest.skip("pip is not installed")
    _skip_without_registry(folder)
    process = run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", folder, source)
    assert process.returncode == 0, process.stderr[-2000:]
    return next(folder.glob("keras_bert_impl-*.whl"))


@functools.cache
def installed(folder, extras="serve,metrics,plots"):
    """Installs the wheel into a new environment; returns the folder of its programs."""
    built = wheel(folder)
    target = folder / "environment"
    process = run(sys.executable, "-m", "venv", target)
    if process.returncode:
        pytest.skip(f"no environment can be created: {process.stdout[-300:]}")
    process = run(target / "bin" / "pip", "install", "--quiet", f"{built}[{extras}]")
    assert process.returncode == 0, process.stderr[-2000:]
    return target / "bin"


def _skip_without_registry(folder):
    process = run(
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", folder, "pyyaml"
    )
    if process.returncode:
        pytest.skip(f"pip reaches no package registry: {process.stderr[-300:]}")
