"""What a fine-tuning run is made of: models and examples, identified by checksums."""

import hashlib
import json
from pathlib import Path
from typing import Any

from keras_bert_impl.interop import fingerprint, open_model
from keras_bert_impl.interop.sentence_transformers import read_projections, read_sentence_settings
from keras_bert_impl.io.paths import local_path
from keras_bert_impl.runs.settings import FinetuneSettings
from keras_bert_impl.tasks.data.examples import LabeledExamples
from keras_bert_impl.tokenizers import Tokenizer


def model_directory(path: str | Path) -> str | Path:
    """Returns the model directory of a run; any other path or name unchanged."""
    directory = local_path(path) / "model"
    return directory if directory.is_dir() else path


def made_of(
    settings: FinetuneSettings, train: LabeledExamples, dev: LabeledExamples
) -> dict[str, dict[str, Any]]:
    """Describes the inputs of a fine-tuning run, for its `RunDirectory`."""
    read: dict[str, dict[str, Any]] = {
        name: {"source": data.source, "examples": len(data), "sha256": data.fingerprint}
        for name, data in (("train", train), ("dev", dev))
    }
    for name in ("model", "teacher"):
        path = getattr(settings, name)
        if path:  # a teacher may be a run
            read[name] = {"source": str(path), **_identity(model_directory(path))}
    return read


def _identity(path):
    """Returns the checksums of a model, its tokenizer and its settings for sentence vectors."""
    source = open_model(path)
    settings = read_sentence_settings(source.task_path)
    sentences = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for tensors in read_projections(source.task_path) if settings else ():
        for name in sorted(tensors):
            sentences.update(f"{name} {tensors[name].shape}".encode() + tensors[name].tobytes())
    return {
        "sha256": fingerprint(path),
        "tokenizer": Tokenizer.from_pretrained(source.path).fingerprint,
        "sentences": sentences.hexdigest(),
    }
