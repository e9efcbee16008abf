"""Multi-worker runs: waits for the other workers and detects lost workers."""

import contextlib
import faulthandler
import functools
import logging
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras

from keras_bert_impl.utils.cluster import Cluster, host_and_port, read_cluster
from keras_bert_impl.utils.errors import InputError

_LOG = logging.getLogger(__name__)
TIMEOUT = "KERAS_BERT_WORKER_TIMEOUT"
DEFAULT_TIMEOUT = 600  # seconds
_BETWEEN_SWEEPS = 0.5  # seconds
_KEPT: list[socket.socket] = []  # listeners that stay open until the process ends


class WorkerLostError(RuntimeError):
    """Another worker of the run has stopped."""


# === Reachability of the other workers ===


def wait_for_workers(cluster: Cluster) -> None:
    """Listens at the address of this worker and waits until all workers listen."""
    with _open_listener(cluster) as listener:
        _wait(cluster, listener)


def _wait(cluster, listener):
    timeout = worker_timeout()
    begin = time.monotonic()
    next_report = begin + 5
    while missing := _find_missing(cluster):
        now = time.monotonic()
        if now - begin > timeout:
            raise InputError(
                f"{_format_names(missing)} did not start within {timeout:g} seconds. Start the "
                "same command on each missing worker, with its task in TF_CONFIG, or wait longer "
                f"with --worker-timeout or {TIMEOUT}."
            )
        if now > next_report:
            _LOG.warning("waiting for %s", _format_names(missing))
            next_report = now + 60
        _serve_connections(_BETWEEN_SWEEPS, listener)


def join_jax(cluster: Cluster) -> None:
    """Waits for the other workers and connects to them with `jax.distributed`."""
    import jax

    listener = _open_listener(cluster)
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
    """Context that ends the process if connecting the workers takes longer than the timeout."""
    seconds = worker_timeout()
    with contextlib.suppress(ValueError, AttributeError, OSError):  # stderr has no file descriptor
        faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__)
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    before = {number: signal.getsignal(number) for number in numbers}
    if is_main:
        # A Python handler would run only after TensorFlow returns.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        for number, handler in before.items():
            # TensorFlow has replaced the SIGTERM handler, so SIGTERM has no effect.
            signal.signal(number, handler or signal.SIG_DFL)


def reports_lost_workers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a run. If a lost worker causes an error, the error names the worker."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            lost = _find_lost_workers(error)
            if not lost:
                raise
            raise WorkerLostError(
                f"{_format_names(lost)} stopped or cannot be reached. Run the same command again "
                "on every worker to resume from the newest checkpoint."
            ) from error

    return run


def _find_lost_workers(error):
    cluster = read_cluster()
    if cluster is None or cluster.num_workers < 2:
        return {}
    if not isinstance(error, _choose_error_class()):
        return {}
    for _ in range(10):  # The lost worker may still be shutting down.
        if lost := _find_missing(cluster):
            return lost
        time.sleep(_BETWEEN_SWEEPS)
    return {}


def _choose_error_class():
    if keras.backend.backend() == "jax":
        import jax

        return jax.errors.JaxRuntimeError
    import tensorflow as tf

    return tf.errors.OpError


def _find_missing(cluster):
    return {address: name for address, name in cluster.others.items() if not _is_reachable(address)}


def _is_reachable(address):
    try:
        socket.create_connection(host_and_port(address), timeout=2).close()
    except OSError:
        return False
    return True


def _open_listener(cluster):
    _, port = host_and_port(cluster.own_address)
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    try:
        return socket.create_server(
            ("", port), family=family, dualstack_ipv6=family == socket.AF_INET6
        )
    except OSError as error:
        raise InputError(
            f"this worker cannot listen at its address in TF_CONFIG, {cluster.own_address}: "
            f"{error.strerror}. If another process runs the same task, end it. Otherwise, choose "
            "another port for this worker in TF_CONFIG on all workers."
        ) from error


def _serve_connections(seconds, listener):
    end = time.monotonic() + seconds
    while (seconds_left := end - time.monotonic()) > 0:
        listener.settimeout(seconds_left)
        with contextlib.suppress(OSError):
            listener.accept()[0].close()


def _format_names(workers):
    return ", ".join(f"{name} ({address})" for address, name in workers.items())
