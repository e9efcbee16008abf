"""Weights in 8 bits that OpenVINO multiplies with as they are."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

_FEWEST = 1024  # numbers of a weight that is worth it
# Where an operator takes weights, and along which axis each part of them is of one size: a token's
# vector, a column of a matrix.
_PLACES = {"Gather": (0, 0), "MatMul": (1, 1)}


def compress(proto):
    """Makes embeddings and matrices of a graph int8, each vector or column with its own scale.

    `DequantizeLinear` before their use makes them float32 again. OpenVINO does not: it keeps such
    weights, and takes what they are multiplied with in 8 bits, too, in groups of 32 numbers.

    Args:
        proto: `onnx.ModelProto` in float32, of the operators of the standard.
    """
    tensors = {tensor.name: tensor for tensor in proto.graph.initializer}
    nodes = []
    for node in proto.graph.node:
        place, axis = _PLACES.get(node.op_type, (None, None))
        name = node.input[place] if place is not None else None
        if name in tensors and _is_large(tensors[name]):  # one that others take, too, once
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
    """(int8 numbers, float32 scales, int8 zeros) of a matrix."""
    scale = np.abs(weight).max(axis=1 - axis) / 127
    scale = np.where(scale == 0, 1, scale).astype("float32")
    numbers = np.round(weight / np.expand_dims(scale, 1 - axis)).astype("int8")
    return numbers, scale, np.zeros(len(scale), "int8")
