"""JSON of TensorFlow Serving's REST API, to and from NumPy arrays.

Source: https://www.tensorflow.org/tfx/serving/api_rest, and `util/json_tensor.cc` of TensorFlow
Serving for what that page leaves open: which values a tensor takes, and how numbers are written.
"""

import base64
import binascii
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.io.errors import InputError, shown
from keras_bert_impl.io.reading import parse_json

Arrays = dict[str, np.ndarray]  # str tensors are object arrays of bytes

# Codes of `tensorflow::Status`, and the HTTP status that TensorFlow Serving answers with.
STATUS = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNKNOWN": 500,
    "DATA_LOSS": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


class ApiError(Exception):
    """A request that is answered with an error."""

    def __init__(
        self, message: str, code: str = "INVALID_ARGUMENT", status: int | None = None
    ) -> None:
        super().__init__(message[:1000])
        self.code = code
        self.status = status or STATUS[code]


class Input(NamedTuple):
    """An input of a signature; sizes of `shape` may be None."""

    dtype: np.dtype  # object for strings
    shape: tuple[int | None, ...]


class PredictRequest(NamedTuple):
    """The body of a `:predict` request; `by_row` for `instances`, not `inputs`."""

    signature: str
    values: Any
    by_row: bool


# === Requests ===


def parse_request(body: bytes) -> PredictRequest:
    """Parses the body of a `:predict` request."""
    request, signature = _parse_object(body)
    keys = request.keys() & {"instances", "inputs"}
    if len(keys) != 1:
        raise ApiError(
            "Expecting only one of 'inputs' or 'instances' keys to exist."
            if keys
            else "Missing 'inputs' or 'instances' key"
        )
    (key,) = keys
    return PredictRequest(signature, request[key], key == "instances")


def parse_examples(body: bytes, method: str) -> str:
    """Returns the signature of a `:classify` or `:regress` request."""
    request, signature = _parse_object(body)
    if not isinstance(request.get("examples"), list) or not request["examples"]:
        raise ApiError(
            f"When method is {method}, key 'examples' is expected, with a list of at least one "
            "element."
        )
    return signature


def _parse_object(body):
    """Returns (request, name of its signature)."""
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
    return request, signature or "serving_default"


def read_inputs(request: PredictRequest, inputs: Mapping[str, Input], max_rows: int) -> Arrays:
    """Converts a request to the inputs of its signature."""
    columns = (_columns_of_rows if request.by_row else _columns)(request.values, inputs)
    for name, column in columns.items():
        if isinstance(column, list) and len(column) > max_rows:
            raise ApiError(
                f"Input {shown(name)} has {len(column)} rows; this server takes up to {max_rows} "
                "in a request. Send several requests."
            )
    return {name: _array(name, columns[name], kind) for name, kind in inputs.items()}


def _columns_of_rows(rows, inputs):
    """Returns the values of `instances` by input."""
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


def _columns(values, inputs):
    """Returns the values of `inputs` by input."""
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


def _array(name, value, kind):
    """Converts nested lists to an array of the input's dtype and shape."""
    shape, inner = [], value
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    # An empty list may stand for an empty batch of rows of any rank.
    shape += [0] * (len(kind.shape) - len(shape)) if shape and inner is None else []
    fits = len(shape) == len(kind.shape) and all(
        wanted in (None, size) for size, wanted in zip(shape, kind.shape)
    )
    if not fits:
        wanted = ",".join("?" if size is None else str(size) for size in kind.shape)
        raise ApiError(f"Input {shown(name)} must have the shape [{wanted}]. Received: {shape}")
    level = [value]
    for size in shape:
        for part in level:
            if not isinstance(part, list) or len(part) != size:
                raise ApiError(
                    f"Input {shown(name)}: all lists of a level must have the same size. "
                    f"Expected {size} elements, received: {shown(part)}"
                )
        level = list(itertools.chain.from_iterable(level))
    array = np.empty(len(level), kind.dtype)
    if len(level):
        array[:] = _VALUES[kind.dtype.kind](level, kind.dtype)
    return array.reshape(shape)


def _strings(values, dtype):
    return [_bytes_of(value) for value in values]


def _bytes_of(value):
    if isinstance(value, str):
        try:
            return value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ApiError("JSON Parse error: The surrogate pair in string is invalid.") from error
    if not _is_base64(value):
        raise _type_error(value, "string")
    try:
        text = value["b64"]
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ApiError("Unable to base64 decode") from error


def _integers(values, dtype):
    limits = np.iinfo(dtype)
    for value in values:
        if type(value) is not int or not limits.min <= value <= limits.max:
            raise _type_error(value, dtype.name)
    return values


def _floats(values, dtype):
    limits = np.finfo(dtype)
    largest_integer = 2 ** (limits.nmant + 1) - 1  # TensorFlow Serving refuses to round integers
    for value in values:
        if type(value) not in (int, float):
            raise _type_error(value, dtype.name)
        limit = largest_integer if type(value) is int else float(limits.max)
        if abs(value) > limit and value not in (float("inf"), float("-inf")):
            raise ApiError(
                f"Cannot convert JSON value: {shown(value)} to {dtype.name} without loss of "
                "precision."
            )
    return values


def _booleans(values, dtype):
    for value in values:
        if not isinstance(value, bool):
            raise _type_error(value, "bool")
    return values


_VALUES = {"O": _strings, "i": _integers, "u": _integers, "f": _floats, "b": _booleans}
_JSON_TYPES = {str: "String", dict: "Object", list: "Array", bool: "Bool", type(None): "Null"}


def _type_error(value, wanted):
    kind = _JSON_TYPES.get(type(value), "Number")
    return ApiError(f"JSON Value: {shown(value)} Type: {kind} is not of expected type: {wanted}")


# === Responses ===


def write_outputs(outputs: Arrays, by_row: bool) -> str:
    """Returns the body of a response, in rows (`predictions`) or columns (`outputs`)."""
    texts = {name: iter(_json_values(name, outputs[name])) for name in sorted(outputs)}
    if not by_row:
        columns = {n: _spread(texts[n], outputs[n].shape, 4 * (len(texts) > 1)) for n in texts}
        return _object(
            {"outputs": _object(columns, 4) if len(columns) > 1 else columns.popitem()[1]}
        )
    sizes = {array.shape[:1] for array in outputs.values()}
    if len(sizes) != 1 or () in sizes:
        raise ApiError("The outputs have no common batch size: send 'inputs', not 'instances'.")
    ((num_rows,),) = sizes
    if len(outputs) == 1:
        ((name, values),) = texts.items()
        rows = ", ".join(_compact(values, outputs[name].shape[1:]) for _ in range(num_rows))
    else:
        objects = (
            _object({n: _compact(texts[n], outputs[n].shape[1:]) for n in texts}, 8)
            for _ in range(num_rows)
        )
        rows = ",".join(f"\n        {row}" for row in objects)
    return _object({"predictions": f"[{rows}\n    ]" if num_rows else "[]"})


def write_error(message: str) -> str:
    """Returns the body of a response with an error."""
    readable = message.encode("utf-8", "replace").decode()  # JSON may hold half a surrogate pair
    return _object({"error": json.dumps(readable, ensure_ascii=False)})


def _object(members: Mapping[str, str], indent: int = 0) -> str:
    """Returns a JSON object of values that are JSON, with a member on each line."""
    inner = ",\n".join(f"{' ' * indent}    {json.dumps(n)}: {text}" for n, text in members.items())
    return f"{{\n{inner}\n{' ' * indent}}}"


def _compact(values: Iterator[str], shape: tuple[int, ...]) -> str:
    """Joins the next values to nested lists on one line."""
    if not shape:
        return next(values)
    if len(shape) == 1:
        return f"[{', '.join(itertools.islice(values, shape[0]))}]"
    return f"[{', '.join(_compact(values, shape[1:]) for _ in range(shape[0]))}]"


def _spread(values: Iterator[str], shape: tuple[int, ...], indent: int) -> str:
    """Joins the next values to nested lists with an element on each line."""
    if not shape:
        return next(values)
    if not shape[0]:
        return "[]"
    inside = indent + 4
    parts = (_spread(values, shape[1:], inside) for _ in range(shape[0]))
    lines = ",".join(f"\n    {' ' * inside}{part}" for part in parts)
    return f"[{lines}\n{' ' * inside}]"


def _json_values(name, array):
    """Returns the values of an array as JSON."""
    kind = array.dtype.kind
    flat = array.ravel()
    if kind == "f" or array.dtype.name == "bfloat16":
        return _decimals(flat if array.dtype == np.float64 else flat.astype("float32"))
    if kind == "b":
        return ["true" if value else "false" for value in flat]
    if kind in "iu":
        return map(str, flat.tolist())
    if name.endswith("_bytes"):
        return [f'{{"b64": "{base64.b64encode(value).decode()}"}}' for value in flat]
    return [json.dumps(value.decode("utf-8", "replace"), ensure_ascii=False) for value in flat]


def _decimals(flat):
    """Writes decimals in six digits, in nine or 17 if six lose something, and never as integers."""
    digits = 17 if flat.dtype == np.float64 else 9
    values = flat.tolist()
    texts = [f"{value:.6g}" for value in values]
    with np.errstate(over="ignore"):
        exact = np.array(texts or [0], np.float64).astype(flat.dtype)[: len(flat)] == flat
    for number, is_exact in enumerate(exact.tolist()):
        if not is_exact:
            texts[number] = _NON_FINITE.get(texts[number]) or f"{values[number]:.{digits}g}"
        elif texts[number] in _NON_FINITE:
            texts[number] = _NON_FINITE[texts[number]]
    return [text if set(text) & set(".eNI") else f"{text}.0" for text in texts]


_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
