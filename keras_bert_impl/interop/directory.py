"""Writes model directories in the Hugging Face layout."""

import json
import shutil
from pathlib import Path

import numpy as np
import safetensors.numpy


def write_model_directory(directory, config, tensors):
    """Writes `config.json` and `model.safetensors`.

    Args:
        directory: `Path` of an existing directory.
        config: dict for `config.json`.
        tensors: dict of tensor names to NumPy arrays.
    """
    directory = Path(directory)
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (directory / "config.json").write_text(text, encoding="utf-8")
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    # `transformers` rejects files whose metadata does not name a framework.
    safetensors.numpy.save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    # safetensors creates a file that only its owner can read.
    shutil.copymode(directory / "config.json", directory / "model.safetensors")
