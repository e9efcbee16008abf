"""Settings of Google models, read from JSON or YAML files, tensor shapes and SavedModels."""

import dataclasses
import struct
from pathlib import Path
from typing import Any

from keras_bert_impl.checkpoints.interop.google.named import GoogleTensors
from keras_bert_impl.checkpoints.interop.layouts import LAYOUTS
from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.reading import file_within, read_bytes, read_json, read_yaml

_MAX_NODES = 12  # maximum number of nodes between the scale and the softmax of an attention


@dataclasses.dataclass(frozen=True)
class Program:
    """Settings of an encoder, read from the operations of a SavedModel.

    Args:
        path: The file, for error messages.
        hidden_act: Hugging Face name of the activation.
        num_layers: Number of consecutive attention layers.
        head_width: Width of an attention head; None if the attention scale is not a constant.
    """

    path: Path
    hidden_act: str
    num_layers: int
    head_width: int | None


def read_program(path: Path) -> Program:
    """Infers settings from the operations in a `saved_model.pb`."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    saved = SavedModel()
    try:
        saved.ParseFromString(read_bytes(path))
    except DecodeError as error:
        raise InputError(f"{path} cannot be read: {error}.") from error
    # TensorFlow 1 files contain graphs; TensorFlow 2 files contain functions. The largest graph or
    # function contains all layers.
    graphs = [meta.graph_def.node for meta in saved.meta_graphs]
    for meta in saved.meta_graphs:
        graphs += [function.node_def for function in meta.graph_def.library.function]
    widths: list[int | None] = max(map(_compute_head_widths, graphs), key=len, default=[])
    if not widths:
        raise InputError(f"{path} contains no graph with an encoder.")
    operations = {node.op for nodes in graphs for node in nodes}
    return Program(path, _detect_activation(operations), len(widths), widths[0])


def _detect_activation(operations):
    if operations & {"Erf", "Erfc"}:
        return "gelu"
    return "relu" if "Relu" in operations else "gelu_new"


def _compute_head_widths(nodes):
    softmaxes = [node for node in nodes if node.op == "Softmax"]
    by_name = {node.name: node for node in nodes} if softmaxes else {}
    widths = [_compute_head_width(softmax, by_name) for softmax in softmaxes]
    return [width for width in widths if width is not None] or widths


def _compute_head_width(softmax, by_name):
    """Computes the width of an attention head from the attention scale, if there is one."""
    ahead = [softmax]
    for node in ahead:
        if len(ahead) > _MAX_NODES:
            return None
        inputs = [by_name.get(_extract_node_name(name)) for name in node.input[:_MAX_NODES]]
        inputs = [producer for producer in inputs if producer is not None]
        if node.op == "Mul":
            for scale in map(_read_scalar, inputs):
                if 1e-3 < scale <= 1:  # The mask is multiplied by a large negative number.
                    return round(scale**-2)
        ahead += inputs
    return None


def _extract_node_name(name):
    """Returns the node name of an input such as `node`, `node:2`, `node:output:0` or `^node`."""
    return name.lstrip("^").split(":")[0]


def _read_scalar(node):
    """Returns the value of a scalar float constant, or 0 for any other node."""
    from tensorflow.core.framework.types_pb2 import DT_FLOAT

    tensor = node.attr["value"].tensor
    if node.op != "Const" or tensor.dtype != DT_FLOAT or tensor.tensor_shape.dim:
        return 0.0
    if len(tensor.tensor_content) == 4:
        return struct.unpack("<f", tensor.tensor_content)[0]
    return tensor.float_val[0] if len(tensor.float_val) == 1 else 0.0


_JSON_FILES = ("bert_config.json", "albert_config.json", "electra_config.json")
_YAML_KEYS = {  # Model Garden encoder key -> key of `bert_config.json`
    "num_layers": "num_hidden_layers",
    "hidden_activation": "hidden_act",
    "dropout_rate": "hidden_dropout_prob",
    "attention_dropout_rate": "attention_probs_dropout_prob",
    "embedding_width": "embedding_size",
}
# Pre-training head of each kind of model, in addition to the masked LM head.
_SECOND_HEADS = {"bert": "next_sentence", "albert": "sentence_order", "electra": "replaced_token"}


def read_settings(directory: Path) -> tuple[Path | None, dict[str, Any]]:
    """Returns (path of the configuration file, settings), or (None, {}) if the file is missing.

    The settings have the keys of `bert_config.json`.
    """
    # TF Hub modules have the file in `assets`.
    for name in (*_JSON_FILES, *(f"assets/{name}" for name in _JSON_FILES)):
        path = file_within(directory, name)
        if path.exists():
            return path, _drop_null(read_json(path))
    path = file_within(directory, "params.yaml")
    return (path, _drop_null(_read_yaml(path))) if path.exists() else (None, {})


def _read_yaml(path):
    encoder = read_yaml(path).mapping("task").mapping("model").mapping("encoder")
    settings = encoder.mapping(encoder.text("type"))
    if settings.flag("norm_first", False):
        raise InputError(f"{path}: norm_first=true is not supported.")
    return {_YAML_KEYS.get(key, key): settings[key] for key in settings if key != "norm_first"}


def _drop_null(settings):
    return {key: value for key, value in settings.items() if value is not None}


def huggingface_settings(
    model_type: str,
    tensors: GoogleTensors,
    file: Path | None,
    stated: dict[str, Any],
    num_heads: int | None = None,
    program: Program | None = None,
) -> dict[str, Any]:
    sizes = _infer_sizes(model_type, tensors, num_heads)
    if program is not None:
        sizes = _infer_program_sizes(program, sizes["hidden_size"][0]) | sizes
    for key, (value, where) in sizes.items():
        if stated.get(key, value) != value:
            raise InputError(f"{file}: {key} is {shown(stated[key])}, but {value} in {where}.")
    settings = {"layer_norm_eps": 1e-12, **stated}
    settings |= {key: value for key, (value, _) in sizes.items()}
    # These models have no configuration file. Their head width is always 64.
    if model_type == "electra":
        settings.setdefault("num_attention_heads", max(1, settings["hidden_size"] // 64))
    for key in ("num_hidden_layers", "num_attention_heads"):
        if key not in settings:
            raise InputError(
                f"{tensors.path}: the {key} of this {model_type} model is unknown. Add its "
                f"{model_type}_config.json to the directory."
            )
    head = _infer_head(model_type, tensors.header)
    if head == "classifier":
        settings["num_labels"] = _read_size(tensors, "classifier.weight", 0)[0]
    settings.setdefault("architectures", [LAYOUTS[model_type].classes[head]])
    return settings | {"model_type": model_type}


def _infer_program_sizes(program, hidden_size):
    where = f"the program in {program.path}"
    sizes = {"num_hidden_layers": (program.num_layers, where)}
    if program.head_width is not None:
        num_heads, remainder = divmod(hidden_size, program.head_width)
        if remainder:
            raise InputError(
                f"{where} has attention heads of width {program.head_width}, which does not divide "
                f"the width of the model, {hidden_size}."
            )
        sizes["num_attention_heads"] = num_heads, where
    return sizes


def _infer_sizes(model_type, tensors, num_heads):
    """Infers settings from tensor shapes; returns {setting: (value, tensor name)}."""
    embeddings = f"{model_type}.embeddings"
    words = f"{embeddings}.word_embeddings.weight"
    segments = f"{embeddings}.token_type_embeddings.weight"
    block = LAYOUTS[model_type].block
    # Prefix of tensor names in a block, up to the layer number.
    blocks = f"{model_type}.{block['attention/query'].partition('{')[0]}"
    query = f"{model_type}.{block['attention/query'].format(0)}.weight"
    inner = f"{model_type}.{block['intermediate'].format(0)}.weight"
    sizes = {
        "vocab_size": _read_size(tensors, words, 0),
        "max_position_embeddings": _read_size(
            tensors, f"{embeddings}.position_embeddings.weight", 0
        ),
        "type_vocab_size": _read_size(tensors, segments, 0),
        "hidden_size": _read_size(tensors, query, 1),
        "intermediate_size": _read_size(tensors, inner, 0),
    }
    numbers = {
        name: int(name[len(blocks) :].split(".")[0])
        for name in tensors.header
        if name.startswith(blocks)
    }
    last = max(numbers, key=numbers.get)
    key = "num_hidden_groups" if model_type == "albert" else "num_hidden_layers"
    sizes[key] = numbers[last] + 1, _describe_location(tensors, last)
    if model_type != "bert":
        sizes["embedding_size"] = _read_size(tensors, words, 1)
    if num_heads is not None:
        sizes["num_attention_heads"] = num_heads, _describe_location(tensors, query)
    return sizes


def _read_size(tensors, name, axis):
    _, shape = tensors.header.get(name, (None, None))
    if shape is None:
        raise InputError(f"{tensors.path}: tensor {name} is missing.")
    if len(shape) != 2:
        raise InputError(f"{tensors.path}: tensor {name} must be a matrix, not {shape}.")
    return shape[axis], _describe_location(tensors, name)


def _describe_location(tensors, name):
    return f"tensor {name} in {tensors.path}"


def _infer_head(model_type, header):
    """Infers the head, such as `"classifier"`, from the tensor names."""
    heads = LAYOUTS[model_type].heads()
    masked_lm = heads["masked_lm"][-1].tensor in header
    second = heads[_SECOND_HEADS[model_type]][0].tensor in header
    if "qa_outputs.weight" in header:
        return "question_answerer"
    if "classifier.weight" in header:
        return "classifier"
    if model_type == "electra" and second:
        return "replaced_token"
    if masked_lm and second:
        return "pretraining"
    if second and model_type == "bert":
        return "next_sentence"
    return "masked_lm" if masked_lm else None
