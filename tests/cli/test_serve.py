"""`keras-bert serve`: errors before it starts, and how it stops."""

import argparse
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import grpc
import pytest
import yaml
from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

from keras_bert_impl.cli import main as cli
from keras_bert_impl.cli import serving
from keras_bert_impl.serving import export_version
from keras_bert_impl.utils.version import install_command
from tests.serving.families import signatures_of
from tests.serving.server.load import Server, load, send_garbage_to
from tests.serving.server.servers import Client
from tests.tasks.helpers import ROOT

COMMAND = [sys.executable, "-m", "keras_bert_impl.cli.main", "serve"]
GOOD = {"instances": ["good"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "reviews"
    export_version(signatures_of("single_label"), path)
    return path


def start(folder, *options):
    """(process, `Client`) of a server."""
    process = subprocess.Popen(
        [*COMMAND, str(folder), "--port", "0", *options],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    line = process.stdout.readline()
    match = re.fullmatch(r"serving http://127\.0\.0\.1:(\d+)/v1/models/reviews\n", line)
    assert match, process.stderr.read()
    return process, Client(int(match[1]), "reviews")


@pytest.mark.slow
def test_grpc_port(folder):
    """The line names the port, which answers."""
    process = subprocess.Popen(
        [*COMMAND, str(folder), "--port", "0", "--grpc-port", "0"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    match = re.fullmatch(r"serving gRPC on (127\.0\.0\.1:\d+)\n", process.stdout.readline())
    assert match, process.stderr.read()
    with grpc.insecure_channel(match[1]) as channel:
        stub = model_service_pb2_grpc.ModelServiceStub(channel)
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = "reviews"
        (state,) = stub.GetModelStatus(request, timeout=60).model_version_status
    assert state.version == 1
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0


def error_of(*arguments, capsys):
    """Runs the command in this process; returns its one line of stderr."""
    assert cli.main(["serve", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err


def test_folders_that_cannot_be_served(tmp_path, capsys):
    assert "does not exist" in error_of(tmp_path / "none", capsys=capsys)
    assert "contains no SavedModel" in error_of(tmp_path, capsys=capsys)
    (tmp_path / "a.txt").write_text("a")
    assert "is a file" in error_of(tmp_path / "a.txt", capsys=capsys)


def test_ports_that_cannot_be_used(folder, capsys):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        line = error_of(folder, "--port", port, capsys=capsys)
    assert f"cannot listen on port {port} of 127.0.0.1: the port is in use. Choose" in line
    assert "cannot listen" in error_of(folder, "--host", "192.0.2.1", capsys=capsys)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        line = error_of(folder, "--port", 0, "--grpc-port", port, capsys=capsys)
    assert f"cannot listen on port {port}" in line
    assert "'70000' is not a port" in error_of(folder, "--port", 70000, capsys=capsys)
    line = error_of(folder, "--allowed-hosts", "http://a.example", capsys=capsys)
    assert "'http://a.example' is not a host name without a port" in line
    assert "is not a number of milli" in error_of(folder, "--batch-timeout", "x", capsys=capsys)


def test_a_missing_extra(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert install_command("serve") in error_of(folder, capsys=capsys)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "tensorflow_serving", None)
    line = error_of(folder, "--grpc-port", 8500, capsys=capsys)
    assert install_command("serve,serving") in line


def test_errors_do_not_wait_for_tensorflow(tmp_path):
    code = (
        "import sys; from keras_bert_impl.cli.main import main\n"
        f"assert main(['serve', {str(tmp_path)!r}]) == 2\n"
        "assert not {'tensorflow', 'keras', 'uvicorn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)


def test_a_folder_of_something_else(tmp_path):
    (tmp_path / "model" / "1").mkdir(parents=True)
    (tmp_path / "model" / "1" / "saved_model.pb").write_text("not a graph")
    process = subprocess.run(
        [*COMMAND, str(tmp_path / "model"), "--port", "0"], cwd=ROOT, capture_output=True, text=True
    )
    assert process.returncode == 2 and process.stdout == ""
    first, last = process.stderr.splitlines()
    assert first.startswith("model: version 1 cannot be loaded: ")
    assert last == f"keras-bert: no version of {tmp_path}/model can be loaded."


def test_sigterm_lets_requests_finish(folder):
    """One waits in a batch when the signal comes; it is answered, and others are not accepted."""
    process, client = start(folder, "--batch-timeout", "2000")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(client.predict(GOOD)))
    thread.start()
    time.sleep(0.7)
    process.terminate()
    time.sleep(0.7)
    with pytest.raises(ConnectionError):
        client.get("/healthz")
    thread.join(30)
    assert answers[0][0] == 200
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0 and out == ""
    assert err == "reviews: version 1 is loaded\n"


def test_sigterm_right_after_the_start_is_not_lost(folder):
    process, _ = start(folder)  # returns when the line with the address is printed
    process.terminate()
    assert process.wait(timeout=60) == 0


@pytest.mark.slow
def test_the_stop_is_bounded(folder):
    process, client = start(folder, "--batch-timeout", "9000", "--stop-timeout", "1")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(client.predict(GOOD)))
    thread.start()
    time.sleep(0.7)
    process.terminate()
    thread.join(30)
    assert answers == [(503, {"error": "The server is stopping."})]
    assert process.wait(timeout=30) == 0
    assert process.communicate()[1] == "reviews: version 1 is loaded\n"


@pytest.mark.slow
def test_stop_under_load(folder):
    process, client = start(folder)
    statuses, stopped = [], threading.Event()

    def ask():
        while not stopped.is_set():
            try:
                statuses.append(client.predict(GOOD)[0])
            except (OSError, json.JSONDecodeError):
                assert process.poll() is None or process.returncode == 0
                return

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0
    stopped.set()
    for thread in threads:
        thread.join(30)
    assert set(statuses) == {200} and len(statuses) > 10
    assert process.communicate()[1] == "reviews: version 1 is loaded\n"


@pytest.mark.slow
def test_load_for_five_minutes(folder):
    """8 clients on open connections, REST and gRPC in turns: no error, and memory does not grow."""
    with Server(folder) as server:
        report = load(server.clients(8), 300, server.megabytes)
    print(json.dumps(report))
    _, middle, end = report["memory at the start, in the middle and at the end, MB"]
    assert report["errors"] == 0 and end < middle + 10
    assert server.process.returncode == 0


@pytest.mark.slow
def test_a_hundred_thousand_damaged_requests(folder):
    """Each is answered or refused, the server lives, and its memory does not grow."""
    with Server(folder) as server:
        report = send_garbage_to(server, 100_000)
    print(json.dumps(report))
    _, before, after = report["memory, MB"]
    assert report["answers after it"] == 2 and after < before + 30
    assert sum(report["REST"].values()) == sum(report["gRPC"].values()) == 100_000
    assert server.log == "reviews: version 1 is loaded\n"


def test_deployment_files_start_the_same_server():
    """Options, ports and probes of the image, Compose and Kubernetes are those of the command."""
    deploy = ROOT / "keras_bert_impl/serving/deploy"
    lines = (deploy / "Dockerfile").read_text().splitlines()
    (command,) = (json.loads(line[4:]) for line in lines if line.startswith("CMD "))
    service = yaml.safe_load((deploy / "compose.yaml").read_text())["services"]["tickets"]
    deployment, ports = yaml.safe_load_all((deploy / "kubernetes.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert command == service["command"] == container["args"]
    parser = argparse.ArgumentParser()
    serving.Serve().add_arguments(parser)
    parsed = parser.parse_args(command)
    assert parsed.host == "0.0.0.0"
    exposed = [parsed.grpc_port, parsed.port]
    assert f"EXPOSE {exposed[0]} {exposed[1]}" in lines
    assert exposed == [port["containerPort"] for port in container["ports"]]
    assert exposed == [port["port"] for port in ports["spec"]["ports"]]
    assert service["ports"] == [f"{port}:{port}" for port in exposed]
    assert pod["terminationGracePeriodSeconds"] > parsed.stop_timeout
    assert int(service["stop_grace_period"].rstrip("s")) > parsed.stop_timeout
    for probe, path in [("startup", "/readyz"), ("readiness", "/readyz"), ("liveness", "/healthz")]:
        check = container[f"{probe}Probe"]["httpGet"]
        assert check == {"path": path, "port": parsed.port}
