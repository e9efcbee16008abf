"""Exports a model to a named format.

Each format has a module in `serving`. TensorFlow and these modules are imported only when a model
is exported. If Keras uses another backend, the export runs in a new process with the TensorFlow
backend: `python -m keras_bert_impl.serving.graphs.formats DIRECTORY`.
"""

import importlib
import importlib.util
import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.paths import expanded, local_path, version_of
from keras_bert_impl.utils.version import install_command

if TYPE_CHECKING:  # The tokenizers import TensorFlow.
    from keras_bert_impl.tokenizers import Tokenizer

SAVED_MODEL_ENTRIES = ("assets", "assets.extra", "fingerprint.pb", "saved_model.pb", "variables")
NETWORK_ENTRIES = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
_EXPORTS = {"saved_model.pb", "model.onnx", "model.tflite", "model.xml"}
_MODELS = {"model.weights.h5", "bert_model.ckpt.index"}


def check_target(directory: str | Path, entries: tuple[str, ...]) -> None:
    """Raises `InputError` if the target contains files that no export has written."""
    from keras_bert_impl.checkpoints.hub.contents import INDEX, WEIGHTS
    from keras_bert_impl.checkpoints.interop.opening import TUNED_FILES

    models = {*_MODELS, *TUNED_FILES, *WEIGHTS, *(name + INDEX for name in WEIGHTS)}
    if not os.fspath(directory):
        raise InputError("the name of the export folder is empty.")
    path = local_path(directory)
    names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    clashing_names = sorted(names & set(entries))
    if clashing_names and (names & models or not names & _EXPORTS):
        raise InputError(
            f"{path} already contains {listed(clashing_names)}, which no export has written. Choose a new "
            "folder."
        )
    if names & models:
        raise InputError(f"{path} is a model directory. Choose a new folder for the export.")
    exported = [name for name in names if (path / name / "saved_model.pb").is_file()]
    versions = [version for name in exported if (version := version_of(name)) is not None]
    if versions:
        raise InputError(
            f"{path} contains versions of a model. Pass the next version, "
            f"{path / str(max(versions) + 1)}, or a new folder."
        )


def check_drop(before: float, after: float, max_drop: float | None) -> None:
    """Raises `InputError` if the score drops by more than `max_drop` points."""
    if max_drop is not None and not before - after <= max_drop:
        raise InputError(
            f"the score drops from {before:.2f} to {after:.2f}, by more than {max_drop:g} points; "
            "nothing was written."
        )


def save_tokenizer(tokenizer: "Tokenizer", model: Any, directory: Path) -> None:
    """Writes the tokenizer files for clients, with the model's maximum length."""
    tokenizer.save_pretrained(directory)
    max_length = getattr(model, "max_length", None) or model.config.max_length
    _set(directory / "tokenizer_config.json", "model_max_length", max_length)
    settings, way = getattr(model, "settings", ()), getattr(model, "long_texts", None)
    if "doc_stride" not in settings and getattr(way, "way", "truncate") == "truncate":
        how = {"direction": "Right", "strategy": "LongestFirst", "stride": 0}
        _set(directory / "tokenizer.json", "truncation", how | {"max_length": max_length})


def _set(path, key, value):
    if path.exists():
        content = json.loads(path.read_text(encoding="utf-8")) | {key: value}
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8", newline="\n")


SAVED_MODEL = "tf_saved_model"  # the name in Keras
NAMES = {"onnx": "ONNX", "litert": "LiteRT", "openvino": "OpenVINO", "mediapipe": "MediaPipe"}
_PACKAGES = {
    "onnx": ("onnx", "onnxruntime"),
    "litert": ("ai_edge_litert",),
    "openvino": ("openvino", "onnx", "nncf"),
    "mediapipe": ("mediapipe", "ai_edge_litert"),
}
_OTHER_SUFFIXES = {".onnx": "onnx", ".tflite": "litert", ".xml": "openvino"}
_REQUEST, _WEIGHTS = "request.json", "model.weights.h5"
_BAD_INPUT = 2  # exit status after an `InputError`


def settings_of(file_format: str) -> set[str]:
    functions = exporter(file_format), _import_function("network.export", "export_network")
    names = {name for each in functions for name in inspect.signature(each).parameters}
    return names - {"model", "directory", "file_format", "how"}


def exporter(file_format: str) -> Callable:
    """Returns the function that exports a model to a format in `NAMES`."""
    if file_format not in NAMES:
        formats = listed([SAVED_MODEL, *NAMES])
        near = " Write litert for TensorFlow Lite." if "lite" in str(file_format) else ""
        raise InputError(f"format must be one of {formats}. Received: {file_format!r}.{near}")
    if not all(map(importlib.util.find_spec, _PACKAGES[file_format])):
        raise InputError(
            f"export to {NAMES[file_format]} needs more packages. Install them with "
            f"{install_command(file_format)}."
        )
    return _import_function(file_format, f"export_{file_format}")


def _import_function(module, function):
    return getattr(importlib.import_module(f"keras_bert_impl.serving.{module}"), function)


def export_model(
    model: Any,
    filepath: str | Path,
    format: str,
    ids_only: bool,
    custom_ops: bool,
    settings: dict[str, Any],
) -> None:
    import keras

    if format != SAVED_MODEL and ids_only:
        raise InputError(
            f"ids_only is only for format={SAVED_MODEL!r}; models in other formats always take ids."
        )
    if format != SAVED_MODEL and not custom_ops:
        raise InputError(
            f"custom_ops is only for format={SAVED_MODEL!r}; models in other formats "
            "contain no tokenizer."
        )
    filepath = expanded(filepath)
    suffix = local_path(filepath).suffix
    if format == SAVED_MODEL and suffix in _OTHER_SUFFIXES:
        raise InputError(
            f"format={SAVED_MODEL!r} writes a directory, but {filepath} has the suffix of another "
            f"format. Write export({os.fspath(filepath)!r}, format={_OTHER_SUFFIXES[suffix]!r})."
        )
    supported_settings = model.signature_settings if format == SAVED_MODEL else settings_of(format)
    unknown = [name for name in settings if name not in supported_settings]
    if unknown:
        raise InputError(f"format={format!r} has no settings {listed(unknown)}.")
    if keras.backend.backend() != "tensorflow":
        arguments = {"format": format, "ids_only": ids_only, "custom_ops": custom_ops}
        export_on_tensorflow(model, filepath, arguments | settings)
    elif format == SAVED_MODEL:
        export = _import_function("saved_model", "export_saved_model")
        signatures = model.signatures(**settings)
        signatures.custom_ops = custom_ops
        export(signatures, filepath, ids_only)
    else:
        exporter(format)(model, filepath, **settings)


def export_on_tensorflow(model: Any, filepath: str | Path, arguments: dict[str, Any]) -> None:
    import keras

    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        model.save_weights(directory / _WEIGHTS)
        config = keras.saving.serialize_keras_object(model)
        config.pop("compile_config", None)
        request = {
            "module": type(model).__module__,
            "config": config,
            "filepath": str(local_path(filepath).absolute()),
            "arguments": arguments,
        }
        (directory / _REQUEST).write_text(json.dumps(request), encoding="utf-8")
        # This process already uses the accelerator.
        environment = os.environ | {"KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1"}
        # Exporting a large model takes long, so there is no time limit. Ctrl-C ends both
        # processes.
        process = subprocess.run(
            [sys.executable, "-m", __name__, str(directory)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    if process.returncode == _BAD_INPUT:
        raise InputError(process.stderr.strip().rpartition("\n")[2])
    if process.returncode:
        raise RuntimeError(
            "the export with the TensorFlow backend failed. The end of its output: "
            f"{process.stderr.strip()[-2000:]}"
        )


def main(directory: Path) -> int:
    """Exports the model in a directory; returns the exit status."""
    import keras

    request = json.loads((directory / _REQUEST).read_text(encoding="utf-8"))
    importlib.import_module(request["module"])  # registers the class
    try:
        model = keras.saving.deserialize_keras_object(request["config"])
        model.load_weights(directory / _WEIGHTS)
        model.export(request["filepath"], **request["arguments"])
    except InputError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return _BAD_INPUT
    return 0


if __name__ == "__main__":
    import keras

    keras.config.disable_traceback_filtering()
    sys.exit(main(Path(sys.argv[1])))
