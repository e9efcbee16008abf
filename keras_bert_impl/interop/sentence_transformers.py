"""Reads `sentence-transformers` files: how a model computes the vector of a text."""

from keras_bert_impl.hub.contents import SENTENCE_ENCODER
from keras_bert_impl.interop.tensor_files import open_tensors
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.reading import file_within, parse_json, read_json, read_text

POOLINGS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
}
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")
# Activations of Dense modules: our name -> class written by the library.
ACTIVATIONS = {
    "linear": "torch.nn.modules.linear.Identity",
    "tanh": "torch.nn.modules.activation.Tanh",
    "relu": "torch.nn.modules.activation.ReLU",
    "gelu": "torch.nn.modules.activation.GELU",
}
# Module unknown to the library, so it rejects the model instead of using only the last layer.
CONCATENATION = "keras_bert_impl.ConcatenatedLayers"
# Keys of an encoder's settings that do not affect its vectors here.
_HARMLESS = {"max_seq_length", "do_lower_case", "unpad_inputs"}
_DEFAULTS = (
    ("transformer_task", "feature-extraction"),
    ("module_output_name", "token_embeddings"),
    ("modality_config", {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}),
)
_HARMLESS_ARGUMENTS = {
    "torch_dtype",
    "dtype",
    "attn_implementation",
    "device_map",
    "trust_remote_code",
    "add_pooling_layer",
    "use_fast",
}


def transformer_directory(directory):
    """Returns the folder of the encoder and its tokenizer in a model directory.

    Args:
        directory: `Path` of a model directory.

    Returns:
        `Path` of the folder named in `modules.json`, which is `0_Transformer` in older models; the
        directory itself without such a file.

    Raises:
        InputError: a file is damaged.
    """
    for kind, folder, _ in _modules(directory):
        if kind in _TRANSFORMERS and folder:
            return file_within(directory, f"{folder}/config.json").parent
    return directory


def read_sentence_settings(directory):
    """Reads how `sentence-transformers` files compute one vector per text.

    Args:
        directory: `Path` of a model directory.

    Returns:
        dict of `TextEmbedder` arguments: `pooling`, `normalize`, `num_layers`, `layer_weights`
        (list of float, or None to concatenate layers), `projections`, `do_lower_case`, `prompts`,
        `default_prompt_name`, `similarity_fn_name`, `truncate_dim` and, if limited, `max_length`.
        Empty without a `modules.json`.

    Raises:
        InputError: a file is damaged, or a module or setting is not supported.
    """
    modules = _modules(directory)
    if not modules:
        return {}
    path, stages = directory / "modules.json", []
    settings = {"normalize": False, "num_layers": 1, "layer_weights": None, "projections": []}
    for kind, folder, name in modules:
        if kind not in _READERS:
            raise InputError(f"{path}: a module {name!r:.80} is not supported.")
        stage, read = _READERS[kind]
        if stages and (stage < stages[-1] or (stage == stages[-1] and stage in _ONCE)):
            raise InputError(f"{path}: a module {name!r:.80} at this place is not supported.")
        stages.append(stage)
        found = read(directory, folder)
        settings["projections"] = settings["projections"] + found.pop("projections", [])
        settings |= found
    for stage, name in ((0, "Transformer"), (2, "Pooling")):
        if stage not in stages:
            raise InputError(f"{path} names no module {name}.")
    settings |= _prompts_and_similarity(directory)
    if settings["prompts"] and not settings.pop("include_prompt"):
        raise InputError(
            f"{directory}: a Pooling module with include_prompt=false, which leaves the tokens of "
            "prompts out, is not supported."
        )
    settings.pop("include_prompt", None)
    return settings


def _modules(directory):
    """Returns a (kind, folder, name) list of the modules in `modules.json`; empty without it.

    The kind is the name of a class of the library, or None for the model's own code.
    """
    path = file_within(directory, "modules.json")
    if not path.exists():
        return []
    modules = parse_json(read_text(path), path)
    if not isinstance(modules, list) or not all(isinstance(one, dict) for one in modules):
        raise InputError(f"{path} must hold a list of modules.")
    found = []
    for module in modules:
        name, folder = str(module.get("type")), module.get("path") or ""
        if not isinstance(folder, str):
            raise InputError(f"{path}: the path of a module must be a string, not {folder!r:.40}.")
        is_known = name.startswith("sentence_transformers.") or name == CONCATENATION
        found.append((name.rpartition(".")[2] if is_known else None, folder.strip("/"), name))
    return found


def _transformer(directory, folder):
    found = ((name, _config(directory, folder, name)) for name in SENTENCE_ENCODER)
    name, settings = next(((name, some) for name, some in found if some), ("", {}))
    where = f"{directory / folder}/{name}"
    _check_transformer(settings, where)
    read = {"do_lower_case": _bool(settings, "do_lower_case", False, where)}
    length = settings.get("max_seq_length")
    if length is None:  # since version 6, the tokenizer's setting
        length = _config(directory, folder, "tokenizer_config.json").get("model_max_length")
        # Without a limit, the value is a number with 30 digits.
        is_limit = type(length) is int and 0 < length < 2**20
        return read | {"max_length": length if is_limit else None}
    if type(length) is not int or length < 1:
        raise InputError(f"{where}: max_seq_length must be a positive integer, not {length!r:.40}.")
    return read | {"max_length": length}


def _check_transformer(settings, where):
    """Rejects settings of a Transformer module that would change its vectors."""
    for key, value in settings.items():
        is_default = value in (None, {}) or (key, value) in _DEFAULTS
        if key.endswith(("_args", "_kwargs")) and isinstance(value, dict):
            unknown = sorted(set(value) - _HARMLESS_ARGUMENTS)
            if unknown:
                raise InputError(f"{where}: {unknown[0]} in {key} is not supported; remove it.")
        elif key not in _HARMLESS and not is_default:
            raise InputError(f"{where}: {key}={value!r:.60} is not supported; remove it.")


def _weighted_layers(directory, folder):
    settings = _config(directory, folder)
    count = _whole(settings, "num_hidden_layers") + 1 - _whole(settings, "layer_start")
    tensors = open_tensors(directory / folder)
    found = tensors.header.get("layer_weights", (None, None))[1]
    if found != (count,):
        raise InputError(f"{tensors.path}: layer_weights must have shape {(count,)}, not {found}.")
    weights = tensors.read("layer_weights").astype("float32")
    return {"num_layers": count, "layer_weights": weights.tolist()}


def _concatenated_layers(directory, folder):
    return {"num_layers": _whole(_config(directory, folder), "num_layers")}


def _pooling(directory, folder):
    settings = _config(directory, folder)
    where = directory / folder / "config.json"
    modes = settings.get("pooling_mode")
    if modes is None:
        keys = [key for key in settings if key.startswith("pooling_mode_")]
        names = {key: name for name, key in POOLINGS.items()}
        modes = [names.get(key, key) for key in keys if _bool(settings, key, False, where)]
        modes = modes if keys else ["mean"]
    modes = modes if isinstance(modes, list) else [modes]
    if len(modes) != 1 or modes[0] not in list(POOLINGS):
        raise InputError(
            f"{directory / folder}: the pooling is {', '.join(map(str, modes))}; supported is one "
            f"of {', '.join(POOLINGS)}."
        )
    return {
        "pooling": modes[0],
        "include_prompt": _bool(settings, "include_prompt", True, where),
    }


def _dense(directory, folder):
    settings, where = _config(directory, folder), directory / folder / "config.json"
    names = {theirs: ours for ours, theirs in ACTIVATIONS.items()}
    activation = settings.get("activation_function", ACTIVATIONS["tanh"])
    if activation not in list(names):
        raise InputError(f"{where}: the activation_function {activation!r:.80} is not supported.")
    for key, default in (
        ("module_input_name", "sentence_embedding"),
        ("module_output_name", "sentence_embedding"),
        ("use_residual", False),
    ):
        if settings.get(key) not in (None, default):
            raise InputError(f"{where}: {key}={settings[key]!r:.60} is not supported.")
    projection = {
        "kind": "dense",
        "dim": _whole(settings, "out_features", 2**20),
        "activation": names[activation],
        "use_bias": _bool(settings, "bias", True, where),
    }
    return {"projections": [projection]}


def _normalize(directory, folder):
    return {"normalize": True}


# Class name in the library -> (stage, function of directory and folder that returns settings).
_TRANSFORMERS = (
    "Transformer",
    "BERT",
    "RoBERTa",
    "DistilBERT",
    "CamemBERT",
    "ALBERT",
    "XLMRoBERTa",
)
_READERS = {
    **{name: (0, _transformer) for name in _TRANSFORMERS},
    "WeightedLayerPooling": (1, _weighted_layers),
    "ConcatenatedLayers": (1, _concatenated_layers),
    "Pooling": (2, _pooling),
    "Dense": (3, _dense),
    "LayerNorm": (3, lambda directory, folder: {"projections": [{"kind": "layer_norm"}]}),
    "Dropout": (3, lambda directory, folder: {}),  # only for training
    "Normalize": (4, _normalize),
}
_ONCE = (0, 1, 2)  # stages with a single module


def read_projections(directory):
    """Reads the tensors of the modules after the pooling.

    Args:
        directory: `Path` of a model directory.

    Returns:
        list of dicts of NumPy arrays, one for each of the `projections` returned by
        `read_sentence_settings`: `kernel` and optionally `bias`, or `gamma` and `beta`.

    Raises:
        InputError: a file or tensor is missing or damaged.
    """
    found = []
    for kind, folder, _ in _modules(directory):
        if kind in ("Dense", "LayerNorm"):
            found.append(_projection_tensors(directory / folder, kind))
    return found


def _projection_tensors(folder, kind):
    tensors = open_tensors(folder)
    names = {
        "Dense": {"kernel": "linear.weight", "bias": "linear.bias"},
        "LayerNorm": {"gamma": "norm.weight", "beta": "norm.bias"},
    }[kind]
    read = {
        ours: tensors.read(theirs) for ours, theirs in names.items() if theirs in tensors.header
    }
    if not read:
        raise InputError(f"{tensors.path} has no tensor {next(iter(names.values()))}.")
    if "kernel" in read:
        read["kernel"] = read["kernel"].T
    return read


def _prompts_and_similarity(directory):
    name = "config_sentence_transformers.json"
    settings, where = _config(directory, "", name), directory / name
    prompts = settings.get("prompts") or {}
    is_dict = isinstance(prompts, dict)
    if not is_dict or not all(isinstance(prompt, str) for prompt in prompts.values()):
        raise InputError(f"{where}: prompts must be an object of names and strings.")
    default = settings.get("default_prompt_name")
    if default is not None and default not in [*prompts, "query", "document"]:
        raise InputError(f"{where}: default_prompt_name {default!r:.60} is none of the prompts.")
    similarity = settings.get("similarity_fn_name") or SIMILARITIES[0]
    if similarity not in SIMILARITIES:
        raise InputError(
            f"{where}: similarity_fn_name must be one of {', '.join(SIMILARITIES)}, not "
            f"{similarity!r:.60}."
        )
    dim = settings.get("truncate_dim")
    return {
        "prompts": {key: prompt for key, prompt in prompts.items() if prompt},
        "default_prompt_name": default if prompts.get(default) else None,
        "similarity_fn_name": similarity,
        "truncate_dim": None if dim is None else _whole(settings, "truncate_dim", 2**20),
    }


def _config(directory, folder, name="config.json"):
    path = file_within(directory, f"{folder}/{name}" if folder else name)
    return read_json(path) if path.exists() else {}


def _whole(settings, key, limit=1000):
    value = settings.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < limit:
        raise InputError(f"a module's {key} must be a whole number. Received: {value!r:.40}")
    return value


def _bool(settings, key, default, where):
    value = settings.get(key)
    if value not in (None, True, False) or isinstance(value, float):
        raise InputError(f"{where}: {key} must be true or false, not {value!r:.40}.")
    return default if value is None else bool(value)
