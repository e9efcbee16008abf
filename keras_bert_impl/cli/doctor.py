"""`keras-bert doctor`: checks this installation, and prints fixes for its problems."""

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

from keras_bert_impl.cli.common import print_json
from keras_bert_impl.cli.parser import Command
from keras_bert_impl.io.cluster import read_cluster
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.version import DISTRIBUTION, __version__, companions_of, install_command

_COMMAND, _ENTRY_POINT = "keras-bert", "keras_bert_impl.cli.main:main"
_OF_DEVELOPERS = ("test", "docs", "notebooks")  # extras that commands do not use
_SHOWN = ("keras", "tensorflow", "tensorflow-text", "keras-hub", "numpy")
_TIMEOUT = 300  # seconds
_MODULES = ("tensorflow", "tensorflow_text", "keras", "keras_hub")
_NO_TEXT = (
    "; WordPiece tokenizers use TensorFlow's core operations instead, and SavedModels can be "
    "loaded only if they were exported with --no-custom-ops"
)
_NO_HUB = "; models cannot be converted to KerasHub"
_DISPENSABLE = {"tensorflow-text": _NO_TEXT, "tensorflow_text": _NO_TEXT}
_DISPENSABLE |= {"keras-nlp": _NO_HUB, "keras_hub": _NO_HUB}
# Imports the modules in argv; prints errors and devices as JSON.
_PROBE = """
import importlib, json, sys
found = {"errors": {}, "devices": [], "jax devices": []}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        found["errors"][name] = f"{type(error).__name__}: {error}"
if "tensorflow" not in found["errors"]:
    import tensorflow as tf
    found["devices"] = [device.name for device in tf.config.list_physical_devices()]
if "jax" in sys.argv and "jax" not in found["errors"]:
    import jax
    found["jax devices"] = [f"{one.platform}:{one.id} {one.device_kind}" for one in jax.devices()]
print("\\n" + json.dumps(found))
"""
# CPU features for which TensorFlow has kernels, keyed by their name in /proc/cpuinfo.
_INSTRUCTIONS = ("avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
_LITTLE = 5 << 30  # required free bytes, for a large model and its run
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE",
    "KAGGLEHUB_CACHE", "KERAS_BACKEND", "KERAS_HOME", "TF_CONFIG",
    "TF_ENABLE_ONEDNN_OPTS", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_USE_LEGACY_KERAS", "TF_XLA_FLAGS",
    "TMPDIR", "TPU_NAME", "XLA_FLAGS",
)  # fmt: skip
_OURS = {"TF_ENABLE_ONEDNN_OPTS": "1"}  # environment variables set by commands
_SECRETS = ("HF_TOKEN", "KAGGLE_KEY", "KAGGLE_API_TOKEN")
_HUBS = {"Hugging Face": "https://huggingface.co", "Kaggle": "https://www.kaggle.com"}


class Problem(NamedTuple):
    """A problem, and the command that fixes it. For notes, `is_failure` is False."""

    what: str
    do: str
    is_failure: bool = True


class Section:
    def __init__(self, title: str, facts: dict[str, str] | None = None) -> None:
        self.title, self.facts = title, facts or {}
        self.problems: list[Problem] = []

    def add(self, what: str, do: str, is_failure: bool = True) -> None:
        self.problems.append(Problem(what, do, is_failure))


class Doctor(Command):
    example = "  keras-bert doctor\n  keras-bert doctor --online --json"
    uses_tensorflow = False  # A separate process imports TensorFlow.

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--online",
            action="store_true",
            help="also check that the model hubs can be reached",
        )
        parser.add_argument("--json", action="store_true", help="print the report as JSON")

    def run(self, arguments: Namespace) -> None:
        checks = [check_packages, check_devices, check_caches, check_variables]
        checks += [check_hubs] if arguments.online else []
        sections = [section for check in checks for section in _sections_of(check)]
        problems = [problem for section in sections for problem in section.problems]
        if arguments.json:
            report: dict = {section.title: section.facts for section in sections}
            print_json(report | {"problems": [problem._asdict() for problem in problems]})
        else:
            _print(sections, problems)
        if any(problem.is_failure for problem in problems):
            sys.exit(1)


def _sections_of(check):
    try:
        found = check()
    except Exception as error:
        what = f"{check.__name__} failed: {type(error).__name__}: {error}"
        found = Section(check.__name__)
        found.add(what, "keras-bert doctor --debug")
    return found if isinstance(found, list) else [found]


def _print(sections, problems):
    for section in sections:
        print(section.title)
        width = max(map(len, section.facts), default=0)
        for name, value in section.facts.items():
            print(f"  {name:{width}}  {value}")
        print()
    print(
        f"{len(problems)} problem{'s' if len(problems) > 1 else ''}" if problems else "no problems"
    )
    for problem in problems:
        print(f"  {'does not work' if problem.is_failure else 'note'}: {problem.what}")
        print(f"    {problem.do}")


def check_packages() -> list[Section]:
    required = Section("packages", {"python": platform.python_version()})
    optional = Section("optional packages")
    required.facts[DISTRIBUTION] = __version__
    required.facts |= {name: version_of(name) or "not installed" for name in _SHOWN}
    names = set()  # An extra only narrows the version range of the base requirement.
    for extra, requirement in _requirements():
        if extra is None:
            names.add(requirement.name)
            _check(requirement, required)
        elif requirement.name not in names:
            _check(requirement, optional, extra)
    required.problems += [*_unfit_companions(), *_clashes()]
    return [required, optional]


def version_of(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _requirements():
    """Yields (name of the extra or None, requirement) for each requirement on this platform."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # The package runs from a checkout.
        return
    for line in lines:
        requirement = Requirement(line)
        extra = next(iter(re.findall(r'extra == "([\w-]+)"', line)), None)
        marker = requirement.marker
        is_needed = marker is None or marker.evaluate({"extra": extra or ""})
        if is_needed and extra not in _OF_DEVELOPERS:
            yield extra, requirement


def _check(requirement, section, extra=None):
    version, specifier = version_of(requirement.name), requirement.specifier
    do = f"pip install '{requirement.name}{specifier}'"
    if extra is not None:
        section.facts[requirement.name] = version or f"not installed; extra {extra}"
    if version is None and extra is None:
        what = f"{requirement.name} is not installed{_DISPENSABLE.get(requirement.name, '')}."
        section.add(what, do, is_failure=requirement.name not in _DISPENSABLE)
    elif version is not None and not specifier.contains(version, prereleases=True):
        use = "" if extra is None else f" for the extra {extra}"
        what = f"{requirement.name} is {version}, and must be {specifier}{use}."
        section.add(what, do, is_failure=extra is None)


def _unfit_companions():
    for package in ("tensorflow", "keras"):
        version = version_of(package)
        wanted = companions_of(package, version) if version else []
        found = version_of(wanted[0].package) if wanted else None
        if found and not any(one.covers(found) for one in wanted):
            yield Problem(
                f"{wanted[0].package} {found} does not work with {package} {version}.",
                f"pip install '{wanted[0].requirement}'",
            )


def _clashes():
    """Yields a problem for each other distribution with a command or package of this name."""
    for point in metadata.entry_points(group="console_scripts", name=_COMMAND):
        if point.value != _ENTRY_POINT:
            other = getattr(point.dist, "name", point.value)
            yield Problem(
                f"{other} also installs a command {_COMMAND}. The last installed command runs.",
                f"pip uninstall {other}, or type python -m keras_bert_impl.cli.main",
            )
    names = set(metadata.packages_distributions().get("keras_bert_impl", ()))
    for other in sorted(names - {DISTRIBUTION}):
        yield Problem(
            f"{other} also installs a package keras_bert_impl and overwrites this package.",
            f"pip uninstall {other}; {install_command(options='--force-reinstall --no-deps')}",
        )
    if version_of("keras-bert") is not None:
        yield Problem(
            "keras-bert is installed, a different project with the package keras_bert. The command "
            "`keras-bert` does not use that package.",
            "pip uninstall keras-bert, if you do not use it",
            is_failure=False,
        )


def check_devices() -> Section:
    section = Section("devices", {"processor": _processor(), "memory": _memory()})
    reinstall = install_command(options="--force-reinstall")
    found, failure = _probe()
    if failure:
        section.add(failure, reinstall)
        return section
    for name, error in found["errors"].items():
        what = f"{name} cannot be imported: {' '.join(error.split())[:300]}"
        what += _DISPENSABLE.get(name, "")
        section.add(what, reinstall, is_failure=name not in _DISPENSABLE)
    devices = [name.removeprefix("/physical_device:") for name in found["devices"]]
    section.facts["tensorflow devices"] = ", ".join(devices) or "none"
    name, do = "TensorFlow", "pip install 'tensorflow[and-cuda]', and unset CUDA_VISIBLE_DEVICES"
    if _uses_jax():
        devices = found["jax devices"]
        section.facts["jax devices"] = ", ".join(devices) or "none"
        name, do = "JAX", "pip install 'jax[cuda12]', and unset JAX_PLATFORMS"
    gpus = _gpus()
    if gpus:
        section.facts["gpus of the driver"] = ", ".join(gpus)
    if gpus and not any("gpu" in device.lower() for device in devices):
        what = f"{name} does not find this machine's GPU."
        section.add(what, do, is_failure=False)
    return section


def _uses_jax():
    return os.environ.get("KERAS_BACKEND") == "jax"


def _probe():
    """Imports the packages in a new process. Returns (results, error message); one is None."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE, *_MODULES, *["jax"] * _uses_jax()],
            capture_output=True, text=True, timeout=_TIMEOUT, env=environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, f"TensorFlow was not imported within {_TIMEOUT} seconds."
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1]), None
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        return None, f"the process that imported TensorFlow crashed with {name}."
    return None, f"TensorFlow cannot be imported: {done.stderr.strip().splitlines()[-1]}"


def _processor():
    flags: list[str] = []
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        flags = next((line.split() for line in lines if line.startswith("flags")), [])
    found = " ".join(name for name in _INSTRUCTIONS if name in flags)
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    return f"{cores} cores{f', {found}' if found else ''}"


def _memory():
    if hasattr(os, "sysconf"):
        return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB"
    return "unknown"


def _gpus():
    command = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    if not shutil.which(command[0]):
        return []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except subprocess.TimeoutExpired:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def check_caches() -> Section:
    from huggingface_hub import constants
    from kagglehub.config import get_cache_folder

    section = Section("caches")
    folders = {"Hugging Face": constants.HF_HUB_CACHE, "Kaggle": get_cache_folder()}
    for name, folder in folders.items():
        path = Path(folder).expanduser().absolute()
        place = next(parent for parent in (path, *path.parents) if parent.exists())
        free = shutil.disk_usage(place).free
        section.facts[name] = f"{path}, {_gib(_size_of(path))}, {_gib(free)} free"
        variable = "HF_HOME" if name == "Hugging Face" else "KAGGLEHUB_CACHE"
        if free < _LITTLE:
            what = f"{place} has {_gib(free)} free; a large model and its run need more."
            do = f"export {variable}=/path/on/another/disk"
            section.add(what, do, is_failure=False)
        if not os.access(place, os.W_OK):
            what = f"{place} cannot be written, so models cannot be downloaded."
            do = f"export {variable}=/path/that/can/be/written"
            section.add(what, do)
    return section


def check_variables() -> Section:
    section = Section("environment variables")
    names = [*_VARIABLES, *(name for name in os.environ if name.startswith("KERAS_BERT_"))]
    found = {name: os.environ[name] for name in names if name in os.environ}
    section.facts = {name: value for name, value in found.items() if _OURS.get(name) != value}
    section.facts |= {name: "set" for name in _SECRETS if name in os.environ}
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if backend not in ("tensorflow", "jax"):
        what = f"KERAS_BACKEND is {backend}; this package requires tensorflow or jax."
        section.add(what, "unset KERAS_BACKEND")
    try:
        read_cluster()
    except InputError as error:
        section.add(str(error), "unset TF_CONFIG")
    if os.environ.get("TF_USE_LEGACY_KERAS", "0").lower() in ("1", "true"):
        what = "TF_USE_LEGACY_KERAS makes TensorFlow use Keras 2; this package requires Keras 3."
        section.add(what, "unset TF_USE_LEGACY_KERAS")
    return section


def check_hubs() -> Section:
    import requests

    section = Section("hubs")
    addresses = _HUBS | {"Hugging Face": os.environ.get("HF_ENDPOINT") or _HUBS["Hugging Face"]}
    for name, address in addresses.items():
        try:
            status = requests.head(address, timeout=10, allow_redirects=False).status_code
            section.facts[name] = f"{address} answers ({status})"
        except requests.RequestException as error:
            section.facts[name] = f"{address} cannot be reached"
            what = f"{address} cannot be reached: {type(error).__name__}."
            do = "set HTTPS_PROXY to your proxy, or HF_HUB_OFFLINE=1 to use only the cache"
            section.add(what, do)
    return section


def _size_of(folder):
    """Returns the size of a folder in bytes, without following links."""
    found = (Path(root, name) for root, _, names in os.walk(folder) for name in names)
    return sum(path.lstat().st_size for path in found)


def _gib(size):
    return f"{size / 2**30:.1f} GiB"
