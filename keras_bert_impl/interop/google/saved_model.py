"""Reads model settings from the program in a SavedModel, without running it."""

import dataclasses
import struct
from pathlib import Path

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.reading import read_bytes

_MAX_NODES = 12  # an attention's scale is at most this many nodes from its softmax


@dataclasses.dataclass(frozen=True)
class Program:
    """Settings that tensor shapes do not always show.

    Args:
        path: The file, for error messages.
        hidden_act: Activation, as in a Hugging Face configuration.
        num_layers: Number of consecutive attentions.
        head_width: Width of an attention head, or None if the program does not scale by a constant.
    """

    path: Path
    hidden_act: str
    num_layers: int
    head_width: int | None


def read_program(path: Path) -> Program:
    """Reads settings from the operations in a `saved_model.pb`."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    saved = SavedModel()
    try:
        saved.ParseFromString(read_bytes(path))
    except DecodeError as error:
        raise InputError(f"{path} cannot be read: {error}.") from error
    # TensorFlow 1 has graphs; TensorFlow 2 has functions that call each other. The largest one
    # contains all layers.
    graphs = [meta.graph_def.node for meta in saved.meta_graphs]
    for meta in saved.meta_graphs:
        graphs += [function.node_def for function in meta.graph_def.library.function]
    widths: list[int | None] = max(map(_head_widths, graphs), key=len, default=[])
    if not widths:
        raise InputError(f"{path} has no graph with an encoder.")
    operations = {node.op for nodes in graphs for node in nodes}
    return Program(path, _activation(operations), len(widths), widths[0])


def _activation(operations):
    if operations & {"Erf", "Erfc"}:
        return "gelu"
    return "relu" if "Relu" in operations else "gelu_new"


def _head_widths(nodes):
    """Returns the head width of each attention; all None if none has a scale."""
    softmaxes = [node for node in nodes if node.op == "Softmax"]
    by_name = {node.name: node for node in nodes} if softmaxes else {}
    widths = [_head_width(softmax, by_name) for softmax in softmaxes]
    return [width for width in widths if width is not None] or widths


def _head_width(softmax, by_name):
    """Returns the head width an attention scales scores for; None for another softmax."""
    ahead = [softmax]
    for node in ahead:
        if len(ahead) > _MAX_NODES:
            return None
        inputs = [by_name.get(_producer(name)) for name in node.input[:_MAX_NODES]]
        inputs = [found for found in inputs if found is not None]
        if node.op == "Mul":
            for scale in map(_scalar, inputs):
                if 1e-3 < scale <= 1:  # excludes the mask, scaled by a large negative number
                    return round(scale**-2)
        ahead += inputs
    return None


def _producer(name):
    """Returns the node of an input: `node`, `node:2`, `node:output:0` or `^node`."""
    return name.lstrip("^").split(":")[0]


def _scalar(node):
    """Returns the value of a scalar float constant; 0 for any other node."""
    from tensorflow.core.framework.types_pb2 import DT_FLOAT

    tensor = node.attr["value"].tensor
    if node.op != "Const" or tensor.dtype != DT_FLOAT or tensor.tensor_shape.dim:
        return 0.0
    if len(tensor.tensor_content) == 4:
        return struct.unpack("<f", tensor.tensor_content)[0]
    return tensor.float_val[0] if len(tensor.float_val) == 1 else 0.0
