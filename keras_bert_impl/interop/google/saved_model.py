"""What the program in a SavedModel says of the model in it; it is read, and never run."""

import dataclasses
import struct
from pathlib import Path

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.reading import read_bytes

_MAX_NODES = 12  # the scale of an attention is this near to its softmax


@dataclasses.dataclass(frozen=True)
class Program:
    """Settings that no shape of a tensor may show.

    Args:
        path: `Path` of the file, for messages.
        hidden_act: str, as in a Hugging Face configuration.
        num_layers: int. Attentions that come one after another.
        head_width: int, the width of an attention head, or None where the program scales by no
            constant.
    """

    path: Path
    hidden_act: str
    num_layers: int
    head_width: int | None


def read_program(path):
    """Reads the operations in a SavedModel.

    Args:
        path: `Path` of a `saved_model.pb`.

    Returns:
        `Program`.

    Raises:
        InputError: the file is damaged, or has no attention in it.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    saved = SavedModel()
    try:
        saved.ParseFromString(read_bytes(path))
    except DecodeError as error:
        raise InputError(f"{path} cannot be read: {error}.") from error
    # TensorFlow 1 has graphs, TensorFlow 2 functions that call each other; the largest one has all
    # layers in it.
    graphs = [meta.graph_def.node for meta in saved.meta_graphs]
    for meta in saved.meta_graphs:
        graphs += [function.node_def for function in meta.graph_def.library.function]
    widths = max(map(_head_widths, graphs), key=len, default=[])
    if not widths:
        raise InputError(f"{path} has no program with an encoder in it.")
    operations = {node.op for nodes in graphs for node in nodes}
    return Program(path, _activation(operations), len(widths), widths[0])


def _activation(operations):
    if operations & {"Erf", "Erfc"}:
        return "gelu"
    return "relu" if "Relu" in operations else "gelu_new"


def _head_widths(nodes):
    """The width of the heads of each attention; None for all where none has a scale."""
    softmaxes = [node for node in nodes if node.op == "Softmax"]
    by_name = {node.name: node for node in nodes} if softmaxes else {}
    widths = [_head_width(softmax, by_name) for softmax in softmaxes]
    return [width for width in widths if width is not None] or widths


def _head_width(softmax, by_name):
    """What an attention scales its scores for, by `1 / sqrt(width)`; None for another softmax."""
    ahead = [softmax]
    for node in ahead:
        if len(ahead) > _MAX_NODES:
            return None
        inputs = [by_name.get(_producer(name)) for name in node.input[:_MAX_NODES]]
        inputs = [found for found in inputs if found is not None]
        if node.op == "Mul":
            for scale in map(_scalar, inputs):
                if 1e-3 < scale <= 1:  # the mask is multiplied, too: by a large negative number
                    return round(scale**-2)
        ahead += inputs
    return None


def _producer(name):
    """The node that an input comes from: `node`, `node:2`, `node:output:0` or `^node`."""
    return name.lstrip("^").split(":")[0]


def _scalar(node):
    """The number of a constant without dimensions; 0 for anything else."""
    from tensorflow.core.framework.types_pb2 import DT_FLOAT

    tensor = node.attr["value"].tensor
    if node.op != "Const" or tensor.dtype != DT_FLOAT or tensor.tensor_shape.dim:
        return 0.0
    if len(tensor.tensor_content) == 4:
        return struct.unpack("<f", tensor.tensor_content)[0]
    return tensor.float_val[0] if len(tensor.float_val) == 1 else 0.0
