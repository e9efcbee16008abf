"""Caches, environment variables and hubs."""

import os
import shutil
from pathlib import Path

from keras_bert_impl.cli.doctor.findings import Problem, Section
from keras_bert_impl.io.cluster import read_cluster
from keras_bert_impl.io.errors import InputError

_LITTLE = 5 << 30  # bytes free: a large model and its run
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE",
    "KAGGLEHUB_CACHE", "KERAS_BACKEND", "KERAS_HOME", "TF_CONFIG",
    "TF_ENABLE_ONEDNN_OPTS", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_USE_LEGACY_KERAS", "TF_XLA_FLAGS",
    "TMPDIR", "TPU_NAME", "XLA_FLAGS",
)  # fmt: skip
_OURS = {"TF_ENABLE_ONEDNN_OPTS": "1"}  # what commands set themselves
_SECRETS = ("HF_TOKEN", "KAGGLE_KEY", "KAGGLE_API_TOKEN")
_HUBS = {"Hugging Face": "https://huggingface.co", "Kaggle": "https://www.kaggle.com"}


def check_caches() -> Section:
    """Returns the section of the folders of downloaded models, their sizes and the free space."""
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
            what = f"{place} has {_gib(free)} free, less than a large model and its run need."
            do = f"export {variable}=/path/on/another/disk"
            section.problems.append(Problem(what, do, is_failure=False))
        if not os.access(place, os.W_OK):
            what = f"{place} cannot be written, so that no model can be downloaded."
            do = f"export {variable}=/path/that/can/be/written"
            section.problems.append(Problem(what, do))
    return section


def check_variables() -> Section:
    """Returns the section of the environment variables that change what commands do."""
    section = Section("environment variables")
    names = [*_VARIABLES, *(name for name in os.environ if name.startswith("KERAS_BERT_"))]
    found = {name: os.environ[name] for name in names if name in os.environ}
    section.facts = {name: value for name, value in found.items() if _OURS.get(name) != value}
    section.facts |= {name: "set" for name in _SECRETS if name in os.environ}
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if backend not in ("tensorflow", "jax"):
        what = f"KERAS_BACKEND is {backend}; this package needs tensorflow or jax."
        section.problems.append(Problem(what, "unset KERAS_BACKEND"))
    try:
        read_cluster()
    except InputError as error:
        section.problems.append(Problem(str(error), "unset TF_CONFIG"))
    if os.environ.get("TF_USE_LEGACY_KERAS", "0").lower() in ("1", "true"):
        what = "TF_USE_LEGACY_KERAS makes TensorFlow use Keras 2; this package needs Keras 3."
        section.problems.append(Problem(what, "unset TF_USE_LEGACY_KERAS"))
    return section


def check_hubs() -> Section:
    """Returns the section of the hubs that models are downloaded from; asks each for a page."""
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
            do = "set HTTPS_PROXY to your proxy, or HF_HUB_OFFLINE=1 to use what is in the cache"
            section.problems.append(Problem(what, do))
    return section


def _size_of(folder):
    """Returns the bytes of the files of a folder, links not followed."""
    found = (Path(root, name) for root, _, names in os.walk(folder) for name in names)
    return sum(path.lstat().st_size for path in found)


def _gib(size):
    return f"{size / 2**30:.1f} GiB"
