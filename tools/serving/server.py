#!/usr/bin/env python
"""A replacement for TensorFlow Serving that uses the C API, for testing clients.

It supports `Predict` of the gRPC service `tensorflow.serving.PredictionService` and, over HTTP,
`POST /v1/models/NAME:predict` with `instances` or `inputs`. It runs the warm-up requests of the
newest version, and then serves this version.

    python tools/serving/server.py models/reviews --port 8500 --rest-port 8501
"""

import argparse
import base64
import http.server
import json
import math
import struct
import threading
from collections.abc import Iterable
from concurrent import futures
from pathlib import Path
from typing import Any

import c_api
import grpc
import numpy as np
from wire import read_fields, read_numbers, read_records, write_field, write_number

_SERVICE = "tensorflow.serving.PredictionService"
_MOST_VALUES = 1 << 26  # maximum bytes per tensor; a short message may declare a large tensor
# Number of a `DataType` -> (field of TensorProto for single values, format of a value).
_VALUES = {1: (5, "<f"), 2: (6, "<d"), 3: (7, None), 9: (10, None), 10: (11, None)}


class Models:
    """The newest versions of models, keyed by model name.

    Args:
        folders: folders of versions, one for each model.
        warm_up: whether to run the warm-up requests first.
    """

    def __init__(self, folders: Iterable[Path], warm_up: bool = True) -> None:
        library = c_api.load_libraries()
        self.versions = {folder.name: newest_version(folder) for folder in folders}
        self.models = {
            folder.name: c_api.Model(folder / str(self.versions[folder.name]), library)
            for folder in folders
        }
        for folder in folders if warm_up else ():
            extra = folder / str(self.versions[folder.name]) / "assets.extra"
            for record in read_records(extra / "tf_serving_warmup_requests"):
                log = read_fields(read_fields(record)[6][0])  # PredictionLog.predict_log
                self.ask(*read_request(log[1][0]))

    def ask(
        self, name: str, signature: str, inputs: dict[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature, keyed by name, or raises a `c_api.Failure`."""
        if name not in self.models:
            raise c_api.Failure(f"Servable not found for request: {name}")
        if signature not in self.models[name].signatures:
            raise c_api.Failure(f"the signature {signature} does not exist")
        return self.models[name].ask(signature, **inputs)


def newest_version(folder: str | Path) -> int:
    """Returns the highest version number in a folder."""
    return max(int(entry.name) for entry in Path(folder).iterdir() if entry.name.isdecimal())


# === gRPC ===


def grpc_server(models: Models, port: int) -> tuple[grpc.Server, int]:
    """Starts a gRPC server; returns it and its port."""

    def predict(request, context):
        try:
            name, signature, inputs = read_request(request)
            outputs = models.ask(name, signature, inputs)
            return write_response(name, models.versions[name], signature, outputs)
        except (c_api.Failure, LookupError, ValueError, struct.error) as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error)[:1000])

    handlers = {"Predict": grpc.unary_unary_rpc_method_handler(predict)}
    server = grpc.server(
        futures.ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", 1 << 28)]
    )
    generic = grpc.method_handlers_generic_handler(_SERVICE, handlers)
    server.add_generic_rpc_handlers((generic,))
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, port


def read_request(message: bytes) -> tuple[str, str, dict[str, np.ndarray]]:
    """Reads (model, signature, inputs) from the bytes of a `PredictRequest`."""
    request = read_fields(message)
    spec = read_fields(request[1][0])
    signature = spec.get(3, [b"serving_default"])[0].decode()
    inputs = {}
    for entry in map(read_fields, request.get(2, [])):
        inputs[entry[1][0].decode()] = read_tensor(entry[2][0])
    return spec[1][0].decode(), signature, inputs


def read_tensor(message: bytes) -> np.ndarray:
    """Reads an array from the bytes of a `TensorProto`."""
    fields = read_fields(message)
    kind = fields[1][0]
    dims = read_fields(fields.get(2, [b""])[0]).get(2, [])
    shape = [read_fields(dim).get(1, [0])[0] for dim in dims]
    size = math.prod(shape)
    if size > _MOST_VALUES:
        raise ValueError(f"a tensor of {size} values is too large.")
    if kind == c_api.STRING:
        flat = np.empty(size, object)
        flat[:] = (fields.get(8, [b""]) * size)[:size]
    elif 4 in fields:
        flat = np.frombuffer(fields[4][0], c_api.DTYPES[kind])
    else:
        flat = np.resize(_read_values(fields, kind), size).astype(c_api.DTYPES[kind])
    return flat.reshape(shape)


def _read_values(fields, kind):
    """Returns the values of a typed field, which may be packed; repeats the last value."""
    number, code = _VALUES[kind]
    values = []
    for value in fields.get(number, [0]):
        if not isinstance(value, bytes):
            values.append(value)
        elif code:
            values += [scalar for (scalar,) in struct.iter_unpack(code, value)]
        else:
            values += read_numbers(value)
    # negative numbers have 64 bits
    return [scalar - (1 << 64) if scalar >= 1 << 63 else scalar for scalar in values]


def write_response(
    name: str, version: int, signature: str, outputs: dict[str, np.ndarray]
) -> bytes:
    """Returns the bytes of a `PredictResponse`."""
    spec = write_field(1, name.encode()) + write_field(3, signature.encode())
    spec += write_field(2, b"\x08" + write_number(version))
    message = write_field(2, spec)
    for key, values in outputs.items():
        entry = write_field(1, key.encode()) + write_field(2, write_tensor(values))
        message += write_field(1, entry)
    return message


def write_tensor(array: np.ndarray) -> bytes:
    """Returns the bytes of a `TensorProto`."""
    kind = c_api.STRING if array.dtype == object else c_api.NUMBERS[array.dtype]
    shape = b"".join(write_field(2, b"\x08" + write_number(size)) for size in array.shape)
    message = b"\x08" + write_number(kind) + write_field(2, shape)
    if kind == c_api.STRING:
        return message + b"".join(write_field(8, text) for text in array.ravel())
    return message + write_field(4, array.tobytes())


# === REST ===


def rest_server(models: Models, port: int) -> tuple[http.server.ThreadingHTTPServer, int]:
    """Starts an HTTP server; returns it and its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):  # the library requires this name
            status, answer = 200, None
            try:
                size = int(self.headers["Content-Length"])
                name = self.path.removeprefix("/v1/models/").removesuffix(":predict")
                answer = rest_answer(models, name, json.loads(self.rfile.read(size)))
            except (c_api.Failure, LookupError, RecursionError, TypeError, ValueError) as error:
                status, answer = 400, {"error": str(error)[:1000]}
            content = json.dumps(answer, default=_format_bytes).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            """Disables logging of requests."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, server.server_address[1]


def rest_answer(models: Models, name: str, request: Any) -> dict[str, Any]:
    """Responds to a request in rows (`instances`) or columns (`inputs`)."""
    if not isinstance(request, dict):
        raise ValueError("a request must be a JSON object.")
    signature = request.get("signature_name", "serving_default")
    takes = models.models[name].signatures[signature][0]
    by_row = "instances" in request
    inputs = _decode_bytes(request["instances"] if by_row else request["inputs"])
    if by_row and inputs and isinstance(inputs[0], dict):
        inputs = {key: [row[key] for row in inputs] for key in takes}
    if not isinstance(inputs, dict):
        (only,) = takes
        inputs = {only: inputs}
    arrays = {key: _parse_array(rows, takes[key][1]) for key, rows in inputs.items()}
    outputs = {key: value.tolist() for key, value in models.ask(name, signature, arrays).items()}
    if not by_row:
        return {"outputs": outputs if len(outputs) > 1 else next(iter(outputs.values()))}
    rows = [dict(zip(outputs, row)) for row in zip(*outputs.values())]
    return {"predictions": rows if len(outputs) > 1 else next(iter(outputs.values()))}


def _decode_bytes(values):
    """Replaces each `{"b64": ...}` with bytes."""
    if isinstance(values, list):
        return [_decode_bytes(value) for value in values]
    if not isinstance(values, dict):
        return values
    if set(values) == {"b64"}:
        return base64.b64decode(values["b64"], validate=True)
    return {key: _decode_bytes(value) for key, value in values.items()}


def _parse_array(rows, kind):
    """Converts nested lists to an array. Raises an error for values of another `DataType`."""
    if kind == c_api.STRING:
        return np.array(rows, object)
    array, dtype = np.array(rows), np.dtype(c_api.DTYPES[kind])
    is_number = array.dtype.kind in ("iuf" if dtype.kind == "f" else "iu") or not array.size
    if not is_number or (dtype.kind == "i" and (array.astype(dtype) != array).any()):
        raise ValueError(f"expected numbers of {dtype}. Received: {rows!r:.60}")
    return array.astype(dtype)


def _format_bytes(text):
    try:
        return text.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(text).decode()}


def main() -> None:
    """Serves until stopped. Prints the ports as JSON when ready."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "folders",
        nargs="+",
        type=Path,
        help="folders of versions; the folder name is the name of the model",
    )
    parser.add_argument("--port", type=int, default=8500, help="gRPC port; 0 for any free port")
    parser.add_argument(
        "--rest-port", type=int, default=8501, help="HTTP port; 0 for any free port"
    )
    parser.add_argument("--no-warm-up", action="store_true", help="skip the warm-up requests")
    arguments = parser.parse_args()
    folders = [folder.absolute() for folder in arguments.folders]
    models = Models(folders, warm_up=not arguments.no_warm_up)
    server, port = grpc_server(models, arguments.port)
    _, rest_port = rest_server(models, arguments.rest_port)
    print(json.dumps({"port": port, "rest_port": rest_port}), flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
