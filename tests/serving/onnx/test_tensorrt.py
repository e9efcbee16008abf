"""Standard graphs have the operators, types and quantization that TensorRT's parser documents."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper, shape_inference
from onnxruntime.tools.onnx_model_utils import fix_output_shapes, make_dim_param_fixed

from keras_bert_impl.serving.onnx import Session, export_onnx, write_graph
from tests.serving.network_models import ARCHITECTURES, FEW_HEADS, TOLERANCE, features, models

# From onnx-tensorrt's list of supported operators. TensorRT converts INT64 to INT32, or computes it.
_FLOAT = {TensorProto.FLOAT, TensorProto.FLOAT16}
_NUMBER = _FLOAT | {TensorProto.INT32, TensorProto.INT64}
_ANY = _NUMBER | {TensorProto.BOOL}
OPERATORS = {
    **dict.fromkeys(("Abs", "Add", "Div", "Equal", "Gather", "GreaterOrEqual"), _NUMBER),
    **dict.fromkeys(("LessOrEqual", "Max", "Mul", "Range", "Sub", "Sum"), _NUMBER),
    **dict.fromkeys(("Cos", "CumSum", "Erf", "LayerNormalization", "MatMul"), _FLOAT),
    **dict.fromkeys(("ReduceL2", "ReduceMax", "ReduceSum", "Relu", "Sin", "Softmax"), _FLOAT),
    **dict.fromkeys(("Sqrt", "Tanh", "QuantizeLinear"), _FLOAT),
    **dict.fromkeys(("Cast", "Concat", "Reshape", "Shape", "Slice", "Squeeze"), _ANY),
    **dict.fromkeys(("Transpose", "Unsqueeze", "Where"), _ANY),
    **dict.fromkeys(("And", "Not"), {TensorProto.BOOL}),
    "DequantizeLinear": {TensorProto.INT8},
}
# Index of an input that must be an initializer.
_CONSTANT = {"CumSum": 1, "Slice": 3, "Squeeze": 1, "Unsqueeze": 1}


def unsupported(proto):
    """Returns (operator, type of its first input) of the nodes that are not in the list."""
    graph = shape_inference.infer_shapes(proto).graph
    values = [*graph.value_info, *graph.input, *graph.output]
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    constants = {tensor.name: tensor.data_type for tensor in graph.initializer}
    types |= constants
    pairs = set()
    for node in graph.node:
        place = _CONSTANT.get(node.op_type, len(node.input))
        is_variable = place < len(node.input) and node.input[place] not in constants
        kind = types.get(node.input[0])
        if node.domain or kind not in OPERATORS.get(node.op_type, ()) or is_variable:
            pairs.add((node.op_type, kind))
    return pairs


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_operators(kind, dtype):
    for model in models(kind, FEW_HEADS).values():
        assert unsupported(write_graph(model, dtype, fused=False)) == set()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_operators_of_all_heads(kind):
    for name, model in models(kind).items():
        assert unsupported(write_graph(model, fused=False)) == set(), name


def test_int8_is_symmetric(tmp_path):
    model = models("bert", ("classifier",))["classifier"]
    texts = ["a good film", "the plot is dull", "not a joy"] * 3
    report = export_onnx(model, tmp_path / "int8", "int8", fused=False, calibration=texts)
    assert 1e-4 < report.difference < 0.2
    proto = onnx.load(tmp_path / "int8/model.onnx")
    assert unsupported(proto) == set()
    tensors = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    made_by = {output: node for node in proto.graph.node for output in node.output}
    pairs = [node for node in proto.graph.node if "QuantizeLinear" in node.op_type
             or node.op_type == "DequantizeLinear"]  # fmt: skip
    for node in pairs:
        zero = tensors[node.input[2]]
        assert zero.dtype == np.int8 and not zero.any()
    products = [node for node in proto.graph.node if node.op_type == "MatMul"]
    quantized = [
        node for node in products if all(made_by[n].op_type == "DequantizeLinear" for n in node.input)
    ]  # fmt: skip
    # All products: eight per layer, of which six have weights, the pooler and the head.
    assert len(quantized) == len(products) == 18
    with_weights = [node for node in quantized if made_by[node.input[1]].input[0] in made_by]
    by_columns = [
        node
        for node in with_weights
        if made_by[made_by[node.input[1]].input[0]].input[0] in tensors
    ]
    assert len(by_columns) == 14
    for node in by_columns:  # a scale per column of the weights, one for the activations
        scales = [tensors[made_by[name].input[1]] for name in node.input]
        weights = tensors[made_by[made_by[node.input[1]].input[0]].input[0]]
        assert scales[0].shape == () and scales[1].shape == weights.shape[1:]


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert"])
def test_shapes_can_be_fixed(kind):
    model = models(kind, ("classifier",))["classifier"]
    inputs = features(model)
    proto = write_graph(model, fused=False)
    expected = Session(proto.SerializeToString(), model.config)(inputs)
    for name, size in zip(("batch", "length"), inputs["token_ids"].shape, strict=True):
        make_dim_param_fixed(proto.graph, name, size)
    fix_output_shapes(proto)
    for value in [*proto.graph.input, *proto.graph.output]:
        assert all(dim.dim_value for dim in value.type.tensor_type.shape.dim)
    received = Session(proto.SerializeToString(), model.config)(inputs)
    np.testing.assert_allclose(received["logits"], expected["logits"], atol=TOLERANCE)
