"""The clients in `docs/serving.md`, as they stand there, and files for TensorFlow Serving."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import yaml

from keras_bert_impl.serving import export_version
from tests.tasks.helpers import ROOT, classifier

BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "docs/serving.md").read_text(), re.DOTALL)
TEXTS = ["I paid two times this month", "The chart does not load"]
PAIR = ("The app is slow.", "Since Monday.")
DEPLOY = ROOT / "keras_bert_impl/serving/deploy/tensorflow-serving"


def blocks(language, word):
    return [text for kind, text in BLOCKS if kind == language and word in text]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """(the model, the ports) of a running server with one model."""
    model = classifier()
    folder = tmp_path_factory.mktemp("models") / "tickets"
    export_version(model.signatures(), folder)
    command = [sys.executable, "tools/serving/server.py", folder, "--port", "0", "--rest-port", "0"]
    server = subprocess.Popen(
        [*map(str, command)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    ports = json.loads(server.stdout.readline())
    yield model, ports
    server.kill()
    server.communicate()


def printed_by(program, code, ports):
    """The lines that a code block of the documentation prints, with a server on these ports."""
    code = code.replace("localhost:8500", f"127.0.0.1:{ports['port']}")
    code = code.replace("localhost:8501", f"127.0.0.1:{ports['rest_port']}")
    process = subprocess.run([*program, "-c", code], capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr[-2000:]
    return process.stdout.strip().splitlines()


@pytest.mark.slow
def test_the_grpc_client(served):
    model, ports = served
    (code,) = blocks("python", "PredictionServiceStub")
    lines = [line.split() for line in printed_by([sys.executable], code, ports)]
    assert [label for label, _ in lines] == model.classify(TEXTS)
    expected = model.predict(TEXTS, verbose=0).max(axis=1)
    np.testing.assert_allclose([float(score) for _, score in lines], expected, atol=1e-5)


@pytest.mark.slow
def test_the_rest_client(served):
    model, ports = served
    (code,) = blocks("python", "urllib")
    ((label, score),) = [line.split() for line in printed_by([sys.executable], code, ports)]
    assert [label] == model.classify([PAIR])
    expected = model.predict([PAIR], verbose=0).max()
    assert float(score) == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_the_client_on_the_command_line(served):
    model, ports = served
    (code,) = blocks("bash", "curl -s http://localhost:8501")
    answer = json.loads("".join(printed_by(["bash"], code, ports)))
    scores = [row["scores"] for row in answer["predictions"]]
    np.testing.assert_allclose(scores, model.predict(TEXTS, verbose=0), atol=1e-5)
    wrong = code.replace(json.dumps(TEXTS), "[1, 2]")
    assert wrong != code
    assert "error" in json.loads("".join(printed_by(["bash"], wrong, ports)))


def test_the_files_for_servers_agree():
    """Compose, Kubernetes and `docker run` start the same server on the same ports."""
    (command,) = blocks("bash", "docker run")
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["tickets"]
    deployment, ports = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert service["image"] == container["image"] and container["image"] in command
    assert all(flag in command and flag in service["command"] for flag in container["args"])
    exposed = [port["containerPort"] for port in container["ports"]]
    assert exposed == [port["port"] for port in ports["spec"]["ports"]] == [8500, 8501]
    assert service["ports"] == [f"{port}:{port}" for port in exposed]
