"""Export to a format by name, on other backends in a process with the TensorFlow backend.

Formats are plug-ins in `serving`, found by name, so that models can be exported by functions that
they do not import. Imports TensorFlow only to export. Run as a program, exports the model that another process has
saved: `python -m keras_bert_impl.graphs.formats DIRECTORY`.
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
from typing import Any

from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.io.paths import expanded, local_path

SAVED_MODEL = "tf_saved_model"  # Keras's name
NAMES = {"onnx": "ONNX", "litert": "LiteRT", "openvino": "OpenVINO"}
_PACKAGES = {
    "onnx": ("onnx", "onnxruntime"),
    "litert": ("ai_edge_litert",),
    "openvino": ("openvino", "onnx", "nncf"),
}
_OTHER_SUFFIXES = {".onnx": "onnx", ".tflite": "litert", ".xml": "openvino"}
_REQUEST, _WEIGHTS = "request.json", "model.weights.h5"
_BAD_INPUT = 2  # exit status after an `InputError`


def settings_of(file_format: str) -> set[str]:
    """Returns the names of the settings of an export; for argument and errors see `exporter`."""
    functions = exporter(file_format), _plug_in("network.export", "export_network")
    names = {name for each in functions for name in inspect.signature(each).parameters}
    return names - {"model", "directory", "file_format", "how"}


def exporter(file_format: str) -> Callable:
    """Returns the function that exports a model to one of `NAMES`."""
    if file_format not in NAMES:
        formats = listed([SAVED_MODEL, *NAMES])
        raise InputError(f"format must be one of {formats}. Received: {file_format!r}")
    if not all(map(importlib.util.find_spec, _PACKAGES[file_format])):
        raise InputError(
            f"export to {NAMES[file_format]} needs more packages: pip install "
            f"'keras-bert-impl[{file_format}]'."
        )
    return _plug_in(file_format, f"export_{file_format}")


def _plug_in(module, function):
    return getattr(importlib.import_module(f"keras_bert_impl.serving.{module}"), function)


def export_model(
    model: Any, filepath: str | Path, format: str, ids_only: bool, settings: dict[str, Any]
) -> None:
    """Exports a `TaskModel`; see `TaskModel.export`."""
    import keras

    if format != SAVED_MODEL and ids_only:
        raise InputError(f"ids_only is for format={SAVED_MODEL!r}; others always take ids.")
    filepath = expanded(filepath)
    suffix = local_path(filepath).suffix
    if format == SAVED_MODEL and suffix in _OTHER_SUFFIXES:
        raise InputError(
            f"{filepath} would be a SavedModel: write export({os.fspath(filepath)!r}, "
            f"format={_OTHER_SUFFIXES[suffix]!r})."
        )
    known = model.signature_settings if format == SAVED_MODEL else settings_of(format)
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise InputError(f"format={format!r} has no settings {listed(unknown)}.")
    if keras.backend.backend() != "tensorflow":
        export_on_tensorflow(model, filepath, {"format": format, "ids_only": ids_only, **settings})
    elif format == SAVED_MODEL:
        export = _plug_in("saved_model", "export_saved_model")
        export(model.signatures(**settings), filepath, ids_only)
    else:
        exporter(format)(model, filepath, **settings)


def export_on_tensorflow(model: Any, filepath: str | Path, arguments: dict[str, Any]) -> None:
    """Exports a `TaskModel` in another process, which has the TensorFlow backend."""
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
        # The accelerator belongs to this process.
        environment = os.environ | {"KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1"}
        # Without a time limit: a large model may take long, and Ctrl-C ends both processes.
        ended = subprocess.run(
            [sys.executable, "-m", __name__, str(directory)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    if ended.returncode == _BAD_INPUT:
        raise InputError(ended.stderr.strip().rpartition("\n")[2])
    if ended.returncode:
        raise RuntimeError(
            "the export on TensorFlow failed; the end of its messages: "
            f"{ended.stderr.strip()[-2000:]}"
        )


def main(directory: Path) -> int:
    """Exports the model of a folder; returns the exit status."""
    import keras

    request = json.loads((directory / _REQUEST).read_text(encoding="utf-8"))
    importlib.import_module(request["module"])  # registers the class
    model = keras.saving.deserialize_keras_object(request["config"])
    model.load_weights(directory / _WEIGHTS)
    try:
        model.export(request["filepath"], **request["arguments"])
    except InputError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return _BAD_INPUT
    return 0


if __name__ == "__main__":
    import keras

    keras.config.disable_traceback_filtering()
    sys.exit(main(Path(sys.argv[1])))
