"""Export formats, and the packages that each requires."""

import importlib
import importlib.util
import inspect
from collections.abc import Callable

from keras_bert_impl.io.errors import InputError, listed

SAVED_MODEL = "tf_saved_model"  # Keras's name
SAVED_MODEL_ENTRIES = ("assets", "assets.extra", "fingerprint.pb", "saved_model.pb", "variables")
NAMES = {"onnx": "ONNX", "litert": "LiteRT", "openvino": "OpenVINO"}
_PACKAGES = {
    "onnx": ("onnx", "onnxruntime"),
    "litert": ("ai_edge_litert",),
    "openvino": ("openvino", "onnx", "nncf"),
}


def settings_of(file_format: str) -> set[str]:
    """Returns the names of the settings of an export; for argument and errors see `exporter`."""
    from keras_bert_impl.serving.network.export import export_network

    functions = exporter(file_format), export_network
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
    module = importlib.import_module(f"keras_bert_impl.serving.{file_format}")
    return getattr(module, f"export_{file_format}")
