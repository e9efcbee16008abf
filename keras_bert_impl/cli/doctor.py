"""`keras-bert doctor`: imports the packages of this installation, and prints how to fix them."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from importlib import metadata
from typing import Any, NamedTuple

from packaging.requirements import Requirement

from keras_bert_impl.cli.common import print_json
from keras_bert_impl.cli.parser import Command
from keras_bert_impl.utils.cluster import read_cluster
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.version import DISTRIBUTION, __version__, install_command

_OF_DEVELOPERS = ("test", "docs", "notebooks")  # extras that commands do not use
_DISPENSABLE = {
    "tensorflow-text": "WordPiece tokenizers use TensorFlow's core operations instead, and "
    "SavedModels can be loaded only if they were exported with --no-custom-ops",
    "keras-nlp": "models cannot be converted to KerasHub",
}
_TIMEOUT = 600  # seconds
# Imports the modules in argv one by one, and prints (name, error) or (None, devices) as JSON.
_PROBE = """
import importlib, json, os, sys
for name in sys.argv[1:]:
    print("\\n" + json.dumps([name, "the process that imported it crashed"]), flush=True)
    try:
        importlib.import_module(name)
        error = ""
    except BaseException as raised:
        error = f"{type(raised).__name__}: {raised}"
    print("\\n" + json.dumps([name, error]), flush=True)
if os.environ.get("KERAS_BACKEND") == "jax":
    import jax
    devices = [f"{one.platform}:{one.id} {one.device_kind}" for one in jax.devices()]
else:
    import tensorflow as tf
    devices = [device.name.split(":", 1)[1] for device in tf.config.list_physical_devices()]
print("\\n" + json.dumps([None, devices]))
"""


class Problem(NamedTuple):
    """A problem, and the command that fixes it. For notes, `is_failure` is False."""

    what: str
    do: str
    is_failure: bool = True


class Doctor(Command):
    example = "  keras-bert doctor\n  keras-bert doctor --json"
    uses_tensorflow = False  # A separate process imports TensorFlow.

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the report as JSON")

    def run(self, arguments: Namespace) -> None:
        packages, problems = check_packages(required_packages())
        devices = packages.pop("devices", [])
        problems += [*check_environment(devices)]
        facts = {"python": platform.python_version(), DISTRIBUTION: __version__} | packages
        facts |= {"devices": ", ".join(devices) or "none"}
        if arguments.json:
            print_json(facts | {"problems": [problem._asdict() for problem in problems]})
        else:
            width = max(map(len, facts))
            print("\n".join(f"{name:{width}}  {value}" for name, value in facts.items()))
            print(f"problems: {len(problems) or 'none'}")
            for problem in problems:
                print(f"  {'does not work' if problem.is_failure else 'note'}: {problem.what}")
                print(f"    {problem.do}")
        if any(problem.is_failure for problem in problems):
            sys.exit(1)


def required_packages() -> dict[str, tuple[Requirement, list[str]]]:
    """Returns {name: (requirement, extras that need it)}, without extras if all commands need it.

    A requirement of all commands comes first; an extra may only narrow its range.
    """
    required: dict[str, tuple[Requirement, list[str]]] = {}
    for line in metadata.requires(DISTRIBUTION) or []:
        requirement = Requirement(line)
        extra = next(iter(re.findall(r'extra == "([\w-]+)"', line)), "")
        marker = requirement.marker
        if extra in _OF_DEVELOPERS or (marker and not marker.evaluate({"extra": extra})):
            continue
        _, extras = required.setdefault(requirement.name, (requirement, [extra] if extra else []))
        if extras and extra not in extras:
            extras.append(extra)
    return required


def check_packages(
    required: dict[str, tuple[Requirement, list[str]]],
) -> tuple[dict[str, Any], list[Problem]]:
    """Imports every installed package that the commands use.

    Returns:
        (version or missing extra of each package, and "devices"; problems).
    """
    modules: dict[str, list[str]] = {}
    for module, names in metadata.packages_distributions().items():
        for name in names:
            modules.setdefault(_normalize(name), []).append(module)
    facts: dict[str, Any] = {}
    problems = []
    errors = _import_errors([m for name in required for m in modules.get(_normalize(name), ())])
    for name, (requirement, extras) in required.items():
        version, needed_by = _find_version(name), f" for the extra {' or '.join(extras)}"
        use = needed_by if extras else ""
        do = (
            install_command(extras[0]) if extras else f"pip install '{name}{requirement.specifier}'"
        )
        error = next((errors[m] for m in modules.get(_normalize(name), ()) if errors.get(m)), "")
        facts[name] = version or f"not installed{use and f'; needed{use}: {do}'}"
        without = f"; without it, {_DISPENSABLE[name]}" if name in _DISPENSABLE else ""
        if version is None and not extras:
            message = f"{name} is not installed{without}."
            problems.append(Problem(message, do, is_failure=name not in _DISPENSABLE))
        elif version and not requirement.specifier.contains(version, prereleases=True):
            message = f"{name} is {version}, and must be {requirement.specifier}{use}."
            problems.append(Problem(message, do, is_failure=not extras))
        elif error:
            message = f"{name} cannot be imported{use}: {' '.join(error.split())[:300]}{without}."
            problems.append(Problem(message, do, is_failure=name not in _DISPENSABLE))
    return facts | {"devices": errors.get("", [])}, problems


def check_environment(devices: list[str]) -> list[Problem]:
    problems = []
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if backend not in ("tensorflow", "jax"):
        message = f"KERAS_BACKEND is {backend}; this package requires tensorflow or jax."
        problems.append(Problem(message, "unset KERAS_BACKEND"))
    if os.environ.get("TF_USE_LEGACY_KERAS", "0").lower() in ("1", "true"):
        message = "TF_USE_LEGACY_KERAS makes TensorFlow use Keras 2; this package requires Keras 3."
        problems.append(Problem(message, "unset TF_USE_LEGACY_KERAS"))
    try:
        read_cluster()
    except InputError as error:
        problems.append(Problem(str(error), "unset TF_CONFIG"))
    if shutil.which("nvidia-smi") and not any("gpu" in device.lower() for device in devices):
        message = f"{backend} does not find the GPU of this machine."
        do = "pip install 'tensorflow[and-cuda]' (or 'jax[cuda12]'), and unset CUDA_VISIBLE_DEVICES"
        problems.append(Problem(message, do, is_failure=False))
    return problems


def _import_errors(modules):
    """Returns {module: error, or "" if it was imported}, and the devices with the key ""."""
    try:
        process = subprocess.run(
            [sys.executable, "-c", _PROBE, *modules],
            capture_output=True, text=True, timeout=_TIMEOUT,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"tensorflow": f"the packages were not imported within {_TIMEOUT} seconds"}
    rows = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("[")]
    return {module or "": error for module, error in rows}


def _find_version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _normalize(name):
    return re.sub(r"[-_.]+", "-", name).lower()
