"""A loaded SavedModel."""

import contextlib
import dataclasses
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.json_format import MessageToDict

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.reading import parse_config, read_text
from keras_bert_impl.serving.graph_operations import read_graph
from keras_bert_impl.serving.server.wire import STATUS, ApiError, Arrays, Input

with contextlib.suppress(ImportError, tf.errors.NotFoundError):
    import tensorflow_text  # noqa: F401, registers the operations of tokenizers

WARMUP = "assets.extra/tf_serving_warmup_requests"
_NUMBERS = itertools.count()


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits for clients.

    Attributes:
        max_batch: maximum number of rows in a batch of several requests.
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
    def __init__(self, function: Any, method: str) -> None:
        self.number = next(_NUMBERS)  # A reloaded version gets a new number.
        self._function = function
        self.method = method
        self._specs = function.structured_input_signature[1]
        self.inputs = {name: _input(self._specs[name]) for name in sorted(self._specs)}
        shapes = [spec.shape.as_list() for spec in function.structured_outputs.values()]
        self._shapes = dict(zip(function.structured_outputs, shapes))

    def __call__(self, arrays: Arrays) -> Arrays:
        try:
            tensors = {n: tf.constant(array, self._specs[n].dtype) for n, array in arrays.items()}
            return {name: output.numpy() for name, output in self._function(**tensors).items()}
        except tf.errors.OpError as error:
            raise _api_error(error) from error
        except (TypeError, ValueError) as error:
            raise ApiError(_sentence(str(error))) from error

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


_EXTRA = {"labels": list, "thresholds": dict, "columns": dict}  # type of the content of each file


def read_description(
    directory: Path, trust_graph: bool = False, root: Path | None = None
) -> Description:
    """Reads the description of an export; raises `ApiError` if `read_graph` or a file fails."""
    try:
        signatures = read_graph(directory, trust_graph, root).meta_graphs[0].signature_def
    except InputError as error:
        raise ApiError(str(error), "DATA_LOSS") from error
    extra: dict[str, Any] = {}
    for name, kind in _EXTRA.items():
        path = directory / f"assets.extra/{name}.json"
        if path.is_file():
            extra[name] = _content(path, kind)
    columns = extra.pop("columns", {})
    return Description(signatures, extra, columns)


def _content(path, kind):
    try:
        content = parse_config(read_text(path), path)
    except InputError as error:
        raise ApiError(f"{path} is damaged: {error}", "DATA_LOSS") from error
    values = content.values() if isinstance(content, dict) else content
    allowed = (int, float) if path.stem == "thresholds" else str
    if not isinstance(content, kind) or not all(isinstance(value, allowed) for value in values):
        raise ApiError(f"{path} is damaged: its content is not as exported.", "DATA_LOSS")
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
            name: Signature(function, self.definitions[name].method_name)
            for name, function in self._loaded.signatures.items()
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
        for signature, arrays in self._warmup_requests(directory / WARMUP):
            if signature in self.signatures:
                self.signatures[signature](arrays)

    def _warmup_requests(self, path):
        """Yields warm-up requests as (signature, inputs).

        If the export has no warm-up file, the inputs are zeros and empty strings.
        """
        if path.is_file():
            for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
                yield read_warmup(record)
            return
        for name, signature in self.signatures.items():
            yield (
                name,
                {
                    key: np.full(
                        [size or 1 for size in shape], b"" if dtype.kind == "O" else 0, dtype
                    )
                    for key, (dtype, shape) in signature.inputs.items()
                },
            )

    def signature(self, name: str) -> Signature:
        if name not in self.signatures:
            raise ApiError(f'Serving signature name: "{name}" not found in signature def')
        return self.signatures[name]


def _input(spec):
    dtype = np.dtype(object) if spec.dtype == tf.string else np.dtype(spec.dtype.as_numpy_dtype)
    return Input(dtype, tuple(spec.shape.as_list()))


def load(
    directory: Path, version: int, trust_graph: bool = False, root: Path | None = None
) -> Model:
    """Loads a version and runs its warm-up requests; see `read_graph` for the arguments."""
    try:
        return Model(directory, version, read_description(directory, trust_graph, root))
    except ApiError:
        raise
    except tf.errors.OpError as error:
        raise _api_error(error) from error
    except Exception as error:  # TensorFlow raises many types of errors for invalid files
        message = f"{type(error).__name__}: {_sentence(str(error))}"
        if "Op type not registered 'Fast" in message:
            message = (
                "the SavedModel uses operations of tensorflow-text, which cannot be imported. "
                "Install tensorflow-text, or export with --no-custom-ops."
            )
        raise ApiError(message, "UNKNOWN") from error


def _api_error(error):
    """Converts a TensorFlow error, such as `NotFoundError`, to an `ApiError`."""
    name = type(error).__name__.removesuffix("Error")
    code = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).upper()
    return ApiError(_sentence(error.message), code if code in STATUS else "UNKNOWN")


def _sentence(message):
    """Returns the cause from a TensorFlow error message, without node names and stack traces."""
    lines = message.split("\n\t [[")[0].strip().splitlines() or ["the model failed"]
    # removes a hint of TensorFlow
    lines = [line for line in lines if "experimental_io_device" not in line] or lines
    text = re.sub(r"^\s*\(\d+\) [A-Z_]+:\s*", "", lines[-1]).split(" [Op:")[0]
    return text[:500].strip()


# === Warm-up requests ===


def read_warmup(record: bytes) -> tuple[str, Arrays]:
    """Parses a serialized `PredictionLog`. Returns (signature, inputs)."""
    log = dict(_fields(record))[6]  # predict_log
    signature, inputs = "serving_default", {}
    for number, content in _fields(dict(_fields(log))[1]):  # request
        if number == 1:  # model_spec
            signature = dict(_fields(content)).get(3, b"serving_default").decode()
        elif number == 2:  # inputs
            entry = dict(_fields(content))
            tensor = tf.make_tensor_proto(0)
            tensor.ParseFromString(entry[2])
            inputs[entry[1].decode()] = tf.make_ndarray(tensor)
    return signature, inputs


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yields (field number, content) of a serialized protocol buffer."""
    position = 0
    while position < len(message):
        tag, position = _number(message, position)
        if tag & 7 == 0:
            content, position = _number(message, position)
        else:
            size = {1: 8, 5: 4}.get(tag & 7)
            if size is None:
                size, position = _number(message, position)
            content, position = message[position : position + size], position + size
        yield tag >> 3, content


def _number(message, position):
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position
