"""Converts between the JSON of TensorFlow Serving's REST API and NumPy arrays.

Source: https://www.tensorflow.org/tfx/serving/api_rest; for details of values,
`util/json_tensor.cc` of TensorFlow Serving.
"""

import base64
import binascii
import itertools
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.reading import parse_json

Arrays = dict[str, np.ndarray]  # str tensors are object arrays of bytes

# Codes of `tensorflow::Status`, and TensorFlow Serving's HTTP status for each.
STATUS = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNKNOWN": 500,
    "DATA_LOSS": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


class ApiError(Exception):
    def __init__(
        self, message: str, code: str = "INVALID_ARGUMENT", status: int | None = None
    ) -> None:
        super().__init__(message[:1000])
        self.code = code
        self.status = status or STATUS[code]


class Input(NamedTuple):
    """An input of a signature; `shape` may contain None."""

    dtype: np.dtype  # object for strings
    shape: tuple[int | None, ...]


class PredictRequest(NamedTuple):
    """A parsed request. `by_row` is true for the key `instances`, and false for `inputs`."""

    signature: str
    values: Any
    by_row: bool


# === Requests ===


def parse_request(body: bytes) -> PredictRequest:
    """Parses the body of a `predict` request."""
    if not body:
        raise ApiError("JSON Parse error: The document is empty")
    try:
        request = parse_json(body, "the request")
    except InputError as error:
        raise ApiError(f"JSON Parse error: {error}") from error
    if not isinstance(request, dict):
        raise ApiError(f"JSON Value: {shown(request)} Is not object")
    signature = request.get("signature_name", "")
    if not isinstance(signature, str):
        raise ApiError(f"'signature_name' key must be a string value, not {shown(signature)}.")
    signature = signature or "serving_default"
    keys = request.keys() & {"instances", "inputs"}
    if len(keys) != 1:
        raise ApiError(
            "Expecting only one of 'inputs' or 'instances' keys to exist."
            if keys
            else "Missing 'inputs' or 'instances' key"
        )
    (key,) = keys
    return PredictRequest(signature, request[key], key == "instances")


def read_inputs(request: PredictRequest, inputs: Mapping[str, Input], max_rows: int) -> Arrays:
    columns = (_split_rows if request.by_row else _read_columns)(request.values, inputs)
    for name, column in columns.items():
        if isinstance(column, list):
            check_rows(name, len(column), max_rows)
    return {name: _make_array(name, columns[name], kind) for name, kind in inputs.items()}


def check_rows(name: str, count: int, max_rows: int) -> None:
    if count > max_rows:
        raise ApiError(
            f"Input {shown(name)} has {count} rows, but the maximum of this server is {max_rows} "
            "rows per request. Send several requests."
        )


def check_shape(name: str, shape: list[int], kind: Input) -> None:
    """Raises an `ApiError` if the shape of an input differs from the signature."""
    fits = len(shape) == len(kind.shape) and all(
        size >= 0 and expected in (None, size) for size, expected in zip(shape, kind.shape)
    )
    if not fits:
        expected = ",".join("?" if size is None else str(size) for size in kind.shape)
        raise ApiError(f"Input {shown(name)} must have the shape [{expected}]. Received: {shape}")


def _split_rows(rows, inputs):
    if not isinstance(rows, list) or not rows:
        raise ApiError("'instances' must be a list with at least one element.")
    if not _is_object(rows[0]):
        if len(inputs) > 1:
            raise ApiError(
                "instances is a plain list, but expecting list of objects as multiple input "
                "tensors required as per tensorinfo_map"
            )
        if any(map(_is_object, rows)):
            raise ApiError("'instances' must be a list of objects or of values, not of both.")
        return {next(iter(inputs)): rows}
    for number, row in enumerate(rows):
        if not _is_object(row) or row.keys() != inputs.keys():
            raise ApiError(
                f"Failed to process element: {number} of 'instances' list. JSON object: "
                f"{shown(row)} keys must be equal to: {','.join(sorted(inputs))}"
            )
    return {name: [row[name] for row in rows] for name in inputs}


def _read_columns(values, inputs):
    if _is_object(values):
        for name in inputs:
            if name not in values:
                raise ApiError(f"Missing named input: {name} in 'inputs' object.")
        return values
    if len(inputs) > 1:
        raise ApiError(
            "inputs is a plain value/list, but expecting an object as multiple input tensors "
            "required as per tensorinfo_map"
        )
    return {next(iter(inputs)): values}


def _is_object(value):
    return isinstance(value, dict) and not _is_base64(value)


def _is_base64(value):
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def _make_array(name, value, kind):
    """Converts nested lists to an array of the input's dtype and shape."""
    shape, inner = [], value
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    # An empty list may be an empty batch of rows of any rank.
    shape += [0] * (len(kind.shape) - len(shape)) if shape and inner is None else []
    check_shape(name, shape, kind)
    level = [value]
    for size in shape:
        for part in level:
            if not isinstance(part, list) or len(part) != size:
                raise ApiError(
                    f"Input {shown(name)}: lists at the same depth must have the same size. "
                    f"Expected {size} elements, received: {shown(part)}"
                )
        level = list(itertools.chain.from_iterable(level))
    array = np.empty(len(level), kind.dtype)
    if len(level):
        array[:] = _VALUES[kind.dtype.kind](level, kind.dtype)
    return array.reshape(shape)


def _encode_strings(values, dtype):
    return [_encode_string(value) for value in values]


def _encode_string(value):
    if isinstance(value, str):
        try:
            return value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ApiError("JSON Parse error: The surrogate pair in string is invalid.") from error
    if not _is_base64(value):
        raise _make_type_error(value, "string")
    try:
        text = value["b64"]
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ApiError("Unable to base64 decode") from error


def _check_integers(values, dtype):
    limits = np.iinfo(dtype)
    for value in values:
        if type(value) is not int or not limits.min <= value <= limits.max:
            raise _make_type_error(value, dtype.name)
    return values


def _check_floats(values, dtype):
    limits = np.finfo(dtype)
    # like TensorFlow Serving, does not round integers
    largest_integer = 2 ** (limits.nmant + 1) - 1
    for value in values:
        if type(value) not in (int, float):
            raise _make_type_error(value, dtype.name)
        limit = largest_integer if type(value) is int else float(limits.max)
        if abs(value) > limit and value not in (float("inf"), float("-inf")):
            raise ApiError(
                f"Cannot convert JSON value: {shown(value)} to {dtype.name} without loss of "
                "precision."
            )
    return values


def _check_booleans(values, dtype):
    for value in values:
        if not isinstance(value, bool):
            raise _make_type_error(value, "bool")
    return values


_VALUES = {
    "O": _encode_strings,
    "i": _check_integers,
    "u": _check_integers,
    "f": _check_floats,
    "b": _check_booleans,
}
_JSON_TYPES = {str: "String", dict: "Object", list: "Array", bool: "Bool", type(None): "Null"}


def _make_type_error(value, expected):
    kind = _JSON_TYPES.get(type(value), "Number")
    return ApiError(f"JSON Value: {shown(value)} Type: {kind} is not of expected type: {expected}")


# === Responses ===


def write_outputs(outputs: Arrays, by_row: bool, request_id: str | None = None) -> str:
    """Returns the JSON body of a response.

    The body lists `predictions` (one per row) if `by_row` is true, otherwise `outputs` (by name).
    """
    if by_row:
        sizes = {array.shape[:1] for array in outputs.values()}
        if len(sizes) != 1 or () in sizes:
            raise ApiError(
                "The outputs have different batch sizes. Send 'inputs' instead of 'instances'."
            )
    columns = {name: _list_values(name, array) for name, array in sorted(outputs.items())}
    if len(columns) == 1:  # a single output is written without its name
        (values,) = columns.values()
    elif by_row:
        values = [dict(zip(columns, row)) for row in zip(*columns.values())]
    else:
        values = columns
    response = {"predictions" if by_row else "outputs": values}
    if request_id is not None:
        response["request_id"] = request_id
    return json.dumps(response, ensure_ascii=False)


def write_error(message: str) -> str:
    # JSON may contain half of a surrogate pair
    return json.dumps({"error": message.encode("utf-8", "replace").decode()}, ensure_ascii=False)


def _list_values(name, array):
    """Converts an array to nested lists of JSON values. A float32 of 0.1 is written as 0.1."""
    if array.dtype.kind == "O":
        to_json = _encode_base64 if name.endswith("_bytes") else _decode_text
        values = np.array([to_json(value) for value in array.ravel()], object)
        return values.reshape(array.shape).tolist()
    if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        if array.dtype != np.float64:
            array = array.astype("float32").astype("U").astype("float64")
    return array.tolist()


def _decode_text(value):
    return value.decode("utf-8", "replace")


def _encode_base64(value):
    return {"b64": base64.b64encode(value).decode()}
