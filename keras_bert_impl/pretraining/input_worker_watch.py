"""What a run does when a machine that makes its batches is gone."""

import os
import socket
import sys
import threading

_SECONDS_BETWEEN, _MISSES = 2.0, 5
_TIMEOUT = 5.0  # seconds, of a connection
_STATUS = 2  # of the process, as of every clear error


class InputWorkerWatch:
    """Ends the process inside a `with` block once an input worker has not answered for ten seconds.

    The run would wait for ever: it is inside of TensorFlow, which no exception reaches, and the
    service forgets a run when it is started again. Checkpoints are whole at every moment.

    Args:
        addresses: list of str, such as `"grpc://host:5050"`; none for nothing to watch.

    Example:
        with InputWorkerWatch(["grpc://host:5050"]):
            model.fit(pretraining_dataset("records", 32, input_workers=["grpc://host:5050"]))
    """

    def __init__(self, addresses):
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
                missed[address] = 0 if _answers(address) else missed[address] + 1
                if missed[address] == _MISSES and not self._is_over.is_set():
                    _end(address)


def _answers(address):
    host, port = address.removeprefix("grpc://").rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), _TIMEOUT).close()
    except OSError:
        return False
    return True


def _end(address):
    print(
        f"the input worker {address} has not answered for {_SECONDS_BETWEEN * _MISSES:.0f} "
        "seconds, and the run ends. The same command goes on from the last checkpoint, with this "
        "worker once it is there again, or with others in input_workers.",
        file=sys.stderr,
        flush=True,
    )
    os._exit(_STATUS)
