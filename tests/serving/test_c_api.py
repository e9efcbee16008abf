"""SavedModels in TensorFlow's C API, as in a C++ server, and in Python without this package."""

import json

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_bert_impl.serving import export_saved_model
from keras_bert_impl.serving.check import TOLERANCE, difference_of_rows, largest_difference
from keras_bert_impl.serving.graph_operations import read_graph
from keras_bert_impl.utils.optional_libraries import tensorflow_text
from tests.serving.asking import fuzz, output_of
from tests.serving.families import FAMILIES, signatures_of

OF_TEXT = {"FastWordpieceTokenizeWithOffsets"} if tensorflow_text else set()
SLOW_INPUTS = -(-100_000 // len(FAMILIES))
SOME_SLOW = [
    pytest.param(name, marks=[] if name == "single_label" else [pytest.mark.slow])
    for name in FAMILIES
]


@pytest.fixture(scope="module", params=SOME_SLOW)
def exported(request, tmp_path_factory):
    """(name of the family, `Signatures`, `Path` of the SavedModel)."""
    signatures = signatures_of(request.param)
    directory = tmp_path_factory.mktemp("exported") / "model"
    export_saved_model(signatures, directory)
    return request.param, signatures, directory


def test_a_stock_server_knows_the_operations(exported):
    """Only TensorFlow's operations, and one of TF-Text that TensorFlow Serving has long had."""
    saved = saved_model_pb2.SavedModel.FromString((exported[2] / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    nodes = [*graph.node, *(node for body in graph.library.function for node in body.node_def)]
    functions = {body.signature.name for body in graph.library.function}
    operations = {node.op for node in nodes} - set(dir(tf.raw_ops)) - functions
    assert operations == OF_TEXT
    assert read_graph(exported[2]).meta_graphs


@pytest.mark.parametrize("custom_ops", [True, False])
def test_serve_knows_the_operations_of_every_task(tmp_path, custom_ops):
    """Exports in other numeric formats and of other encoders are read in the tests of these."""
    for name in FAMILIES:
        signatures = signatures_of(name)
        signatures.custom_ops = custom_ops
        export_saved_model(signatures, tmp_path / name)
        assert read_graph(tmp_path / name).meta_graphs


@pytest.mark.slow
def test_the_session_agrees_with_the_model(exported):
    family, signatures, directory = exported
    inputs = FAMILIES[family][1]
    lines = output_of(["tools/serving/c_api.py", directory], json.dumps(inputs))
    rows = [json.loads(line) for line in lines]
    assert difference_of_rows(signatures.reference(**inputs), rows) <= TOLERANCE


@pytest.mark.slow
def test_a_process_without_this_package_agrees_with_the_model(exported):
    family, signatures, directory = exported
    assert largest_difference(signatures, directory, FAMILIES[family][1]) <= TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("inputs", [300, SLOW_INPUTS])
def test_random_requests_are_answered_correctly_or_rejected(exported, inputs, tmp_path):
    _, signatures, directory = exported
    fuzz(signatures, directory, inputs, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("texts", [["good film " * 100_000], ["good film"] * 10_000])
def test_large_requests_are_answered(exported, texts):
    """Sends one text of 1 MB, and 10,000 texts."""
    _, signatures, directory = exported
    inputs = {
        name: texts if rank == 1 else [[text] * 2 for text in texts]
        for name, rank in signatures.strings.items()
    }
    lines = output_of(["tools/serving/c_api.py", directory], json.dumps(inputs))
    assert len(lines) == len(texts)
