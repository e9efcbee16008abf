"""A run ends with a message when one of its input workers is lost."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from keras_bert_impl.pretraining import input_workers
from keras_bert_impl.pretraining.input_workers import InputWorkerWatch
from tests.pretraining.helpers import CONFIG
from tests.training.helpers import free_ports

COMMAND = [sys.executable, "-m", "keras_bert_impl.cli.main"]


@pytest.fixture
def ended(monkeypatch):
    """Returns (event set when the process would end, list of the reported addresses)."""
    event, addresses = threading.Event(), []
    monkeypatch.setattr(input_workers, "_SECONDS_BETWEEN", 0.01)

    def end(address):
        addresses.append(address)
        event.set()

    monkeypatch.setattr(input_workers, "_stop_run", end)
    return event, addresses


def test_only_a_lost_worker_ends_the_run(ended):
    event, addresses = ended
    with (
        socket.create_server(("localhost", 0)) as there,
        socket.create_server(("localhost", 0)) as gone,
    ):
        both = [f"grpc://localhost:{server.getsockname()[1]}" for server in (there, gone)]
        with InputWorkerWatch(both):
            assert not event.wait(0.3)
            gone.close()
            assert event.wait(30)
    assert addresses == both[1:]


def test_stops_watching_after_the_run(ended):
    event, _ = ended
    (port,) = free_ports(1)
    with InputWorkerWatch([f"grpc://localhost:{port}"]):
        pass
    assert not event.wait(0.3)
    with InputWorkerWatch([]):
        pass


@pytest.mark.slow
def test_run_ends_with_its_input_worker_and_resumes_without(records_directory, tmp_path):
    shape = tmp_path / "config.json"
    shape.write_text(json.dumps(CONFIG))
    settings = {"model": shape, "total_steps": 100_000, "report_every": 10, "batch_size": 8}
    (port,) = free_ports(1)
    worker = subprocess.Popen(
        [*COMMAND, "input-worker", "--host", "localhost", "--port", str(port)]
    )
    run = tmp_path / "run"

    def command(*extra):
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        return [*COMMAND, "pretrain", str(records_directory), "--out", str(run), *flags, *extra]

    def reports():
        path = run / "metrics.jsonl"
        return path.read_text().splitlines() if path.exists() else []

    def wait_for_reports(process, count):
        while len(reports()) < count:
            assert process.poll() is None
            time.sleep(0.2)

    try:
        with socket.socket() as waiting:
            while waiting.connect_ex(("localhost", port)):
                time.sleep(0.2)
        time.sleep(1)
        fleet = command(f"--input-workers=[grpc://localhost:{port}]")
        process = subprocess.Popen(fleet, stderr=subprocess.PIPE, text=True)
        wait_for_reports(process, 2)
        worker.kill()
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 2
        assert f"input worker grpc://localhost:{port} has not responded for 10 seconds" in errors
    finally:
        worker.kill()
    before = len(reports())
    process = subprocess.Popen(command())
    wait_for_reports(process, before + 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    steps = [json.loads(line)["step"] for line in reports()]
    assert steps == list(range(10, 10 * len(steps) + 1, 10))
