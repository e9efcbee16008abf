"""Reads batches from input workers on other machines. Ends a run if a worker stops responding."""

import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence

import tensorflow as tf

from keras_bert_impl.utils.errors import InputError

_SECONDS_BETWEEN, _MISSES = 2.0, 5
_TIMEOUT = 5.0  # seconds to connect
_STATUS = 2  # exit status, the same as for `InputError`


def from_input_workers(
    every: Callable[[int, int], tf.data.Dataset], addresses: Sequence[str]
) -> tf.data.Dataset:
    """Returns a dataset with the batches of the input workers in round-robin order."""
    for address in addresses:
        try:
            connect(address, timeout=10)  # Without this check, TensorFlow would wait for an hour.
        except OSError as error:
            raise InputError(
                f"no input worker responds at {address} ({error}). Start one with `keras-bert "
                "input-worker`."
            ) from error
    parts = [
        every(len(addresses), index).apply(
            tf.data.experimental.service.distribute("parallel_epochs", service=address)
        )
        for index, address in enumerate(addresses)
    ]
    turns = tf.data.Dataset.range(len(parts)).repeat()
    return tf.data.Dataset.choose_from_datasets(parts, turns, stop_on_empty_dataset=True)


class InputWorkerWatch:
    """Context that ends the process if an input worker stops responding."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()

    def _watch(self):
        missed = dict.fromkeys(self._addresses, 0)
        while not self._is_over.wait(_SECONDS_BETWEEN):
            for address in self._addresses:
                try:
                    connect(address, _TIMEOUT)
                    missed[address] = 0
                except OSError:
                    missed[address] += 1
                if missed[address] == _MISSES and not self._is_over.is_set():
                    _stop_run(address)


def connect(address: str, timeout: float) -> None:
    """Connects to an input worker such as `"grpc://host:5050"`; raises `OSError` on a timeout."""
    host, _, port = address.removeprefix("grpc://").rpartition(":")
    socket.create_connection((host, int(port)), timeout).close()


def _stop_run(address):
    print(
        f"the input worker {address} has not responded for {_SECONDS_BETWEEN * _MISSES:.0f} "
        "seconds, so the run ends. Restart this worker or name other input_workers. Then run "
        "the same command again to resume from the last checkpoint.",
        file=sys.stderr,
        flush=True,
    )
    os._exit(_STATUS)
