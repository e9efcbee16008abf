"""Writes model directories in the Hugging Face layout."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from keras_bert_impl.interop.source import Tensors


def write_model_directory(directory: Path, config: dict[str, Any], tensors: Tensors) -> None:
    """Writes `config.json` and `model.safetensors` into an existing directory."""
    write_json(directory / "config.json", config)
    write_tensors(directory / "model.safetensors", tensors)


def write_json(path: Path, value: Any) -> None:
    """Writes an indented JSON file in UTF-8."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")


def write_tensors(path: Path, tensors: Tensors) -> None:
    """Writes a safetensors file next to a `config.json`, whose permissions it takes."""
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    # `transformers` rejects files whose metadata does not name a framework.
    safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})
    # safetensors creates a file that only its owner can read.
    shutil.copymode(path.with_name("config.json"), path)
