"""Puts a REST server under load; run as a program.

    python -m tests.serving.server.load PORT MODEL --pid PID --clients 8 --seconds 300

Each client sends requests without a pause, on a connection that stays open. Prints times of
answers, errors and the memory of the server's process as JSON.
"""

import argparse
import http.client
import json
import os
import threading
import time
from pathlib import Path

import numpy as np

WORDS = "good bad film a the is great awful dull joy what very not plot".split()


def load(port, name, pid, num_clients, seconds):
    """Returns statistics of the answers to texts of 32 words."""
    texts = [" ".join(np.random.default_rng(i).choice(WORDS, 32)) for i in range(num_clients)]
    until, times, errors, memory = time.monotonic() + seconds, [], [], []

    def client(number):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body, expected = json.dumps({"instances": [texts[number]]}), None
        while time.monotonic() < until:
            begun = time.monotonic()
            try:
                connection.request("POST", f"/v1/models/{name}:predict", body)
                response = connection.getresponse()
                answer = json.loads(response.read())
            except (OSError, ValueError, http.client.HTTPException) as error:
                errors.append(repr(error))
                connection.close()
                continue
            times.append(1e3 * (time.monotonic() - begun))
            if response.status != 200:
                errors.append(str(answer))
                continue
            scores = answer["predictions"][0]["scores"]
            expected = expected or scores
            if not np.allclose(scores, expected, rtol=0, atol=1e-5):
                errors.append("another answer")

    threads = [threading.Thread(target=client, args=[number]) for number in range(num_clients)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        memory.append(megabytes(pid))
        time.sleep(min(1.0, seconds / 20))
    fifth = max(len(memory) // 5, 1)
    return {
        "requests": len(times),
        "requests a second": round(len(times) / seconds, 1),
        "errors": len(errors),
        "kinds of errors": sorted(set(errors))[:5],
        "p50, p95, p99, ms": np.percentile(times, [50, 95, 99]).round(1).tolist(),
        "memory of the server in the second and last fifth, MB": [
            round(float(np.mean(memory[fifth : 2 * fifth])), 1),
            round(float(np.mean(memory[-fifth:])), 1),
        ],
    }


def megabytes(pid):
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("port", type=int)
    parser.add_argument("model")
    parser.add_argument("--pid", type=int, required=True, help="process of the server")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    found = load(options.port, options.model, options.pid, options.clients, options.seconds)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
