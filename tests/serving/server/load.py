"""Puts `keras-bert serve` under load; run as a program.

    python -m tests.serving.server.load models/reviews --clients 8 --seconds 300
    python -m tests.serving.server.load models/reviews --clients 8 --seconds 60 --c-api
    python -m tests.serving.server.load models/reviews --garbage 100000

The first starts the server; half of the clients send REST requests and half gRPC, without a pause,
on connections that stay open. `--c-api` asks the SavedModel through TensorFlow's C API, without a
server. `--garbage` sends damaged requests. All print what they found as JSON.
"""

import argparse
import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[3]
WORDS = "good bad film a the is great awful dull joy what very not plot".split()


class Server:
    """`keras-bert serve` in a process of its own, with REST and gRPC on free ports."""

    def __init__(self, folder):
        self.name = Path(folder).name
        command = [sys.executable, "-m", "keras_bert_impl.cli.main", "serve", str(folder)]
        self.process = subprocess.Popen(
            [*command, "--port", "0", "--grpc-port", "0"],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        lines = [self.process.stdout.readline() for _ in range(2)]
        self.grpc_port, self.port = (int(re.search(r":(\d+)", line)[1]) for line in lines)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        self.log = self.process.communicate(timeout=60)[1]

    def clients(self, count):
        """Returns functions of a text to its scores; REST and gRPC in turns."""
        makers = rest_client, grpc_client
        ports = self.port, self.grpc_port
        return [makers[n % 2](ports[n % 2], self.name) for n in range(count)]

    def megabytes(self):
        """Resident memory of the process."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def rest_client(port, name):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(text):
        body = json.dumps({"instances": [text]})
        connection.request("POST", f"/v1/models/{name}:predict", body)
        response = connection.getresponse()
        answer = response.read()
        assert response.status == 200, answer
        return json.loads(answer)["predictions"][0]["scores"]

    return ask


def grpc_client(port, name):
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    stub = prediction_service_pb2_grpc.PredictionServiceStub(
        grpc.insecure_channel(f"127.0.0.1:{port}")
    )

    def ask(text):
        response = stub.Predict(message(name, [text]), timeout=60)
        return tf.make_ndarray(response.outputs["scores"])[0]

    return ask


def message(name, texts):
    """Returns a `PredictRequest` for texts."""
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(texts))
    return request


def c_api_clients(folder, count):
    from tests.serving.fuzz import c_api

    model = c_api.Model(folder / "1")
    return [lambda text: model.ask("serving_default", text=[text.encode()])["scores"][0]] * count


def load(clients, seconds, megabytes=lambda: 0.0):
    """Returns statistics of answers to texts of 32 words, each asked again and again.

    Args:
        clients: functions of a text to its scores.
        megabytes: returns the memory of the server.
    """
    texts = [" ".join(np.random.default_rng(i).choice(WORDS, 32)) for i in range(len(clients))]
    for ask, text in zip(clients, texts, strict=True):
        ask(text)  # connects
    until, errors, memory = time.monotonic() + seconds, [], []
    times = [[] for _ in clients]

    def client(number):
        expected = None
        while time.monotonic() < until:
            begun = time.monotonic()
            try:
                scores = clients[number](texts[number])
            except Exception as error:  # of any kind: counted, not raised in a thread
                errors.append(repr(error)[:200])
                continue
            times[number].append(1e3 * (time.monotonic() - begun))
            expected = scores if expected is None else expected
            if not np.allclose(scores, expected, rtol=0, atol=1e-5):
                errors.append("another answer")

    threads = [threading.Thread(target=client, args=[n]) for n in range(len(clients))]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        memory.append(megabytes())
        time.sleep(min(1.0, seconds / 20))
    return {
        "requests": sum(map(len, times)),
        "errors": len(errors),
        "kinds of errors": sorted(set(errors))[:5],
        "p50, p95, p99, ms": percentiles(times),
        "of every other client, from the first": percentiles(times[::2]),
        "of the others": percentiles(times[1::2]),
        "memory at the start, in the middle and at the end, MB": [
            memory[0], memory[len(memory) // 2], memory[-1]
        ],
    }  # fmt: skip


def percentiles(times):
    durations = [time for client_times in times for time in client_times]
    return np.percentile(durations, [50, 95, 99]).round(1).tolist() if durations else None


def send_garbage_to(server, count):
    """Returns what became of damaged requests over REST and gRPC, and the memory before and after."""
    from tests.serving.server import garbage
    from tests.serving.server.servers import Client

    good = message(server.name, ["a good film", "awful"]).SerializeToString()
    report = {"memory, MB": [server.megabytes()]}
    for seed, size in enumerate((count // 5, count)):  # the first fill caches
        rest_outcomes = garbage.send_garbage(Client(server.port, server.name), size, seed)
        damaged = garbage.send_damaged_messages(server.grpc_port, good, size, seed)
        report["memory, MB"].append(server.megabytes())
    ask = server.clients(2)
    answers = [ask(text)[0] > 0 for ask, text in zip(ask, WORDS)]
    return report | {"REST": rest_outcomes, "gRPC": damaged, "answers after it": len(answers)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--c-api", action="store_true")
    parser.add_argument("--garbage", type=int, default=0)
    options = parser.parse_args()
    if options.c_api:
        clients = c_api_clients(options.folder.absolute(), options.clients)
        report = load(clients, options.seconds)
    else:
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(Server(options.folder.absolute()))
            if options.garbage:
                report = send_garbage_to(server, options.garbage)
            else:
                report = load(server.clients(options.clients), options.seconds, server.megabytes)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
