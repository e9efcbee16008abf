"""Creates a Hugging Face hub cache from local directories, to run examples without a network."""

import shutil
from pathlib import Path

_COMMIT = "0" * 40


def fill(cache: Path, models: dict[str, str]) -> dict[str, str]:
    """Copies directories into a cache with the layout of `huggingface_hub`.

    Args:
        cache: directory of the cache; created if needed.
        models: dict from repository names (`owner/name`) to directories.

    Returns:
        Environment variables for a process that reads the cache and does not use the network.
    """
    for repository, directory in models.items():
        folder = cache / f"models--{repository.replace('/', '--')}"
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text(_COMMIT, encoding="ascii")
        shutil.copytree(directory, folder / "snapshots" / _COMMIT)
    return {"HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
