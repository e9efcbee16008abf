"""gRPC of a running server: answers as over HTTP, errors by code, limits."""

import json
import resource
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import json_format
from grpc import StatusCode
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from keras_bert_impl.serving.check import TOLERANCE, difference_of_rows
from tests.serving.asking import fuzz
from tests.serving.families import FAMILIES
from tests.serving.server.servers import running
from tests.serving.test_clients import TEXTS as CLIENT_TEXTS
from tests.serving.test_clients import blocks, printed_by

TEXTS = ["a good film", "awful"]


@pytest.fixture(scope="module")
def served(exported):
    with running(exported("single_label")[1], grpc=True, max_bytes=10_000, max_rows=3) as client:
        yield client


@pytest.fixture(scope="module")
def channel(served):
    with grpc.insecure_channel(f"127.0.0.1:{served.grpc_port}") as channel:
        yield channel


@pytest.fixture(scope="module")
def service(channel):
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


def request_of(inputs, name="single_label", signature=""):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    for key, value in inputs.items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
    return request


def arrays_of(response):
    return {name: tf.make_ndarray(tensor) for name, tensor in response.outputs.items()}


def error_of(call, request):
    """(code, message) of a request that is refused."""
    with pytest.raises(grpc.RpcError) as raised:
        call(request, timeout=30)
    return raised.value.code(), raised.value.details()


def decoded(value):
    """Returns nested lists with str in the place of bytes."""
    if isinstance(value, list):
        return list(map(decoded, value))
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_predictions_of_every_family_equal_those_of_the_model(exported, family):
    signatures, folder = exported(family)
    inputs = FAMILIES[family][1]
    with (
        running(folder, grpc=True) as client,
        grpc.insecure_channel(f"127.0.0.1:{client.grpc_port}") as channel,
    ):
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        arrays = arrays_of(stub.Predict(request_of(inputs, family)))
    rows = zip(*(decoded(array.tolist()) for array in arrays.values()))
    received = [dict(zip(arrays, row)) for row in rows]
    assert difference_of_rows(signatures.reference(**inputs), received) <= TOLERANCE


def test_answers_equal_those_of_rest(served, service):
    response = service.Predict(request_of({"text": TEXTS}))
    assert response.model_spec.name == "single_label"
    assert response.model_spec.signature_name == "serving_default"
    assert response.model_spec.version.value == 1
    _, answer = served.predict({"inputs": TEXTS})
    arrays = arrays_of(response)
    assert arrays.keys() == answer["outputs"].keys()
    assert [text.decode() for text in arrays["label"]] == answer["outputs"]["label"]
    np.testing.assert_allclose(arrays["scores"], answer["outputs"]["scores"], rtol=0, atol=1e-6)


def test_another_signature_and_a_version(service):
    request = request_of({"first": TEXTS, "second": TEXTS}, signature="pairs")
    request.model_spec.version.value = 1
    assert arrays_of(service.Predict(request))["label"].shape == (2,)


def test_output_filter(service):
    request = request_of({"text": TEXTS})
    request.output_filter.append("label")
    assert list(service.Predict(request).outputs) == ["label"]
    request.output_filter.append("colour")
    code, message = error_of(service.Predict, request)
    assert code == StatusCode.INVALID_ARGUMENT and "no output 'colour'. The outputs are " in message


def test_requests_are_joined(served, service):
    texts = [f"text {number}" for number in range(16)]
    expected = [arrays_of(service.Predict(request_of({"text": [text]}))) for text in texts]
    begin = threading.Barrier(len(texts))

    def predict(text):
        begin.wait()
        return arrays_of(service.Predict(request_of({"text": [text]})))

    before = served.metric("keras_bert_batch_rows_count")
    with ThreadPoolExecutor(len(texts)) as pool:
        received = list(pool.map(predict, texts))
    assert served.metric("keras_bert_batch_rows_count") - before < len(texts)
    for alone, joined in zip(expected, received):
        np.testing.assert_allclose(alone["scores"], joined["scores"], rtol=0, atol=1e-5)


def test_metadata_and_status_equal_those_of_rest(served, service, channel):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "single_label"
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert service.GetModelMetadata(request).metadata["signature_def"].Unpack(signatures)
    received = json_format.MessageToDict(
        signatures, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    answer = json.loads(served.get(f"{served.path}/metadata")[1])
    assert received["signature_def"] == answer["metadata"]["signature_def"]["signature_def"]
    models = model_service_pb2_grpc.ModelServiceStub(channel)
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "single_label"
    (state,) = models.GetModelStatus(request).model_version_status
    assert (state.version, state.state, state.status.error_code) == (1, 30, 0)  # AVAILABLE, OK


@pytest.mark.parametrize(
    "inputs, message",
    [
        ({}, "has the inputs text. Received: none"),
        ({"text": TEXTS, "more": TEXTS}, "has the inputs text. Received: more, text"),
        ({"text": [1, 2]}, "Input 'text' must be string."),
        ({"text": "a"}, "must have the shape [?]. Received: []"),
        ({"text": [["a"]]}, "must have the shape [?]. Received: [1, 1]"),
        ({"text": ["a"] * 4}, "has 4 rows, but the maximum of this server is 3"),
    ],
)
def test_refuses_other_inputs(service, inputs, message):
    code, text = error_of(service.Predict, request_of(inputs))
    assert code == StatusCode.INVALID_ARGUMENT and message in text


@pytest.mark.parametrize("sizes", [[1 << 40], [-1], [3, 1 << 62], [2], [0]])
def test_refuses_shapes_that_do_not_fit_the_values(service, sizes):
    request = request_of({"text": ["a", "b", "c"]})
    del request.inputs["text"].tensor_shape.dim[:]
    for size in sizes:
        request.inputs["text"].tensor_shape.dim.add(size=size)
    assert error_of(service.Predict, request)[0] == StatusCode.INVALID_ARGUMENT


def test_a_short_message_cannot_ask_for_much_memory(served, service):
    ids = tf.make_tensor_proto(np.zeros([1, 2], "int32"))
    ids.tensor_content = b""
    ids.int_val.append(7)
    ids.tensor_shape.dim[1].size = 1 << 40
    request = request_of({}, signature="ids")
    for name in ("token_ids", "segment_ids", "padding_mask"):
        request.inputs[name].CopyFrom(ids)
    code, message = error_of(service.Predict, request)
    assert code == StatusCode.INVALID_ARGUMENT and "more than 10000 values" in message


def test_names_that_do_not_exist(service):
    code, message = error_of(service.Predict, request_of({"text": TEXTS}, name="none"))
    assert (code, message) == (
        StatusCode.NOT_FOUND, "Servable not found for request: Latest(none); this server has the model single_label"
    )  # fmt: skip
    request = request_of({"text": TEXTS})
    request.model_spec.version.value = 7
    assert error_of(service.Predict, request)[0] == StatusCode.NOT_FOUND
    request.model_spec.version_label = "stable"
    code, message = error_of(service.Predict, request)
    assert code == StatusCode.INVALID_ARGUMENT and "label: stable" in message
    code, message = error_of(service.Predict, request_of({"text": TEXTS}, signature="none"))
    assert code == StatusCode.INVALID_ARGUMENT and '"none" not found' in message
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["colour"])
    assert error_of(service.GetModelMetadata, request)[0] == StatusCode.INVALID_ARGUMENT


def test_methods_that_no_export_has(service):
    code, message = error_of(service.Regress, regression_pb2.RegressionRequest())
    assert code == StatusCode.UNIMPLEMENTED and "Use Predict" in message


def test_large_and_compressed_messages(service, channel):
    code, _ = error_of(service.Predict, request_of({"text": ["a" * 20_000]}))
    assert code == StatusCode.RESOURCE_EXHAUSTED
    # A million zeros that take a kilobyte on the wire.
    request = request_of({"text": ["a" * 1_000_000]})
    assert len(zlib.compress(request.SerializeToString())) < 2_000
    with pytest.raises(grpc.RpcError) as raised:
        service.Predict(request, timeout=30, compression=grpc.Compression.Gzip)
    assert raised.value.code() == StatusCode.RESOURCE_EXHAUSTED


def test_what_is_no_message_is_refused_and_counted(served, channel):
    line = 'keras_bert_requests_total{code="INVALID_ARGUMENT",method="grpc Predict"}'
    before = served.metric(line)
    predict = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    code, message = error_of(predict, b"\xff\xff")
    assert (code, message) == (
        StatusCode.INVALID_ARGUMENT,
        "The message is not a request of Predict.",
    )
    assert served.metric(line) == before + 1


def test_what_is_no_message_keeps_no_memory(channel):
    # grpcio 1.85 keeps 19 KB of each that its own parser refuses: 57 MB here.
    predict = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")

    def megabytes_after(count):
        for _ in range(count):
            error_of(predict, b"\xff\xff")
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 2**20

    before = megabytes_after(500)
    assert megabytes_after(3000) - before < 20


def test_metrics_count_requests_by_code(served, service):
    line = 'keras_bert_requests_total{code="%s",method="grpc Predict"}'
    before = [served.metric(line % code) for code in ("OK", "NOT_FOUND")]
    service.Predict(request_of({"text": TEXTS}))
    error_of(service.Predict, request_of({"text": TEXTS}, name="none"))
    after = [served.metric(line % code) for code in ("OK", "NOT_FOUND")]
    assert [b - a for a, b in zip(before, after)] == [1, 1]


def test_stopping_answers_what_runs(exported):
    with (
        running(exported("single_label")[1], grpc=True, batch_timeout=1.0) as client,
        grpc.insecure_channel(f"127.0.0.1:{client.grpc_port}") as channel,
    ):
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        future = stub.Predict.future(request_of({"text": TEXTS}))
        while not len(client.server._batcher):
            assert not future.done()
        client.server.stop()
        assert arrays_of(future.result(timeout=30))["label"].shape == (2,)
        assert error_of(stub.Predict, request_of({"text": TEXTS}))[0] == StatusCode.UNAVAILABLE


@pytest.mark.slow
def test_random_requests(exported, tmp_path):
    signatures, folder = exported("single_label")
    with running(folder, grpc=True) as client:
        where = ("grpc", client.grpc_port, "single_label")
        fuzz(signatures, folder / "1", 2000, tmp_path, where, seed=1)


@pytest.mark.slow
def test_the_client_of_the_documentation(exported, tmp_path):
    folder = tmp_path / "tickets"
    folder.symlink_to(exported("single_label")[1])
    (code,) = blocks("python", "PredictionServiceStub")
    with running(folder, grpc=True) as client:
        ports = {"port": client.grpc_port, "rest_port": client.port}
        lines = printed_by([sys.executable], code, ports)
        _, answer = client.predict({"inputs": CLIENT_TEXTS})
    assert [line.split()[0] for line in lines] == answer["outputs"]["label"]
