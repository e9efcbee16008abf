"""What exports to all formats check and write: their folder, scores and the tokenizer's files."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.io.paths import local_path

if TYPE_CHECKING:  # it imports TensorFlow
    from keras_bert_impl.tokenizers import Tokenizer

SAVED_MODEL_ENTRIES = ("assets", "assets.extra", "fingerprint.pb", "saved_model.pb", "variables")
NETWORK_ENTRIES = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
_EXPORTS = {"saved_model.pb", "model.onnx", "model.tflite", "model.xml"}
_MODELS = {"model.weights.h5", "bert_model.ckpt.index"}


def check_target(directory: str | Path, entries: tuple[str, ...]) -> None:
    """Checks that an export replaces only files of an earlier export."""
    from keras_bert_impl.hub.contents import INDEX, WEIGHTS
    from keras_bert_impl.interop.opening import TUNED_FILES

    models = {*_MODELS, *TUNED_FILES, *WEIGHTS, *(name + INDEX for name in WEIGHTS)}
    if not os.fspath(directory):
        raise InputError("the name of the folder to write is empty.")
    path = local_path(directory)
    names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    taken = sorted(names & set(entries))
    if taken and (names & models or not names & _EXPORTS):
        raise InputError(
            f"{path} already has {listed(taken)}, which no export has written; give a new folder."
        )
    if names & models:
        raise InputError(f"{path} is a model's directory; give a new folder for its exports.")


def check_drop(before: float, after: float, max_drop: float | None) -> None:
    """Compares the scores of a model and of its export."""
    if max_drop is not None and not before - after <= max_drop:
        raise InputError(
            f"the score drops from {before:.2f} to {after:.2f}, by more than {max_drop:g} points; "
            "nothing was written."
        )


def save_tokenizer(tokenizer: "Tokenizer", model: Any, directory: Path) -> None:
    """Writes a tokenizer's files for clients, which other libraries truncate as the model does."""
    tokenizer.save_pretrained(directory)
    max_length = getattr(model, "max_length", None) or model.config.max_length
    _set(directory / "tokenizer_config.json", "model_max_length", max_length)
    settings, way = getattr(model, "settings", ()), getattr(model, "long_texts", None)
    if "doc_stride" not in settings and getattr(way, "way", "truncate") == "truncate":
        how = {"direction": "Right", "strategy": "LongestFirst", "stride": 0}
        _set(directory / "tokenizer.json", "truncation", how | {"max_length": max_length})


def _set(path, key, value):
    """Sets an entry of a JSON file; a tokenizer of a kind without this file has none."""
    if path.exists():
        content = json.loads(path.read_text(encoding="utf-8")) | {key: value}
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8", newline="\n")
