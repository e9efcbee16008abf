"""8-bit weight compression for OpenVINO, which multiplies with the 8-bit weights directly."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

_FEWEST = 1024  # values; smaller weights are not worth compressing
# Operator -> (index of its weight input, axis with one scale per index): a scale per token vector
# for embeddings, per column for matrices.
_WEIGHTS = {"Gather": (0, 0), "MatMul": (1, 1)}


def compress(proto: onnx.ModelProto) -> None:
    """Converts embeddings and matrices of a graph to int8, with a scale per vector or column."""
    tensors = {tensor.name: tensor for tensor in proto.graph.initializer}
    nodes = []
    for node in proto.graph.node:
        index, axis = _WEIGHTS.get(node.op_type, (None, None))
        name = node.input[index] if index is not None else None
        if name in tensors and _is_large(tensors[name]):  # converted once, even if shared
            weight = numpy_helper.to_array(tensors.pop(name))
            parts = [f"{name}/{part}" for part in ("int8", "scale", "zero")]
            for part, array in zip(parts, _quantized(weight, axis)):
                tensors[part] = numpy_helper.from_array(array, part)
            nodes.append(helper.make_node("DequantizeLinear", parts, [name], axis=axis))
        nodes.append(node)
    for field, content in ((proto.graph.node, nodes), (proto.graph.initializer, tensors.values())):
        content = list(content)
        del field[:]
        field.extend(content)


def _is_large(tensor):
    is_matrix = tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) == 2
    return is_matrix and np.prod(tensor.dims) >= _FEWEST


def _quantized(weight, axis):
    """Returns (int8 values, float32 scales, int8 zero points) of a matrix."""
    scale = np.abs(weight).max(axis=1 - axis) / 127
    scale = np.where(scale == 0, 1, scale).astype("float32")
    numbers = np.round(weight / np.expand_dims(scale, 1 - axis)).astype("int8")
    return numbers, scale, np.zeros(len(scale), "int8")
