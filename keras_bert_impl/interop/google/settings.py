"""Configuration of Google models, from their JSON or YAML files and their tensor shapes."""

from pathlib import Path
from typing import Any

from keras_bert_impl.interop.google.saved_model import Program
from keras_bert_impl.interop.google.tensors import GoogleTensors
from keras_bert_impl.interop.layouts import LAYOUTS
from keras_bert_impl.io.errors import InputError, shown
from keras_bert_impl.io.reading import file_within, read_json, read_yaml

_JSON_FILES = ("bert_config.json", "albert_config.json", "electra_config.json")
_YAML_KEYS = {  # Model Garden encoder key -> key of `bert_config.json`
    "num_layers": "num_hidden_layers",
    "hidden_activation": "hidden_act",
    "dropout_rate": "hidden_dropout_prob",
    "attention_dropout_rate": "attention_probs_dropout_prob",
    "embedding_width": "embedding_size",
}
# Head of each model that was pre-trained together with the masked LM.
_SECOND_HEADS = {"bert": "next_sentence", "albert": "sentence_order", "electra": "replaced_token"}


def read_settings(directory: Path) -> tuple[Path | None, dict[str, Any]]:
    """Reads the configuration file of a directory.

    Returns:
        (path of the file, settings under the keys of `bert_config.json`), or (None, {}).
    """
    for name in (*_JSON_FILES, *(f"assets/{name}" for name in _JSON_FILES)):  # assets: TF Hub
        path = file_within(directory, name)
        if path.exists():
            return path, _without_null(read_json(path))
    path = file_within(directory, "params.yaml")
    return (path, _without_null(_read_yaml(path))) if path.exists() else (None, {})


def _read_yaml(path):
    encoder = read_yaml(path).mapping("task").mapping("model").mapping("encoder")
    settings = encoder.mapping(encoder.text("type"))
    if settings.flag("norm_first", False):
        raise InputError(f"{path}: norm_first is true; only false is supported.")
    return {_YAML_KEYS.get(key, key): settings[key] for key in settings if key != "norm_first"}


def _without_null(settings):
    return {key: value for key, value in settings.items() if value is not None}


def huggingface_settings(
    model_type: str,
    tensors: GoogleTensors,
    file: Path | None,
    stated: dict[str, Any],
    num_heads: int | None = None,
    program: Program | None = None,
) -> dict[str, Any]:
    """Creates a model's Hugging Face configuration."""
    sizes = _sizes(model_type, tensors, num_heads)
    if program is not None:
        sizes = _program_sizes(program, sizes["hidden_size"][0]) | sizes
    for key, (value, where) in sizes.items():
        if stated.get(key, value) != value:
            raise InputError(f"{file}: {key} is {shown(stated[key])}, but {value} in {where}.")
    settings = {"layer_norm_eps": 1e-12, **stated}
    settings |= {key: value for key, (value, _) in sizes.items()}
    if model_type == "electra":  # published without a configuration; all head widths are 64
        settings.setdefault("num_attention_heads", max(1, settings["hidden_size"] // 64))
    for key in ("num_hidden_layers", "num_attention_heads"):
        if key not in settings:
            raise InputError(
                f"{tensors.path}: the {key} of this {model_type} is unknown; put its "
                f"{model_type}_config.json next to it."
            )
    head = _head(model_type, tensors.header)
    if head == "classifier":
        settings["num_labels"] = _size(tensors, "classifier.weight", 0)[0]
    settings.setdefault("architectures", [LAYOUTS[model_type].classes[head]])
    return settings | {"model_type": model_type}


def _program_sizes(program, hidden_size):
    """Returns a dict of the keys that a program determines; see `_sizes`."""
    where = f"the program in {program.path}"
    sizes = {"num_hidden_layers": (program.num_layers, where)}
    if program.head_width is not None:
        num_heads, rest = divmod(hidden_size, program.head_width)
        if rest:
            raise InputError(
                f"{where} has attention heads of width {program.head_width}, which does not divide "
                f"the width of the model, {hidden_size}."
            )
        sizes["num_attention_heads"] = num_heads, where
    return sizes


def _sizes(model_type, tensors, num_heads):
    """Returns a dict of the keys that tensor shapes determine to (value, what shows it)."""
    embeddings = f"{model_type}.embeddings"
    words = f"{embeddings}.word_embeddings.weight"
    segments = f"{embeddings}.token_type_embeddings.weight"
    block = LAYOUTS[model_type].block
    blocks = f"{model_type}.{block['attention/query'].partition('{')[0]}"  # ends before a number
    query = f"{model_type}.{block['attention/query'].format(0)}.weight"
    inner = f"{model_type}.{block['intermediate'].format(0)}.weight"
    sizes = {
        "vocab_size": _size(tensors, words, 0),
        "max_position_embeddings": _size(tensors, f"{embeddings}.position_embeddings.weight", 0),
        "type_vocab_size": _size(tensors, segments, 0),
        "hidden_size": _size(tensors, query, 1),
        "intermediate_size": _size(tensors, inner, 0),
    }
    numbers = {
        name: int(name[len(blocks) :].split(".")[0])
        for name in tensors.header
        if name.startswith(blocks)
    }
    last = max(numbers, key=numbers.get)
    key = "num_hidden_groups" if model_type == "albert" else "num_hidden_layers"
    sizes[key] = numbers[last] + 1, _of(tensors, last)
    if model_type != "bert":
        sizes["embedding_size"] = _size(tensors, words, 1)
    if num_heads is not None:
        sizes["num_attention_heads"] = num_heads, _of(tensors, query)
    return sizes


def _size(tensors, name, axis):
    _, shape = tensors.header.get(name, (None, None))
    if shape is None:
        raise InputError(f"{tensors.path}: tensor {name} is missing.")
    if len(shape) != 2:
        raise InputError(f"{tensors.path}: tensor {name} must be a matrix, not {shape}.")
    return shape[axis], _of(tensors, name)


def _of(tensors, name):
    return f"tensor {name} in {tensors.path}"


def _head(model_type, header):
    """Returns the head that the tensors show, a key of `LAYOUTS[...].classes`."""
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
