#!/usr/bin/env python
"""Load test of a model server over gRPC.

It starts `tools/serving/server.py` on the loopback interface, without and with the warm-up requests
of the export, and measures the times of the first responses. Then clients with separate channels
send requests without pauses. Every response is compared with the first response to the same
request.

    PYTHONPATH=. python tools/serving/load.py models/reviews --clients 8 --seconds 300

`--requests same` repeats one text of 32 words, to measure the ratio of percentiles. `--requests
mixed` sends batches of 1 to 32 texts with 1 to 100 words, whose response times differ.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

_WORDS = "the house on a hill above the river was built by hand over more than forty years".split()
_TOLERANCE = 1e-5  # tolerance for sums of float32 in a different order
_MIXED_SIZES, _MIXED_WORDS = (1, 2, 8, 32), (1, 5, 20, 100)


def main(arguments: list[str] | None = None) -> None:
    """Prints the measurements as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", type=Path, help="folder of versions of a model with the input `text`"
    )
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--requests", choices=("same", "mixed"), default="same")
    options = parser.parse_args(arguments)
    report = {}
    with Server(options.folder, warm_up=False) as server:
        report["without warm-up"] = first_answers(server)
    with Server(options.folder) as server:
        report["with warm-up"] = first_answers(server)
        requests = make_requests(server.name, options.requests)
        report["load"] = load(server, requests, options.clients, options.seconds)
    print(json.dumps(report, indent=2))


class Server:
    """Context manager with a server in a separate process.

    Args:
        folder: the folder of a model's versions.
        warm_up: whether the server runs the warm-up requests before it is ready.

    Attributes:
        name: name of the model.
        port: gRPC port.
        started: start time of the process, from `time.monotonic`.
    """

    def __init__(self, folder: Path, warm_up: bool = True) -> None:
        self.name = folder.absolute().name
        program = str(Path(__file__).with_name("server.py"))
        self._command = [sys.executable, program, str(folder), "--port", "0", "--rest-port", "0"]
        self._command += [] if warm_up else ["--no-warm-up"]

    def __enter__(self):
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server ended with {self._process.wait()}.")
        self.port = json.loads(line)["port"]
        return self

    def __exit__(self, *error):
        self._process.kill()
        self._process.communicate()

    @contextlib.contextmanager
    def client(self) -> Iterator[Callable]:
        """Context manager with a function from `PredictRequest` to the response."""
        # channels to the same address share a connection unless their options differ
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"127.0.0.1:{self.port}", options) as channel:
            service = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            yield lambda request: service.Predict(request, timeout=60.0, wait_for_ready=True)

    def memory(self) -> float:
        """Returns the resident memory of the process, in MB."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        (size,) = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
        return int(size) / 1024


def make_requests(name: str, kind: str) -> list[predict_pb2.PredictRequest]:
    """Returns the requests for `--requests same` or `mixed`."""
    draw = np.random.default_rng(0)
    if kind == "same":
        return [_make_request(name, 1, 32, draw)]
    return [
        _make_request(name, size, words, draw) for size in _MIXED_SIZES for words in _MIXED_WORDS
    ]


def _make_request(name, size, words, draw):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    texts = [" ".join(draw.choice(_WORDS, words)) for _ in range(size)]
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(texts))
    return request


def first_answers(server: Server) -> dict[str, float]:
    """Measures the milliseconds from the start to the first response, and of single requests."""
    (request,) = make_requests(server.name, "same")
    with server.client() as ask:
        ready, times = time.monotonic(), []
        for _ in range(21):
            begun = time.monotonic()
            ask(request)
            times.append(1e3 * (time.monotonic() - begun))
    since_start = 1e3 * (ready - server.started) + times[0]
    return {
        "start to first answer, ms": round(since_start),
        "first request, ms": round(times[0], 1),
        "later responses, median, ms": round(float(np.median(times[1:])), 1),
    }


def load(
    server: Server, requests: list[predict_pb2.PredictRequest], num_clients: int, seconds: float
) -> dict[str, Any]:
    """Sends requests for a given time; returns statistics of the responses."""
    with server.client() as ask:
        expected = [ask(request) for request in requests]
    until, times, errors, memory = time.monotonic() + seconds, [], [], []

    def client(number):
        draw = np.random.default_rng(number)
        with server.client() as ask:
            while time.monotonic() < until:
                index, begun = int(draw.integers(len(requests))), time.monotonic()
                try:
                    response = ask(requests[index])
                except grpc.RpcError as error:
                    errors.append(str(error.code()))
                    continue
                times.append(1e3 * (time.monotonic() - begun))
                if not _is_same(expected[index], response):
                    errors.append("another answer")

    threads = [threading.Thread(target=client, args=(number,)) for number in range(num_clients)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        memory.append(server.memory())
        time.sleep(min(1.0, seconds / 20))
    fifth = max(len(memory) // 5, 1)
    p50, p95, p99 = np.percentile(times, [50, 95, 99]) if times else [float("nan")] * 3
    return {
        "clients": num_clients,
        "seconds": seconds,
        "requests": len(times),
        "requests a second": round(len(times) / seconds, 1),
        "errors": len(errors),
        "kinds of errors": sorted(set(errors)),
        "p50, p95, p99, ms": [round(float(time), 1) for time in (p50, p95, p99)],
        "p99 / p50": round(float(p99 / p50), 2),
        "memory of the server in the first and last fifth, MB": [
            round(float(np.mean(memory[:fifth])), 1),
            round(float(np.mean(memory[-fifth:])), 1),
        ],
    }


def _is_same(expected, received):
    """Returns whether two responses have the same outputs, except for rounding."""
    if set(expected.outputs) != set(received.outputs):
        return False
    for name, tensor in expected.outputs.items():
        first, second = tf.make_ndarray(tensor), tf.make_ndarray(received.outputs[name])
        if first.shape != second.shape:
            return False
        if first.dtype.kind == "f":
            same = np.allclose(first, second, rtol=0, atol=_TOLERANCE)
        else:
            same = np.array_equal(first, second)
        if not same:
            return False
    return True


if __name__ == "__main__":
    main()
