"""A loaded SavedModel, and batching of requests."""

import collections
import contextlib
import dataclasses
import json
import re
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.json_format import MessageToDict
from tensorflow.core.protobuf import saved_model_pb2

from keras_bert_impl.serving.server.wire import STATUS, ApiError, Arrays, Input

with contextlib.suppress(ImportError, tf.errors.NotFoundError):
    import tensorflow_text  # noqa: F401, registers the operations of tokenizers

WARMUP = "assets.extra/tf_serving_warmup_requests"


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits for clients.

    Attributes:
        max_batch: maximum number of rows in a batch with several requests.
        batch_timeout: seconds that a request waits for other requests.
        max_rows: maximum rows per request.
        max_bytes: maximum bytes per request. All requests together may have 16 times this number.
        max_waiting: maximum number of requests in the queue.
        max_connections: maximum number of open connections.
        seconds: maximum seconds from a request's last byte to its response.
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
    """A signature of a loaded SavedModel."""

    def __init__(self, function: Any, method: str) -> None:
        self._function = function
        self.method = method
        self._specs = function.structured_input_signature[1]
        self.inputs = {name: _input(self._specs[name]) for name in sorted(self._specs)}
        shapes = [spec.shape.as_list() for spec in function.structured_outputs.values()]
        self._shapes = dict(zip(function.structured_outputs, shapes))

    def __call__(self, arrays: Arrays) -> Arrays:
        """Runs the graph."""
        try:
            tensors = {n: tf.constant(array, self._specs[n].dtype) for n, array in arrays.items()}
            return {name: output.numpy() for name, output in self._function(**tensors).items()}
        except tf.errors.OpError as error:
            raise _api_error(error) from error
        except (TypeError, ValueError) as error:
            raise ApiError(_sentence(str(error))) from error

    @property
    def outputs(self) -> set[str]:
        """Names of the outputs."""
        return set(self._shapes)

    @property
    def mask(self) -> str | None:
        """Name of the padding mask among the inputs, if any."""
        return next((name for name in ("padding_mask", "input_mask") if name in self.inputs), None)

    @property
    def is_by_row(self) -> bool:
        """Whether each row of the inputs gives a row of every output."""
        return all(shape[:1] == [None] for shape in self._shapes.values())

    @property
    def varying(self) -> list[str]:
        """Names of the outputs with a second dimension that depends on the batch."""
        return [name for name, shape in self._shapes.items() if None in shape[1:]]

    @property
    def counter(self) -> str | None:
        """Name of the output that contains the second dimension of the `varying` outputs."""
        counters = [name for name in self._shapes if name.startswith("num_")]
        is_simple = all(None not in self._shapes[name][2:] for name in self.varying)
        return counters[0] if len(counters) == 1 and is_simple else None


class Model:
    """A loaded version of a model."""

    def __init__(self, directory: Path, version: int) -> None:
        self.version = version
        message = saved_model_pb2.SavedModel()
        message.ParseFromString((directory / "saved_model.pb").read_bytes())
        self.definitions = message.meta_graphs[0].signature_def
        self._loaded = tf.saved_model.load(str(directory))
        self.signatures = {
            name: Signature(function, self.definitions[name].method_name)
            for name, function in self._loaded.signatures.items()
        }
        extra = {
            name: json.loads(path.read_text("utf-8"))
            for name in ("labels", "thresholds", "columns")
            if (path := directory / f"assets.extra/{name}.json").is_file()
        }
        self.columns: dict[str, str] = extra.pop("columns", {})  # columns of the training set
        self.decisions = extra
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
        """Yields (signature, inputs) of the export, or a row of zeros per signature."""
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
        """Returns a signature by name, or raises an `ApiError`."""
        if name not in self.signatures:
            raise ApiError(f'Serving signature name: "{name}" not found in signature def')
        return self.signatures[name]


def _input(spec):
    dtype = np.dtype(object) if spec.dtype == tf.string else np.dtype(spec.dtype.as_numpy_dtype)
    return Input(dtype, tuple(spec.shape.as_list()))


def load(directory: Path, version: int) -> Model:
    """Loads a version and runs its warm-up requests."""
    try:
        return Model(directory, version)
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
    """Returns the first sentence of a TensorFlow message, without nodes and traces."""
    lines = message.split("\n\t [[")[0].strip().splitlines() or ["the model failed"]
    # a hint of TensorFlow
    lines = [line for line in lines if "experimental_io_device" not in line] or lines
    text = re.sub(r"^\s*\(\d+\) [A-Z_]+:\s*", "", lines[-1]).split(" [Op:")[0]
    return text[:500].strip()


# === Warm-up requests ===


def read_warmup(record: bytes) -> tuple[str, Arrays]:
    """Reads (signature, inputs) from the bytes of a `PredictionLog`; see `prediction_log`."""
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
    """Yields (field number, content) of a protocol buffer. Numbers are bytes."""
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


# === Batches ===


class Request:
    """A waiting request: the inputs of a signature."""

    def __init__(self, signature: Signature, arrays: Arrays, expires: float) -> None:
        self.signature = signature
        self.arrays = arrays
        self.expires = expires
        self.arrived = time.monotonic()
        self.future: Future[Arrays] = Future()
        self.num_rows = max((len(array) for array in arrays.values() if array.ndim), default=1)
        self.key = _key(signature, arrays)


def _key(signature: Signature, arrays: Arrays) -> Hashable:
    """Returns a key; requests with equal keys may share a batch. None: no sharing."""
    shapes = [array.shape for array in arrays.values()]
    # The model rejects inputs of different sizes, but could not detect them in a batch of requests.
    if any(0 in shape or shape[:1] != shapes[0][:1] for shape in shapes) or not shapes[0]:
        return None
    if not signature.is_by_row:
        return None
    if signature.varying:
        has_strings = all(dtype.kind == "O" for dtype, _ in signature.inputs.values())
        if signature.counter is None or not has_strings:
            return None
    cut = -1 if signature.mask and not signature.varying else None  # the lengths may differ
    return id(signature), tuple(shape[1:cut] for shape in shapes)


class Batcher:
    """Queue of requests, and the thread that runs them."""

    def __init__(
        self, max_rows: int, timeout: float, max_waiting: int, observe: Callable[[int], None]
    ) -> None:
        self._max_rows = max_rows
        self._timeout = timeout
        self._max_waiting = max_waiting
        self._observe = observe
        self._queue: collections.deque[Request] = collections.deque()
        self._changed = threading.Condition()
        self._stopped = False
        self.busy_since: float | None = None  # requests of the running batch
        self._thread = threading.Thread(target=self._run, name="batches", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """Number of waiting requests."""
        return len(self._queue)

    def submit(self, signature: Signature, arrays: Arrays, expires: float) -> "Future[Arrays]":
        """Adds a request to the queue."""
        request = Request(signature, arrays, expires)
        with self._changed:
            if len(self._queue) >= self._max_waiting or self._stopped:
                raise ApiError("The server is busy: the queue is full.", "UNAVAILABLE")
            self._queue.append(request)
            self._changed.notify()
        return request.future

    def stop(self, seconds: float) -> bool:
        """Finishes waiting requests. Returns whether the thread ended in time."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self):
        while batch := self._next_batch():
            now = time.monotonic()
            batch = [
                request
                for request in batch
                if request.expires > now and request.future.set_running_or_notify_cancel()
            ]
            if batch:
                self.busy_since = now
                self._answer(batch)
                self.busy_since = None

    def _next_batch(self):
        """Waits for requests; returns a list, which is empty if the batcher is stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stopped)
            if not self._queue:
                return []
            first = self._queue[0]
            while True:
                batch = self._joinable(first)
                is_full = sum(request.num_rows for request in batch) >= self._max_rows
                left = first.arrived + self._timeout - time.monotonic()
                if is_full or left <= 0 or first.key is None or self._stopped:
                    break
                self._changed.wait(left)
            for request in batch:
                self._queue.remove(request)
        return batch

    def _joinable(self, first):
        """Returns the first request and the queued requests that fit into the same batch."""
        batch, rows = [first], first.num_rows
        for request in list(self._queue)[1:] if first.key is not None else ():
            if request.key == first.key and rows + request.num_rows <= self._max_rows:
                batch.append(request)
                rows += request.num_rows
        return batch

    def _answer(self, batch):
        """Runs a batch. After an error, runs each request separately."""
        try:
            outputs = run_joined(batch)
        except Exception as error:  # The thread must continue after any error of the model.
            if len(batch) > 1:
                for request in batch:
                    self._answer([request])
                return
            if not isinstance(error, ApiError):
                error = ApiError(f"the model failed: {type(error).__name__}", "INTERNAL")
            batch[0].future.set_exception(error)
            return
        self._observe(sum(request.num_rows for request in batch))
        for request, answer in zip(batch, outputs):
            request.future.set_result(answer)


def run_joined(batch: list[Request]) -> list[Arrays]:
    """Runs requests with the same key as one batch. Returns their outputs."""
    signature = batch[0].signature
    if len(batch) == 1:
        return [signature(batch[0].arrays)]
    outputs = signature(
        {name: _stack([r.arrays[name] for r in batch]) for name in signature.inputs}
    )
    ends = np.cumsum([request.num_rows for request in batch])
    if any(array.shape[:1] != (ends[-1],) for array in outputs.values()):
        raise ApiError(
            "the number of rows of an output differs from the number of input rows.", "INTERNAL"
        )
    answers = []
    for request, end in zip(batch, ends):
        rows = slice(end - request.num_rows, end)
        answer = {name: array[rows] for name, array in outputs.items()}
        if signature.varying:
            most = answer[signature.counter].max()
            answer |= {name: answer[name][:, :most] for name in signature.varying}
        answers.append(answer)
    return answers


def _stack(arrays):
    """Concatenates arrays along the batch. Pads the last dimension with 0."""
    if len({array.shape[1:] for array in arrays}) > 1:
        longest = max(array.shape[-1] for array in arrays)
        arrays = [
            np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, longest - array.shape[-1])])
            for array in arrays
        ]
    return np.concatenate(arrays)
