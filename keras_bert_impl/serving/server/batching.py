"""Batching of requests: the queue, and the thread that runs it."""

import collections
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future

import numpy as np

from keras_bert_impl.serving.server.model import Signature
from keras_bert_impl.serving.server.wire import ApiError, Arrays


class Request:
    def __init__(self, signature: Signature, arrays: Arrays, expires: float) -> None:
        self.signature = signature
        self.arrays = arrays
        self.expires = expires
        self.arrived = time.monotonic()
        self.future: Future[Arrays] = Future()
        self.num_rows = _count_rows(arrays)
        self.key = batch_key(signature, arrays)


def batch_key(signature: Signature, arrays: Arrays) -> Hashable:
    """Returns a key: requests with equal keys can be in one batch.

    Returns None for a request that must be a separate batch.
    """
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
    # Requests may have different lengths.
    cut = -1 if signature.mask and not signature.varying else None
    return signature.number, tuple(shape[1:cut] for shape in shapes)


class Batcher:
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
        return len(self._queue)

    def submit(self, signature: Signature, arrays: Arrays, expires: float) -> "Future[Arrays]":
        request = Request(signature, arrays, expires)
        with self._changed:
            if len(self._queue) >= self._max_waiting or self._stopped:
                raise ApiError("The server is busy: the queue is full.", "UNAVAILABLE")
            self._queue.append(request)
            self._changed.notify()
        return request.future

    def stop(self, seconds: float) -> bool:
        """Runs the queued requests, then stops. Returns False if still running after `seconds`."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self):
        while batch := self._wait_for_batch():
            now = time.monotonic()
            batch = [
                request
                for request in batch
                if request.expires > now and request.future.set_running_or_notify_cancel()
            ]
            if batch:
                self.busy_since = now
                self._run_batch(batch)
                self.busy_since = None

    def _wait_for_batch(self):
        """Waits for requests and returns a batch; an empty list if the batcher is stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stopped)
            if not self._queue:
                return []
            first = self._queue[0]
            while True:
                batch = self._find_joinable(first)
                is_full = sum(request.num_rows for request in batch) >= self._max_rows
                seconds = first.arrived + self._timeout - time.monotonic()
                if is_full or seconds <= 0 or first.key is None or self._stopped:
                    break
                self._changed.wait(seconds)
            for request in batch:
                self._queue.remove(request)
        return batch

    def _find_joinable(self, first):
        """Returns the first request and the queued requests that fit into one batch with it."""
        batch, rows = [first], first.num_rows
        for request in list(self._queue)[1:] if first.key is not None else ():
            if request.key == first.key and rows + request.num_rows <= self._max_rows:
                batch.append(request)
                rows += request.num_rows
        return batch

    def _run_batch(self, batch):
        """Runs a batch. If the batch fails, runs each request separately."""
        try:
            outputs = run_joined(batch) if len(batch) > 1 else [self._run_in_parts(batch[0])]
        except Exception as error:  # The thread must continue after any error of the model.
            if len(batch) > 1:
                for request in batch:
                    self._run_batch([request])
                return
            if not isinstance(error, ApiError):
                error = ApiError(f"the model failed: {type(error).__name__}", "INTERNAL")
            batch[0].future.set_exception(error)
            return
        if len(batch) > 1:
            self._observe(sum(request.num_rows for request in batch))
        for request, answer in zip(batch, outputs):
            request.future.set_result(answer)

    def _run_in_parts(self, request):
        """Runs a request in batches of up to `max_rows`, which limits the memory that it takes."""
        whole, answers = [request.arrays], []
        for part in split(request.arrays, self._max_rows) if request.key is not None else whole:
            if answers and request.expires <= time.monotonic():
                raise ApiError("The model took too long.", "DEADLINE_EXCEEDED")
            answers.append(request.signature(part))
            self._observe(_count_rows(part))
        return join(answers)


def run_joined(batch: list[Request]) -> list[Arrays]:
    """Runs requests with equal keys as one batch. Returns the outputs of each request."""
    signature = batch[0].signature
    outputs = signature(join([request.arrays for request in batch]))
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


def _count_rows(arrays):
    return max((len(array) for array in arrays.values() if array.ndim), default=1)


def split(arrays: Arrays, size: int) -> list[Arrays]:
    """Splits arrays along the batch into parts of up to `size` rows."""
    return [
        {name: array[start : start + size] for name, array in arrays.items()}
        for start in range(0, _count_rows(arrays), size)
    ]


def join(parts: list[Arrays]) -> Arrays:
    """Concatenates arrays along the batch. Pads other dimensions with 0 or the empty string."""
    if len(parts) == 1:
        return parts[0]
    return {name: _concatenate([part[name] for part in parts]) for name in parts[0]}


def _concatenate(arrays):
    sizes = np.max([array.shape[1:] for array in arrays], axis=0)
    if any((sizes != array.shape[1:]).any() for array in arrays):
        empty = b"" if arrays[0].dtype.kind == "O" else 0
        widths = [[(0, 0), *((0, n) for n in sizes - array.shape[1:])] for array in arrays]
        arrays = [np.pad(a, w, constant_values=empty) for a, w in zip(arrays, widths)]
    return np.concatenate(arrays)
