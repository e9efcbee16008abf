"""A loaded SavedModel."""

import contextlib
import dataclasses
import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.json_format import MessageToDict

from keras_bert_impl.serving.graph_operations import read_graph
from keras_bert_impl.serving.server.wire import STATUS, ApiError, Arrays, Input, write_outputs
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import parse_config, read_text

with contextlib.suppress(ImportError, tf.errors.NotFoundError):
    import tensorflow_text  # noqa: F401, registers the operations of tokenizers

WARMUP = "assets.extra/tf_serving_warmup_requests"
_NUMBERS = itertools.count()


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits for clients.

    Attributes:
        max_batch: maximum number of rows in a batch. Larger requests are run in several batches.
        batch_timeout: seconds that a request waits for other requests.
        max_rows: maximum rows per request.
        max_bytes: maximum bytes per request. The limit for all running requests together is 16
            times `max_bytes`.
        max_waiting: maximum number of requests in the queue.
        max_connections: maximum number of open connections.
        seconds: maximum seconds from the end of a request to the response.
        client_seconds: maximum seconds for a client to send a request or receive a response. Idle
            connections are closed after this time.
        stop_seconds: maximum seconds to finish running requests when the server is stopped.
        cache_bytes: maximum memory of cached responses; 0 for no cache.
    """

    max_batch: int = 32
    batch_timeout: float = 0.002
    max_rows: int = 1024
    max_bytes: int = 4 << 20
    max_waiting: int = 256
    max_connections: int = 512
    seconds: float = 30.0
    client_seconds: float = 30.0
    stop_seconds: int = 30
    cache_bytes: int = 0


class Signature:
    def __init__(self, function: Any) -> None:
        self.number = next(_NUMBERS)  # A reloaded version gets a new number.
        self._function = function
        self._specs = function.structured_input_signature[1]
        self.inputs = {name: _describe_input(self._specs[name]) for name in sorted(self._specs)}
        shapes = [spec.shape.as_list() for spec in function.structured_outputs.values()]
        self._shapes = dict(zip(function.structured_outputs, shapes))

    def __call__(self, arrays: Arrays) -> Arrays:
        try:
            tensors = {n: tf.constant(array, self._specs[n].dtype) for n, array in arrays.items()}
            return {name: output.numpy() for name, output in self._function(**tensors).items()}
        except tf.errors.OpError as error:
            raise _convert_error(error) from error
        except (TypeError, ValueError) as error:
            raise ApiError(_extract_cause(str(error))) from error

    def example(self) -> Arrays:
        """Returns inputs of one row: zeros and empty strings."""
        return {
            name: np.full([size or 1 for size in shape], b"" if dtype.kind == "O" else 0, dtype)
            for name, (dtype, shape) in self.inputs.items()
        }

    @property
    def outputs(self) -> set[str]:
        return set(self._shapes)

    @property
    def mask(self) -> str | None:
        """Name of the padding mask among the inputs, if any."""
        return next((name for name in ("padding_mask", "input_mask") if name in self.inputs), None)

    @property
    def is_by_row(self) -> bool:
        """Whether every output has one row for each input row."""
        return all(shape[:1] == [None] for shape in self._shapes.values())

    @property
    def varying(self) -> list[str]:
        """Names of the outputs whose length depends on the longest text in the batch."""
        return [name for name, shape in self._shapes.items() if None in shape[1:]]

    @property
    def counter(self) -> str | None:
        """Name of the output with the length of each row, without padding, for `varying` outputs."""
        counters = [name for name in self._shapes if name.startswith("num_")]
        is_simple = all(None not in self._shapes[name][2:] for name in self.varying)
        return counters[0] if len(counters) == 1 and is_simple else None


class Description(NamedTuple):
    """What the files of an export describe, without loading the model.

    Attributes:
        signatures: definitions by name, with `inputs` and `outputs`.
        decisions: labels and thresholds, if the model has them.
        columns: text and label columns of the training set, if known.
    """

    signatures: Any
    decisions: dict[str, Any]
    columns: dict[str, str]


# type of the content of each file, and of its values
_EXTRA: dict[str, tuple[type, Any, str]] = {
    "labels": (list, str, "a list of labels"),
    "thresholds": (dict, (int, float), "an object of labels and numbers"),
    "columns": (dict, str, "an object of strings"),
}


def read_description(
    directory: Path, trust_graph: bool = False, root: Path | None = None
) -> Description:
    """Reads the description of an export; raises `ApiError` if `read_graph` or a file fails."""
    try:
        signatures = read_graph(directory, trust_graph, root).meta_graphs[0].signature_def
    except InputError as error:
        raise ApiError(str(error), "DATA_LOSS") from error
    extra: dict[str, Any] = {}
    for name in _EXTRA:
        path = directory / f"assets.extra/{name}.json"
        if path.exists():
            extra[name] = _read_content(path)
    columns = extra.pop("columns", {})
    return Description(signatures, extra, columns)


def _read_content(path):
    kind, kind_of_values, description = _EXTRA[path.stem]
    try:
        content = parse_config(read_text(path), path)
    except InputError as error:
        raise ApiError(str(error), "DATA_LOSS") from error
    values = content.values() if isinstance(content, dict) else content
    if not (
        content
        and isinstance(content, kind)
        and all(isinstance(value, kind_of_values) for value in values)
    ):
        raise ApiError(f"{path} is damaged: it must contain {description}.", "DATA_LOSS")
    return content


class Model:
    """A loaded version of a model."""

    def __init__(
        self, directory: Path, version: int, description: Description | None = None
    ) -> None:
        self.version = version
        description = description or read_description(directory)
        self.definitions, self.decisions, self.columns = description
        self._loaded = tf.saved_model.load(str(directory))
        self.signatures = {
            name: Signature(function) for name, function in self._loaded.signatures.items()
        }
        if not self.signatures:
            raise ApiError("the SavedModel has no signatures.", "FAILED_PRECONDITION")
        self.metadata = {
            name: MessageToDict(
                self.definitions[name],
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
            for name in sorted(self.signatures)
        }
        requests = _read_warmup_requests(directory / WARMUP)
        requests += [
            (name, signature.example())
            for name, signature in self.signatures.items()
            if name not in dict(requests)
        ]
        for name, arrays in requests:
            if name in self.signatures:
                outputs = self.signatures[name](arrays)
                write_outputs(outputs, by_row=False)
                self._check_labels(outputs, directory)

    def _check_labels(self, outputs, directory):
        """Raises `ApiError` if the labels of a classifier differ from `labels.json`."""
        labels = self.decisions.get("labels")
        if labels is None or not {"label", "scores"} <= outputs.keys():
            return
        predicted = {label.decode("utf-8", "replace") for label in outputs["label"].ravel()}
        if outputs["scores"].shape[-1] != len(labels) or not predicted <= set(labels):
            path = directory / "assets.extra/labels.json"
            raise ApiError(f"{path} does not contain the labels of the model.", "DATA_LOSS")

    def signature(self, name: str) -> Signature:
        if name not in self.signatures:
            raise ApiError(f'Serving signature name: "{name}" not found in signature def')
        return self.signatures[name]


def _describe_input(spec):
    dtype = np.dtype(object) if spec.dtype == tf.string else np.dtype(spec.dtype.as_numpy_dtype)
    return Input(dtype, tuple(spec.shape.as_list()))


def load(directory: Path, version: int, description: Description | None = None) -> Model:
    """Loads a version and runs its warm-up requests.

    Args:
        description: return value of `read_description`, which checks the operations of the graph.
            By default, it is read with the check of operations.
    """
    try:
        return Model(directory, version, description)
    except Exception as error:  # TensorFlow raises many types of errors for invalid files
        failure = error if isinstance(error, ApiError) else _convert_error(error)
        place = "" if str(directory) in str(failure) else f"{directory}: "
        raise ApiError(f"{place}{failure}", failure.code) from error


def _convert_error(error):
    """Converts an error of TensorFlow, such as `NotFoundError`, to an `ApiError`."""
    name = type(error).__name__
    if isinstance(error, tf.errors.OpError):
        code = re.sub("(?<=[a-z])(?=[A-Z])", "_", name.removesuffix("Error")).upper()
        return ApiError(_extract_cause(error.message), code if code in STATUS else "UNKNOWN")
    message = f"{name}: {_extract_cause(str(error))}"
    if "Op type not registered 'Fast" in message:
        message = (
            "the SavedModel uses operations of tensorflow-text, which cannot be imported. "
            "Install tensorflow-text, or export with --no-custom-ops."
        )
    return ApiError(message, "UNKNOWN")


def _extract_cause(message):
    """Returns the cause from a TensorFlow error message, without node names and stack traces."""
    lines = message.split("\n\t [[")[0].strip().splitlines() or ["the model failed"]
    # removes a hint of TensorFlow
    lines = [line for line in lines if "experimental_io_device" not in line] or lines
    text = re.sub(r"^\s*\(\d+\) [A-Z_]+:\s*", "", lines[-1]).split(" [Op:")[0]
    return text[:500].strip()


# === Warm-up requests ===


def _read_warmup_requests(path):
    """Returns the (signature, inputs) of the warm-up file; an empty list if the file is missing."""
    try:
        records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator() if path.exists() else ()
        return list(map(read_warmup, records))
    except Exception as error:  # Invalid bytes raise many types of errors.
        raise ApiError(f"{path} is damaged: {type(error).__name__}.", "DATA_LOSS") from error


def read_warmup(record: bytes) -> tuple[str, Arrays]:
    """Parses a serialized `PredictionLog`. Returns (signature, inputs)."""
    log = dict(_iterate_fields(record))[6]  # predict_log
    signature, inputs = "serving_default", {}
    for number, content in _iterate_fields(dict(_iterate_fields(log))[1]):  # request
        if number == 1:  # model_spec
            signature = dict(_iterate_fields(content)).get(3, b"serving_default").decode()
        elif number == 2:  # inputs
            entry = dict(_iterate_fields(content))
            tensor = tf.make_tensor_proto(0)
            tensor.ParseFromString(entry[2])
            if math.prod(dim.size for dim in tensor.tensor_shape.dim) > Limits.max_bytes:
                raise ValueError("too many values")  # A small record may contain one to repeat.
            inputs[entry[1].decode()] = tf.make_ndarray(tensor)
    return signature, inputs


def _iterate_fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yields (field number, content) of a serialized protocol buffer."""
    position = 0
    while position < len(message):
        tag, position = _decode_number(message, position)
        if tag & 7 == 0:
            content, position = _decode_number(message, position)
        else:
            size = {1: 8, 5: 4}.get(tag & 7)
            if size is None:
                size, position = _decode_number(message, position)
            content, position = message[position : position + size], position + size
        yield tag >> 3, content


def _decode_number(message, position):
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position
