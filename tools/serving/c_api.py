#!/usr/bin/env python
"""Runs a SavedModel with TensorFlow's C API, without TensorFlow's Python.

The libraries are part of the wheels `tensorflow` and `tensorflow_text`. The calls, from
`TF_LoadSessionFromSavedModel` to `TF_SessionRun`, are the same as in a C++ server.

    python tools/serving/c_api.py models/reviews/1 "a dull film" "a joy"
    echo '{"question": ["Who came?"], "context": ["Ann came."]}' |
        python tools/serving/c_api.py models/answers/1
"""

import argparse
import ctypes
import importlib.util
import json
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
from wire import read_fields

STRING = 7
DTYPES = {1: "float32", 2: "float64", 3: "int32", 9: "int64", 10: "bool"}  # by DataType number
NUMBERS = {np.dtype(name): number for number, name in DTYPES.items()}
_STRING_SIZE = 24  # size of a TF_TString in bytes


class Failure(Exception):
    """An error of TensorFlow."""


class _Output(ctypes.Structure):
    _fields_ = [("operation", c_void_p), ("index", c_int)]


class _Buffer(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("length", c_size_t), ("free", c_void_p)]


_SIGNATURES = {  # name: (result, arguments)
    "TF_NewStatus": (c_void_p, []),
    "TF_DeleteStatus": (None, [c_void_p]),
    "TF_GetCode": (c_int, [c_void_p]),
    "TF_Message": (c_char_p, [c_void_p]),
    "TF_LoadLibrary": (c_void_p, [c_char_p, c_void_p]),
    "TF_NewGraph": (c_void_p, []),
    "TF_NewSessionOptions": (c_void_p, []),
    "TF_LoadSessionFromSavedModel": (
        c_void_p,
        [c_void_p, c_void_p, c_char_p, POINTER(c_char_p), c_int, c_void_p, c_void_p, c_void_p],
    ),
    "TF_GraphOperationByName": (c_void_p, [c_void_p, c_char_p]),
    "TF_AllocateTensor": (c_void_p, [c_int, POINTER(c_int64), c_int, c_size_t]),
    "TF_DeleteTensor": (None, [c_void_p]),
    "TF_TensorData": (c_void_p, [c_void_p]),
    "TF_TensorType": (c_int, [c_void_p]),
    "TF_NumDims": (c_int, [c_void_p]),
    "TF_Dim": (c_int64, [c_void_p, c_int]),
    "TF_TensorByteSize": (c_size_t, [c_void_p]),
    "TF_StringInit": (None, [c_void_p]),
    "TF_StringCopy": (None, [c_void_p, c_char_p, c_size_t]),
    "TF_StringGetDataPointer": (c_void_p, [c_void_p]),
    "TF_StringGetSize": (c_size_t, [c_void_p]),
    "TF_StringDealloc": (None, [c_void_p]),
    "TF_SessionRun": (
        None,
        [c_void_p, c_void_p, POINTER(_Output), POINTER(c_void_p), c_int]
        + [POINTER(_Output), POINTER(c_void_p), c_int, c_void_p, c_int, c_void_p, c_void_p],
    ),
}


def load_libraries(with_text: bool = True) -> ctypes.CDLL:
    """Loads TensorFlow's C API, by default with the operations of TF-Text."""
    tensorflow = _find_folder("tensorflow")
    # not global, otherwise other Python modules would use these symbols
    ctypes.CDLL(str(tensorflow / "libtensorflow_framework.so.2"))
    library = ctypes.CDLL(str(tensorflow / "libtensorflow_cc.so.2"))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    if with_text:
        for path in sorted(_find_folder("tensorflow_text").rglob("*.so")):
            if not {"pywrap", "core"} & {*path.stem.split("_"), *path.parts}:
                with _status(library) as status:
                    library.TF_LoadLibrary(str(path).encode(), status)
    return library


def _find_folder(package):
    """Returns the folder of a package without importing it."""
    return Path(importlib.util.find_spec(package).origin).parent


class _status:
    """Context manager with a status for calls; raises a `Failure` if it is not OK."""

    def __init__(self, library):
        self.library = library

    def __enter__(self):
        self.status = self.library.TF_NewStatus()
        return self.status

    def __exit__(self, kind, error, trace):
        code, message = self.library.TF_GetCode(self.status), self.library.TF_Message(self.status)
        self.library.TF_DeleteStatus(self.status)
        if code and kind is None:
            raise Failure(message.decode("utf-8", "replace"))


class Model:
    """A SavedModel in a session.

    Args:
        library: result of `load_libraries`.

    Attributes:
        signatures: see `read_signatures`.

    Example:
        Model("models/reviews/1").ask("serving_default", text=[b"a dull film"])["label"]
    """

    def __init__(self, directory: str | Path, library: ctypes.CDLL | None = None) -> None:
        self.library = library or load_libraries()
        self.graph, meta = self.library.TF_NewGraph(), _Buffer()
        tags = (c_char_p * 1)(b"serve")
        options = self.library.TF_NewSessionOptions()
        with _status(self.library) as status:
            self.session = self.library.TF_LoadSessionFromSavedModel(
                options, None, str(directory).encode(), tags, 1, self.graph, byref(meta), status
            )
        self.signatures = read_signatures(ctypes.string_at(meta.data, meta.length))

    def ask(self, signature: str, **inputs: Any) -> dict[str, np.ndarray]:
        """Runs a signature and returns its outputs. Strings are bytes.

        Args:
            **inputs: arrays; for strings, lists of bytes or str.

        Raises:
            Failure: TensorFlow returned an error.
        """
        takes, gives = self.signatures[signature]
        if set(takes) != set(inputs):
            raise Failure(f"{signature} has the inputs {sorted(takes)}. Received: {sorted(inputs)}")
        names, tensors = list(gives), []
        try:
            for values in inputs.values():
                tensors.append(self._create_tensor(values))
            outputs = (c_void_p * len(names))()
            with _status(self.library) as status:
                self.library.TF_SessionRun(
                    self.session,
                    None,
                    self._find_operations([takes[name][0] for name in inputs]),
                    (c_void_p * len(tensors))(*tensors),
                    len(tensors),
                    self._find_operations([gives[name][0] for name in names]),
                    outputs,
                    len(names),
                    None,
                    0,
                    None,
                    status,
                )
            return {name: self._read_array(output) for name, output in zip(names, outputs)}
        finally:
            for tensor in tensors:
                self._delete(tensor)

    def _find_operations(self, names):
        outputs = (_Output * len(names))()
        for output, name in zip(outputs, names):
            operation, _, index = name.partition(":")
            pointer = self.library.TF_GraphOperationByName(self.graph, operation.encode())
            output.operation, output.index = pointer, int(index or 0)
        return outputs

    def _create_tensor(self, values):
        array = np.asarray(values)
        if array.dtype.kind in "SUO":
            return self._create_string_tensor(np.asarray(values, object))
        array = np.ascontiguousarray(array)
        shape = (c_int64 * array.ndim)(*array.shape)
        tensor = self.library.TF_AllocateTensor(
            NUMBERS[array.dtype], shape, array.ndim, array.nbytes
        )
        ctypes.memmove(self.library.TF_TensorData(tensor), array.ctypes.data, array.nbytes)
        return tensor

    def _create_string_tensor(self, array):
        shape = (c_int64 * array.ndim)(*array.shape)
        size = array.size * _STRING_SIZE
        tensor = self.library.TF_AllocateTensor(STRING, shape, array.ndim, size)
        data = self.library.TF_TensorData(tensor)
        for number, text in enumerate(array.ravel()):
            text = text.encode() if isinstance(text, str) else text
            if not isinstance(text, bytes):
                raise Failure(f"expected strings. Received: {text!r:.40}")
            self.library.TF_StringInit(data + number * _STRING_SIZE)
            self.library.TF_StringCopy(data + number * _STRING_SIZE, text, len(text))
        return tensor

    def _read_array(self, tensor):
        library = self.library
        shape = [library.TF_Dim(tensor, axis) for axis in range(library.TF_NumDims(tensor))]
        kind, data = library.TF_TensorType(tensor), library.TF_TensorData(tensor)
        if kind == STRING:
            flat = np.empty(int(np.prod(shape)), object)
            for number in range(flat.size):
                string = data + number * _STRING_SIZE
                text = library.TF_StringGetDataPointer(string)
                flat[number] = ctypes.string_at(text, library.TF_StringGetSize(string))
        else:
            content = ctypes.string_at(data, library.TF_TensorByteSize(tensor)) if data else b""
            flat = np.frombuffer(content, DTYPES[kind]).copy()
        self._delete(tensor)
        return flat.reshape(shape)

    def _delete(self, tensor):
        self.library.TF_DeleteTensor(tensor)  # also frees the strings


def read_signatures(meta: bytes) -> dict[str, tuple[dict, dict]]:
    """Reads the signatures in the bytes of a `MetaGraphDef`.

    Returns:
        Dict from names to (inputs, outputs), which are dicts from names to (tensor, `DataType`).
    """
    signatures = {}
    for entry in read_fields(meta).get(5, []):  # signature_def, a map
        entry = read_fields(entry)
        if entry[1][0] != b"__saved_model_init_op":
            definition = read_fields(entry[2][0])
            signatures[entry[1][0].decode()] = tuple(
                map(_read_tensors, map(definition.get, (1, 2)))
            )
    return signatures


def _read_tensors(entries):
    """Converts a map of names to `TensorInfo` to a dict."""
    tensors = {}
    for entry in map(read_fields, entries or []):
        info = read_fields(entry[2][0])
        tensors[entry[1][0].decode()] = info[1][0].decode(), info[2][0]
    return tensors


def main() -> None:
    """Prints the outputs as JSON, with one line for each example."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", help="a SavedModel")
    parser.add_argument(
        "texts", nargs="*", help="texts; default: a JSON object of lists, read from stdin"
    )
    parser.add_argument("--signature", default="serving_default")
    parser.add_argument("--core", action="store_true", help="do not load the operations of TF-Text")
    arguments = parser.parse_args()
    inputs = {"text": arguments.texts} if arguments.texts else json.load(sys.stdin)
    model = Model(arguments.directory, load_libraries(with_text=not arguments.core))
    outputs = model.ask(arguments.signature, **inputs)
    for row in zip(*(array.tolist() for array in outputs.values())):
        answer = dict(zip(outputs, row))
        print(json.dumps(answer, default=lambda text: text.decode("utf-8", "replace")))


if __name__ == "__main__":
    main()
