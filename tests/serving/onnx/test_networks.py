"""ONNX Runtime agrees with Keras for every architecture and head."""

import collections

import numpy as np
import onnx
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, RuntimeException

from keras_bert_impl.checkpoints.config import Adapter
from keras_bert_impl.serving.graphs.networks import encoder_of
from keras_bert_impl.serving.network import proof
from keras_bert_impl.serving.onnx import Session, write_graph
from keras_bert_impl.utils.errors import InputError
from tests.serving.network_models import (
    ARCHITECTURES,
    FEW_HEADS,
    TOLERANCE,
    difference_from_keras,
    encoder,
    features,
    models,
)
from tests.tasks import helpers


def check_agreement(instances):
    differences = {}
    for name, model in instances.items():
        inputs = features(model)
        for fused in (True, False):
            proto = write_graph(model, fused=fused)
            onnx.checker.check_model(proto, full_check=True)
            session = Session(proto.SerializeToString(), encoder_of(model).config)
            differences[name, fused] = difference_from_keras(session, model, inputs)
    assert {key: value for key, value in differences.items() if not value <= TOLERANCE} == {}


# The other architectures are each similar to one of these.
@pytest.mark.parametrize(
    "kind", ["roberta", "albert", "distilbert", "flaubert-large", "modernbert"]
)
def test_architecture_agrees_with_keras(kind):
    check_agreement(models(kind, FEW_HEADS))


def test_heads_of_bert_agree_with_keras():
    check_agreement(models("bert"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(ARCHITECTURES)[1:])
def test_heads_of_others_agree_with_keras(kind):
    check_agreement(models(kind))


def test_padding_changes_nothing():
    model = encoder("bert")
    inputs = features(model)  # rows of 9, 4 and 1 tokens
    session = Session(write_graph(model, "float16").SerializeToString(), model.config)
    alone = {name: array[1:2, :4] for name, array in inputs.items()}
    padded, unpadded = (session(rows)["last_hidden_state"] for rows in (inputs, alone))
    # The weight of a masked token is exactly 0. 11 bits, values of magnitude 1.
    np.testing.assert_allclose(padded[1, :4], unpadded[0], atol=5e-3)


def test_blocks_are_those_of_onnx_runtime():
    proto = write_graph(encoder("bert"))
    counts = collections.Counter(node.op_type for node in proto.graph.node)
    of_ids = ("And", "GreaterOrEqual", "LessOrEqual", "Where", "Unsqueeze")
    ignored = ("Cast", "Gather", "Tanh", *of_ids)
    assert {op: n for op, n in counts.items() if op not in ignored} == {
        "EmbedLayerNormalization": 1,
        "Shape": 1,
        "Attention": 2,
        "MatMul": 7,  # three per layer, and the pooler
        "BiasGelu": 2,
        "SkipLayerNormalization": 4,
        # The pooler's bias, the biases that ONNX Runtime moves into the normalization at load, and
        # NaN for ids without an embedding.
        "Add": 6,
    }


def test_standard_graph_has_no_other_operators():
    proto = write_graph(encoder("bert"), fused=False)
    assert {node.domain for node in proto.graph.node} == {""}
    assert [opset.domain for opset in proto.opset_import] == [""]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("feature", ["token_ids", "segment_ids"])
@pytest.mark.parametrize("wrong", [-1, 40, 2**33, -(2**33) + 1])
def test_an_id_without_embedding_is_no_other_one(fused, feature, wrong, monkeypatch):
    model = encoder("bert")
    session = Session(write_graph(model, fused=fused).SerializeToString(), model.config)
    inputs = {name: array.astype("int64") for name, array in features(model).items()}
    expected = session(inputs)["last_hidden_state"]
    inputs[feature][1, 2] = wrong
    with pytest.raises(InputError, match=rf"{feature} must be in .* Received: {wrong} at \[1, 2\]"):
        session(inputs)
    monkeypatch.setattr(proof, "check_values", lambda *_: None)  # like a client that does not check
    try:
        outputs = session(inputs)["last_hidden_state"]
    except (InvalidArgument, RuntimeException):
        return
    assert np.isnan(outputs[1]).all()
    np.testing.assert_allclose(outputs[::2], expected[::2], atol=TOLERANCE)


def test_weights_that_layers_share_are_written_once():
    def bytes_of(proto):
        return sum(len(tensor.raw_data) for tensor in proto.graph.initializer)

    model = encoder("albert")
    written = bytes_of(write_graph(model))
    # Other than the weights, the file has only constants.
    assert 4 * model.count_params() <= written < 4 * model.count_params() + 100


def test_inputs_are_those_of_the_encoder():
    def names(kind):
        return [value.name for value in write_graph(encoder(kind)).graph.input]

    assert names("bert") == ["input_ids", "attention_mask", "token_type_ids"]
    assert names("roberta") == names("distilbert") == ["input_ids", "attention_mask"]


def test_rejects_adapters():
    model = helpers.encoder(adapter=Adapter("lora", 2))
    with pytest.raises(InputError, match="keras-bert merge"):
        write_graph(model)
