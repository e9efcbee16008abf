"""Ends a run when one of its input workers is gone."""

import os
import socket
import sys
import threading
from collections.abc import Sequence

_SECONDS_BETWEEN, _MISSES = 2.0, 5
_TIMEOUT = 5.0  # seconds to connect
_STATUS = 2  # exit status, same as for every `InputError`


class InputWorkerWatch:
    """Context manager that ends the process if an input worker is silent for ten seconds."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        if self._addresses:
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
                    _end(address)


def connect(address: str, timeout: float) -> None:
    """Raises `OSError` if an input worker such as `"grpc://host:5050"` does not answer in time."""
    host, _, port = address.removeprefix("grpc://").rpartition(":")
    socket.create_connection((host, int(port)), timeout).close()


def _end(address):
    print(
        f"the input worker {address} has not answered for {_SECONDS_BETWEEN * _MISSES:.0f} "
        "seconds; the run ends. Run the same command again to resume from the last checkpoint, "
        "after restarting this worker or with others in input_workers.",
        file=sys.stderr,
        flush=True,
    )
    os._exit(_STATUS)
