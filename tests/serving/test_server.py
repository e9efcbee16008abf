"""tools/serving: the TensorFlow Serving stand-in, under unusual and frequent requests."""

import json
import subprocess
import sys

import numpy as np
import pytest

from keras_bert_impl.serving import export_version
from tests.serving.asking import fuzz, output_of
from tests.serving.families import signatures_of
from tests.serving.fuzz import c_api, load_tool
from tests.tasks.helpers import ROOT

INPUTS = 5000  # random inputs for each model and protocol


@pytest.fixture(scope="module")
def server():
    """The server module with a stand-in for its models."""
    return load_tool("server")


class Models:
    """Echoes the request."""

    def __init__(self):
        takes = {"text": ("", c_api.STRING)}, {"token_ids": ("", 3), "weights": ("", 1)}
        model = type("Model", (), {"signatures": {"text": (takes[0], {}), "ids": (takes[1], {})}})
        self.models = {"one": model}

    def ask(self, name, signature, inputs):
        return inputs


@pytest.mark.parametrize(
    "request_, expected",
    [
        ({"instances": ["a", {"b64": "/w=="}]}, {"predictions": ["a", b"\xff"]}),
        ({"instances": [{"text": "a"}]}, {"predictions": ["a"]}),
        ({"inputs": {"text": [["a"], ["b"]]}}, {"outputs": [["a"], ["b"]]}),
        ({"inputs": []}, {"outputs": []}),
    ],
)
def test_rest_requests_become_arrays_and_back(server, request_, expected):
    assert server.rest_answer(Models(), "one", {"signature_name": "text"} | request_) == expected


def test_numbers_of_rest_keep_their_kind(server):
    inputs = {"token_ids": [[1, 2]], "weights": [[1, 0.5]]}
    answer = server.rest_answer(Models(), "one", {"signature_name": "ids", "inputs": inputs})
    assert answer == {"outputs": inputs}


@pytest.mark.parametrize(
    "request_",
    [
        [],
        {"signature_name": "text"},
        {"signature_name": "none", "inputs": ["a"]},
        {"signature_name": "ids", "inputs": {"token_ids": [1.5], "weights": [1]}},
        {"signature_name": "ids", "inputs": {"token_ids": [True], "weights": [1]}},
        {"signature_name": "ids", "inputs": {"token_ids": [2**40], "weights": [1]}},
        {"signature_name": "ids", "inputs": {"token_ids": [2**80], "weights": [1]}},
        {"signature_name": "ids", "inputs": {"token_ids": [[1], [1, 2]], "weights": [1]}},
        {"signature_name": "ids", "inputs": {"token_ids": ["1"], "weights": [1]}},
        {"signature_name": "text", "instances": [{"b64": "?"}]},
    ],
)
def test_rest_requests_without_an_answer_are_errors(server, request_):
    # The exceptions that the server turns into status 400.
    with pytest.raises((LookupError, TypeError, ValueError)):
        server.rest_answer(Models(), "one", request_)


def test_tensors_are_read_and_written(server):
    for array in (np.array([[b"a", b""]], object), np.array([[1, -2]], "int32"), np.zeros([0, 3])):
        read = server.read_tensor(server.write_tensor(array))
        assert read.dtype == array.dtype and read.shape == array.shape
        assert (read == array).all()


def test_rejects_a_tensor_that_claims_too_many_values(server):
    wire = load_tool("wire")
    dim = wire.write_field(2, b"\x08" + wire.write_number(1 << 40))
    message = b"\x08\x07" + wire.write_field(2, dim) + wire.write_field(8, b"text")
    with pytest.raises(ValueError, match="too large"):
        server.read_tensor(message)


# === The server in a process ===


@pytest.fixture(scope="module", params=["single_label", "entities_crf", "answers_or_none"])
def served(request, tmp_path_factory):
    """(`Signatures`, `Path` of the SavedModel, ports) of a running server."""
    signatures = signatures_of(request.param)
    directory = export_version(signatures, tmp_path_factory.mktemp("models") / "model")
    command = [sys.executable, "tools/serving/server.py", str(directory.parent)]
    process = subprocess.Popen(
        [*command, "--port", "0", "--rest-port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    yield signatures, directory, json.loads(process.stdout.readline())
    still_runs = process.poll() is None
    process.kill()
    process.communicate()
    assert still_runs


@pytest.mark.slow
@pytest.mark.parametrize("way, port", [("grpc", "port"), ("rest", "rest_port")])
def test_random_requests_to_the_server(served, way, port, tmp_path):
    signatures, directory, ports = served
    fuzz(signatures, directory, INPUTS, tmp_path, (way, ports[port], "model"), seed=1)


@pytest.mark.slow
def test_load(tmp_path):
    """8 clients for ten seconds: no errors, and memory does not grow with each request."""
    export_version(signatures_of("single_label"), tmp_path / "model")
    command = ["tools/serving/load.py", tmp_path / "model", "--clients", 8, "--seconds", 10]
    report = json.loads("".join(output_of([*command, "--requests", "mixed"])))
    load = report["load"]
    assert load["errors"] == 0 and load["requests"] > 8
    first, last = load["memory of the server in the first and last fifth, MB"]
    assert last < 1.2 * first
