"""The endpoints of a running server, and their answers."""

import base64
import contextlib
import http.client
import json
import re
import sys
import time

import numpy as np
import pytest

from keras_bert_impl.serving.check import TOLERANCE, difference_of_rows
from tests.serving.asking import fuzz
from tests.serving.families import FAMILIES
from tests.serving.server.servers import running
from tests.serving.test_clients import PAIR, TEXTS, blocks, printed_by
from tests.tasks.helpers import classifier

OTHER = "; this server has the model single_label"


@pytest.mark.parametrize("path", ["", "/versions/1"])
def test_status(reviews, path):
    status, headers, text = reviews.send("GET", reviews.path + path)
    state = {"error_code": "OK", "error_message": ""}
    expected = [{"version": "1", "state": "AVAILABLE", "status": state}]
    assert (status, json.loads(text)) == (200, {"model_version_status": expected})
    assert headers["Content-Type"] == "application/json"


def test_metadata(reviews):
    status, text = reviews.get(f"{reviews.path}/metadata")
    assert status == 200
    metadata = json.loads(text)
    expected = {"name": "single_label", "signature_name": "", "version": "1"}
    assert metadata["model_spec"] == expected and set(metadata) == {"model_spec", "metadata"}
    signatures = metadata["metadata"]["signature_def"]["signature_def"]
    signature = signatures["serving_default"]
    assert set(signatures) == {"embed", "hub_ids", "ids", "pairs", "serving_default", "tokenize"}
    assert signature["method_name"] == "tensorflow/serving/predict"
    assert signature["inputs"]["text"]["dtype"] == "DT_STRING"
    dim = {"size": "-1", "name": ""}
    assert signature["inputs"]["text"]["tensor_shape"] == {"dim": [dim], "unknown_rank": False}
    assert reviews.get(f"{reviews.path}/versions/1/metadata") == (200, text)
    answer = reviews.predict({"instances": ["a good film"]})[1]["predictions"][0]
    labels = metadata["metadata"]["labels"]  # in the order of the scores
    assert answer["label"] == labels[int(np.argmax(answer["scores"]))]


def test_metadata_has_the_thresholds(tmp_path):
    model = classifier(labels=["ham", "spam"])
    model.thresholds = {"spam": 0.01}
    model.export(tmp_path / "mail" / "1")
    with running(tmp_path / "mail") as client:
        metadata = json.loads(client.get(f"{client.path}/metadata")[1])["metadata"]
        assert metadata["thresholds"] == {"spam": 0.01} and metadata["labels"] == ["ham", "spam"]
        (answer,) = client.predict({"instances": ["a good film"]})[1]["predictions"]
        assert answer["label"] == "spam"
        assert answer["score"] == answer["scores"][1] >= 0.01


def test_page_to_try_a_text(reviews):
    status, headers, text = reviews.send("GET", "/")
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    assert '<script type="application/json" id="served">"single_label"</script>' in text
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert not re.search("(src|href)=", text)  # one file, no external resource


def test_predictions_equal_those_of_the_model(exported):
    check_family(exported, "single_label")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_predictions_of_every_family_equal_those_of_the_model(exported, family):
    check_family(exported, family)


def check_family(exported, family):
    signatures, folder = exported(family)
    inputs = FAMILIES[family][1]
    expected = signatures.reference(**inputs)
    rows = [dict(zip(inputs, row)) for row in zip(*inputs.values())]
    with running(folder) as client:
        status, answer = client.predict({"instances": rows})
        assert status == 200, answer
        names = list(json.loads(client.get(f"{client.path}/metadata")[1])["metadata"][
            "signature_def"]["signature_def"]["serving_default"]["outputs"])  # fmt: skip
        received = answer["predictions"]
        if len(names) == 1:  # stands without its name
            received = [{names[0]: row} for row in received]
        assert difference_of_rows(expected, received) <= TOLERANCE
        status, columns = client.predict({"inputs": inputs})
        columns = columns["outputs"] if len(names) > 1 else {names[0]: columns["outputs"]}
        assert [dict(zip(columns, row)) for row in zip(*columns.values())] == [
            {name: row[name] for name in columns} for row in received
        ]


def test_forms_of_a_request(reviews):
    texts = ["a good film", "awful \u65e5\u672c"]
    expected = reviews.predict({"instances": texts})
    assert expected[0] == 200 and len(expected[1]["predictions"]) == 2
    encoded = [{"b64": base64.b64encode(text.encode()).decode()} for text in texts]
    for request in (
        {"signature_name": "serving_default", "instances": texts},
        {"instances": encoded},
        {"instances": [{"text": text} for text in texts]},
        {"instances": [{"text": text} for text in encoded]},
    ):
        assert reviews.predict(request) == expected
    columns = reviews.predict({"inputs": {"text": texts}})
    assert columns == reviews.predict({"inputs": texts})
    assert columns[1]["outputs"]["label"] == [row["label"] for row in expected[1]["predictions"]]
    assert reviews.predict({"instances": texts}, "/versions/1") == expected


def test_answers_have_the_form_of_tensorflow_serving(reviews):
    """Objects for rows of several outputs; values without a name for one output."""
    _, answer = reviews.predict({"instances": ["good"]})
    (row,) = answer["predictions"]
    assert [(name, type(value)) for name, value in row.items()] == [
        *(("label", str), ("label_id", int), ("score", float), ("scores", list))
    ]
    assert list(answer) == ["predictions"] and len(row["scores"]) == 2
    _, answer = reviews.predict({"signature_name": "embed", "instances": ["good"]})
    assert all(type(value) is float for value in answer["predictions"][0])


@pytest.mark.parametrize(
    "method, path, status, message",
    [
        ("GET", "/v1/models/none", 404, f"Could not find any versions of model none{OTHER}"),
        ("GET", "{}/versions/7", 404, "Could not find version 7 of model single_label"),
        (
            "GET",
            "/v1/models/none/metadata",
            404,
            f"Servable not found for request: Latest(none){OTHER}",
        ),
        ("GET", "/v1/models", 400, "Missing model name in request."),
        ("GET", "/v1/foo", 400, "Malformed request: GET /v1/foo"),
        ("GET", "{}:predict", 400, "Malformed request: GET {}:predict"),
        ("PUT", "{}:predict", 400, "Malformed request: PUT {}:predict"),
        ("POST", "{}/version/5:predict", 400, "Malformed request: POST {}/version/5:predict"),
        ("POST", "{}:guess", 400, "Malformed request: POST {}:guess"),
        (
            "POST",
            "/v1/models/none:predict",
            404,
            f"Servable not found for request: Latest(none){OTHER}",
        ),
        (
            "POST",
            "{}/versions/7:predict",
            404,
            "Servable not found for request: Specific(single_label, 7)",
        ),
        (
            "POST",
            "{}/versions/18446744073709551615:predict",
            400,
            "Failed to convert version: 18446744073709551615 to numeric.",
        ),
        ("POST", "{}/labels/best:predict", 400, "Unrecognized servable version label: best"),
        ("GET", "/statuspage", 404, "Not Found: GET /statuspage"),
        ("DELETE", "/healthz", 405, "Method Not Allowed: DELETE /healthz"),
        ("GET", "/healthz/", 404, "Not Found: GET /healthz/"),  # no redirect
        ("PATCH", "?a", 404, "Not Found: PATCH "),
    ],
)
def test_errors_are_those_of_tensorflow_serving(reviews, method, path, status, message):
    body = '{"instances": ["good"]}' if method == "POST" else None
    received = reviews.send(method, path.format(reviews.path), body)
    error = {"error": message.format(reviews.path)}
    assert (received[0], json.loads(received[2])) == (status, error)


@pytest.mark.parametrize("method", ["classify", "regress"])
def test_methods_that_no_signature_has(reviews, method):
    error = {"error": f"Method {method} is not supported. Use predict."}
    assert reviews.predict({"examples": [{"text": "good"}]}, method=method) == (400, error)


@pytest.mark.parametrize(
    "request_, message",
    [
        (b"", "JSON Parse error: The document is empty"),
        (b"instances = [1, 2]", "JSON Parse error: the request, line 1, is not valid JSON"),
        (b"[1]", "JSON Value: [1] Is not object"),
        ({"instances": ["a"], "inputs": ["a"]}, "only one of 'inputs' or 'instances'"),
        ({"signature_name": "serving_default"}, "Missing 'inputs' or 'instances' key"),
        ({"signature_name": 100, "instances": ["a"]}, "'signature_name' key must be a string"),
        (
            {"signature_name": "none", "instances": ["a"]},
            'Serving signature name: "none" not found in signature def',
        ),
        (b'{"signature_name": "\\ud800", "instances": ["a"]}', 'Serving signature name: "?"'),
        ({"signature_name": "a" * 5000, "instances": ["a"]}, 'Serving signature name: "aaa'),
        ({"instances": []}, "'instances' must be a list with at least one element"),
        ({"instances": [1]}, "JSON Value: 1 Type: Number is not of expected type: string"),
        ({"instances": [["a"]]}, "'text' must have the shape [?]. Received: [1, 1]"),
        ({"instances": ["a", ["b"]]}, "JSON Value: ['b'] Type: Array is not of expected"),
        ({"instances": ["a", {"text": "b"}]}, "a list of objects or of values, not of both"),
        ({"instances": [{"texts": "a"}]}, "keys must be equal to: text"),
        ({"inputs": {"texts": ["a"]}}, "Missing named input: text in 'inputs' object."),
        ({"instances": [{"b64": "*"}]}, "Unable to base64 decode"),
        (b'{"instances": ["\\ud800"]}', "surrogate pair in string is invalid"),
        (
            {"signature_name": "pairs", "instances": ["a"]},
            "instances is a plain list, but expecting list of objects",
        ),
        (
            {"signature_name": "pairs", "inputs": {"first": ["a"], "second": ["a", "b"]}},
            "first and second must have the same number of texts",
        ),
        (
            {
                "signature_name": "ids",
                "instances": [{"token_ids": [99], "segment_ids": [0], "padding_mask": [1]}],
            },
            "token_ids must be in [0, 19). Received: from",
        ),
        (
            {
                "signature_name": "ids",
                "instances": [{"token_ids": [1.5], "segment_ids": [0], "padding_mask": [1]}],
            },
            "JSON Value: 1.5 Type: Number is not of expected type: int32",
        ),
    ],
)
def test_bad_requests_are_answered_in_one_sentence(reviews, request_, message):
    status, answer = reviews.predict(request_)
    assert status == 400 and message in answer["error"]
    assert len(answer["error"]) <= 1000 and "\n" not in answer["error"]


def test_health_and_metrics(reviews):
    assert reviews.get("/healthz")[0] == 200
    assert json.loads(reviews.get("/readyz")[1]) == {"status": "ok", "version": 1}
    answered = 'keras_bert_requests_total{code="200",method="predict"}'
    refused = 'keras_bert_requests_total{code="400",method="predict"}'
    names = [answered, refused, "keras_bert_batch_rows_count"]
    before = [reviews.metric(name) for name in names]
    assert reviews.predict({"instances": ["good"]})[0] == 200
    assert reviews.predict({"instances": [1]})[0] == 400
    assert [reviews.metric(name) for name in names] == [count + 1 for count in before]
    assert reviews.metric('keras_bert_request_seconds_count{method="predict"}') >= 2
    assert reviews.metric("keras_bert_queue_length") == 0
    assert reviews.metric('keras_bert_model_version{model="single_label"}') == 1


def test_answers_are_sent_without_a_delay(reviews):
    """A head and a body that wait for each other's confirmation take 40 ms."""
    connection = http.client.HTTPConnection("127.0.0.1", reviews.port, timeout=10)
    times = []
    with contextlib.closing(connection):
        for _ in range(20):
            begun = time.monotonic()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            times.append(time.monotonic() - begun)
    assert min(times) < 0.03


def test_the_clients_of_the_documentation(exported, tmp_path):
    """The clients in docs/serving.md, as they stand there."""
    signatures, folder = exported("single_label")
    (tmp_path / "tickets").symlink_to(folder)
    with running(tmp_path / "tickets") as client:
        ports = {"port": 0, "rest_port": client.port}
        (code,) = blocks("python", "urllib")
        ((label, score),) = [line.split() for line in printed_by([sys.executable], code, ports)]
        assert [label] == signatures.model.classify([PAIR])
        assert float(score) == pytest.approx(
            signatures.model.predict([PAIR], verbose=0).max(), abs=1e-5
        )
        (code,) = blocks("bash", "curl -s http://localhost:8501/v1/models/tickets:predict")
        answer = json.loads("".join(printed_by(["bash"], code, ports)))
        scores = [row["scores"] for row in answer["predictions"]]
        expected = signatures.model.predict(TEXTS, verbose=0)
        np.testing.assert_allclose(scores, expected, atol=1e-5)


@pytest.mark.slow
def test_random_requests_of_the_tools_client(exported, tmp_path):
    """The client that tests the C API and the stand-in of TensorFlow Serving."""
    signatures, folder = exported("single_label")
    with running(folder) as client:
        counts = fuzz(signatures, folder / "1", 300, tmp_path, ("rest", client.port, folder.name))
    assert counts["inputs"] >= 300
