"""Whether TensorFlow and JAX work, and on which devices; found out in processes of their own."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from keras_bert_impl.cli.doctor.findings import Problem, Section

_TIMEOUT = 300  # seconds
_REINSTALL = "pip install --force-reinstall keras-bert-impl"
_MODULES = ("tensorflow", "tensorflow_text", "keras", "keras_hub")
# Imports the modules in argv; prints a JSON object of the errors and the devices.
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
# Instructions that TensorFlow has kernels for, as /proc/cpuinfo names them.
_INSTRUCTIONS = ("avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")


def check_devices() -> Section:
    """Returns the section of devices, memory and processor, with a problem for each failed import."""
    section = Section("devices", {"processor": _processor(), "memory": _memory()})
    found, failure = _probe()
    if failure:
        section.problems.append(Problem(failure, _REINSTALL))
        return section
    for name, error in found["errors"].items():
        what = f"{name} cannot be imported: {' '.join(error.split())[:300]}"
        section.problems.append(Problem(what, _REINSTALL))
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
        what = f"{name} does not find the GPU of this machine."
        section.problems.append(Problem(what, do, is_failure=False))
    return section


def _uses_jax():
    return os.environ.get("KERAS_BACKEND") == "jax"


def _probe():
    """Returns (what the probe found, None), or (None, how its process failed)."""
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
    """Returns the names and memory of the GPUs that NVIDIA's driver lists."""
    command = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    if not shutil.which(command[0]):
        return []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except subprocess.TimeoutExpired:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []
