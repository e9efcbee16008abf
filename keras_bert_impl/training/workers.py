"""Multi-worker runs: parses `TF_CONFIG` and checks that the workers are reachable."""

import contextlib
import dataclasses
import faulthandler
import functools
import json
import logging
import math
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.reading import parse_json_line

_LOG = logging.getLogger(__name__)
TIMEOUT = "KERAS_BERT_WORKER_TIMEOUT"
DEFAULT_TIMEOUT = 600  # seconds
_KINDS = ("chief", "worker")
EXAMPLE = (
    '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}'
)
_BETWEEN_SWEEPS = 0.5  # seconds
_KEPT: list[socket.socket] = []  # listeners that stay open to the end of the process


class WorkerLostError(RuntimeError):
    """Another worker of the run has stopped."""


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The contents of `TF_CONFIG`."""

    addresses: dict[str, list[str]]  # `"host:port"` by task type, `"chief"` or `"worker"`
    kind: str  # task type of this process
    index: int  # of this process among those of its type

    @property
    def num_workers(self) -> int:
        return sum(map(len, self.addresses.values()))

    @property
    def is_chief(self) -> bool:
        return (self.kind, self.index) == ("chief" if "chief" in self.addresses else "worker", 0)

    @property
    def own_address(self) -> str:
        return self.addresses[self.kind][self.index]

    @property
    def everyone(self) -> list[str]:
        """The addresses of all workers, the chief's first."""
        return [*self.addresses.get("chief", []), *self.addresses.get("worker", [])]

    @property
    def others(self) -> dict[str, str]:
        """The other tasks' addresses, with their names, such as `"worker 1"`."""
        return {
            address: f"{kind} {index}"
            for kind, addresses in self.addresses.items()
            for index, address in enumerate(addresses)
            if address != self.own_address
        }


# === TF_CONFIG ===


def read_cluster() -> Cluster | None:
    """Reads the `Cluster` from the environment variable `TF_CONFIG`; None if it has no cluster.

    Like TensorFlow's `TFConfigClusterResolver`, this also accepts a string index such as `"0"`.
    Raises `InputError` if `TF_CONFIG` is invalid.
    """
    text = os.environ.get("TF_CONFIG") or "{}"
    config = parse_json_line(text, "the environment variable TF_CONFIG")
    if not isinstance(config, dict):
        raise _error("must be an object", config)
    if config.get("cluster", {}) == {}:
        return None
    addresses = _addresses(config["cluster"])
    kind, index = _task(config.get("task"), addresses)
    return Cluster(addresses, kind, index)


def _addresses(cluster):
    if not isinstance(cluster, dict):
        raise _error("must have an object as its cluster", cluster)
    for kind, addresses in cluster.items():
        if kind not in _KINDS:
            raise _error("must have no task types in its cluster but chief and worker", kind)
        if not isinstance(addresses, list) or not addresses:
            raise _error(f"must have a list of addresses as the {kind} of its cluster", addresses)
        for address in addresses:
            _host_and_port(address)
    everyone = [address for addresses in cluster.values() for address in addresses]
    twice = next((address for address in everyone if everyone.count(address) > 1), None)
    if twice is not None:
        raise _error("must not list an address twice", twice)
    if len(cluster.get("chief", [])) > 1:
        raise _error("must not have more than one chief", cluster["chief"])
    return cluster


def _host_and_port(address):
    """Splits `"host:port"` into (str, int). The host may be an IPv6 address in brackets."""
    if isinstance(address, str):
        found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([\w.-]+)):([0-9]{1,5})", address)
        if found and not address.startswith("-") and 0 < int(found[3]) < 2**16:
            return found[1] or found[2], int(found[3])
    raise _error('must have addresses such as "host1:2222"', address)


def _task(task, addresses):
    if not isinstance(task, dict):
        raise _error("must have an object as its task, naming this process", task)
    kind, index = task.get("type"), task.get("index")
    if not isinstance(kind, str) or kind not in addresses:
        raise _error(f"must have one of {', '.join(addresses)} as the type of its task", kind)
    if isinstance(index, str) and re.fullmatch("[0-9]{1,9}", index):
        index = int(index)
    if type(index) is not int or not 0 <= index < len(addresses[kind]):
        last = len(addresses[kind]) - 1
        raise _error(f"must have an index from 0 to {last} for its task, a {kind}", index)
    return kind, index


def _error(what, received):
    text = json.dumps(received)
    text = text if len(text) < 200 else f"{text[:200]}..."
    return InputError(
        f"the environment variable TF_CONFIG {what}, as in {EXAMPLE}. Received: {text}"
    )


# === Reachability of the other workers ===


def wait_for_workers(cluster: Cluster) -> None:
    """Waits until every other worker listens at its address. This one listens at its own meanwhile.

    TensorFlow's own wait cannot be interrupted by SIGTERM or Ctrl-C.

    Raises:
        InputError: a worker does not listen within `worker_timeout()` seconds, or this worker's
            port cannot be used.
    """
    with _listener(cluster) as listener:
        _wait(cluster, listener)


def _wait(cluster, listener):
    timeout = worker_timeout()
    begin = time.monotonic()
    next_report = begin + 5
    while missing := _missing(cluster):
        now = time.monotonic()
        if now - begin > timeout:
            raise InputError(
                f"{_named(missing)} did not start within {timeout:g} seconds. Start the same "
                "command there, with that worker's task in TF_CONFIG, or wait longer with "
                f"--worker-timeout or {TIMEOUT}."
            )
        if now > next_report:
            _LOG.warning("waiting for %s", _named(missing))
            next_report = now + 60
        _accept_for(_BETWEEN_SWEEPS, listener)


def join_jax(cluster: Cluster) -> None:
    """Waits for the other workers and connects with them by `jax.distributed`.

    The chief's address becomes that of JAX's coordinator. The others go on listening at theirs, as
    TensorFlow's servers do: a worker that has not seen them yet still can, and `reports_lost_workers`
    can tell which one has stopped.

    Raises:
        InputError: see `wait_for_workers`.
        RuntimeError: JAX has already started its devices.
    """
    import jax

    listener = _listener(cluster)
    _wait(cluster, listener)
    if cluster.is_chief:
        listener.close()
    else:
        _KEPT.append(listener)
    with connecting():
        jax.distributed.initialize(
            coordinator_address=cluster.everyone[0],
            num_processes=cluster.num_workers,
            process_id=cluster.everyone.index(cluster.own_address),
            initialization_timeout=math.ceil(worker_timeout()),
        )


def worker_timeout() -> float:
    """Returns the seconds that workers wait for each other.

    They are read from the environment variable `KERAS_BERT_WORKER_TIMEOUT`, default 600. Raises
    `InputError` if it is not a number in (0, 1000000].
    """
    text = os.environ.get(TIMEOUT) or str(DEFAULT_TIMEOUT)
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not 0 < seconds <= 1e6:
        raise InputError(
            f"the environment variable {TIMEOUT} must be a number of seconds above 0, up to "
            f"1000000. Received: {text!r}"
        )
    return seconds


@contextlib.contextmanager
def connecting() -> Iterator[None]:
    """Context in which TensorFlow or JAX connects workers that have all answered.

    If this takes longer than `worker_timeout()`, the process exits.
    """
    seconds = worker_timeout()
    with contextlib.suppress(ValueError, AttributeError, OSError):  # stderr is not a real file
        faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__)
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    before = {number: signal.getsignal(number) for number in numbers}
    if is_main:
        # Python's handler would run only after TensorFlow returns.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        for number, handler in before.items():
            # TensorFlow has replaced the SIGTERM handler, so that SIGTERM ends nothing.
            signal.signal(number, handler or signal.SIG_DFL)


def reports_lost_workers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a run so that an error caused by a lost worker names the worker.

    Raises:
        WorkerLostError: in the decorated function, if another worker stopped or is unreachable.
    """

    @functools.wraps(function)
    def run(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            lost = _lost_workers(error)
            if not lost:
                raise
            raise WorkerLostError(
                f"{_named(lost)} stopped or cannot be reached. Run the same command again on every "
                "worker to resume from the newest checkpoint."
            ) from error

    return run


def _lost_workers(error):
    cluster = read_cluster()
    if cluster is None or cluster.num_workers < 2:
        return {}
    if not isinstance(error, _errors_of_backend()):
        return {}
    for _ in range(10):  # the lost worker may still be shutting down
        if lost := _missing(cluster):
            return lost
        time.sleep(_BETWEEN_SWEEPS)
    return {}


def _errors_of_backend():
    if keras.backend.backend() == "jax":
        import jax

        return jax.errors.JaxRuntimeError
    import tensorflow as tf

    return tf.errors.OpError


def _missing(cluster):
    return {address: name for address, name in cluster.others.items() if not _answers(address)}


def _answers(address):
    try:
        socket.create_connection(_host_and_port(address), timeout=2).close()
    except OSError:
        return False
    return True


def _listener(cluster):
    _, port = _host_and_port(cluster.own_address)
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    try:
        return socket.create_server(
            ("", port), family=family, dualstack_ipv6=family == socket.AF_INET6
        )
    except OSError as error:
        raise InputError(
            f"this worker cannot listen at {cluster.own_address} of TF_CONFIG: {error.strerror}. "
            "Another process may run the same task. Otherwise choose another port on all workers."
        ) from error


def _accept_for(seconds, listener):
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        listener.settimeout(left)
        with contextlib.suppress(OSError):
            listener.accept()[0].close()


def _named(workers):
    return ", ".join(f"{name} ({address})" for address, name in workers.items())
