"""The `sentence-transformers` files of text embedding models."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.hub.contents import SENTENCE_ENCODER, SENTENCE_SETTINGS
from keras_bert_impl.checkpoints.interop.source import (
    ModelSource,
    open_tensors,
    write_json,
    write_tensors,
)
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import (
    Document,
    file_within,
    parse_config,
    read_json,
    read_text,
)

# Pooling -> its key, in the order in which the library concatenates the vectors. For any other
# pooling, the key is `pooling_mode_` followed by its name.
_PREFIX = "pooling_mode_"
_KEYS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")
# Activations of Dense modules: name in this package -> class in the library.
ACTIVATIONS = {
    "linear": "torch.nn.modules.linear.Identity",
    "tanh": "torch.nn.modules.activation.Tanh",
    "relu": "torch.nn.modules.activation.ReLU",
    "gelu": "torch.nn.modules.activation.GELU",
}
_MOST_DIM = 2**20 - 1
# The library has no module of this type. It therefore rejects the model instead of ignoring the
# layer weights.
CONCATENATION = "keras_bert_impl.ConcatenatedLayers"
# Keys in the encoder's settings that do not affect embeddings, or that `_read_transformer` reads.
_HARMLESS = {"max_seq_length", "do_lower_case", "unpad_inputs"}
# Settings of modules that do not affect embeddings.
_TRANSFORMER_DEFAULTS = (
    ("transformer_task", "feature-extraction"),
    ("module_output_name", "token_embeddings"),
    ("modality_config", {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}),
)
_DEFAULTS = (
    ("module_input_name", "sentence_embedding"),
    ("module_output_name", "sentence_embedding"),
    ("module_output_name", None),
    ("use_residual", False),
    ("use_residual", None),
)
_HARMLESS_ARGUMENTS = {"torch_dtype", "dtype", "attn_implementation", "device_map"}
_HARMLESS_ARGUMENTS |= {"trust_remote_code", "add_pooling_layer", "use_fast"}


def pooling_modes(pooling: str) -> dict[str, bool]:
    """Returns the Pooling module's keys for a `pooling` such as `"mean"` or `"cls+mean"`."""
    names = pooling.split("+")
    every = dict.fromkeys([*_KEYS, *names])
    return {_KEYS.get(name, f"{_PREFIX}{name}"): name in names for name in every}


def transformer_directory(directory: Path) -> Path:
    """Returns the folder with the encoder and tokenizer of a model."""
    for kind, folder, _ in _read_modules(directory):
        if kind in _TRANSFORMERS and folder:
            return file_within(directory, f"{folder}/config.json").parent
    return directory


def is_cross_encoder(directory: Path) -> bool:
    """Returns whether a directory contains a `CrossEncoder` of version 6 (a text classifier)."""
    modules = _read_modules(directory)
    for kind, folder, _ in modules:
        if kind in _TRANSFORMERS:
            task = _read_transformer_settings(directory, folder).get("transformer_task")
            if task == "sequence-classification" and len(modules) > 1:
                raise InputError(
                    f"{directory / 'modules.json'}: the module {modules[1][2]!r:.80} of a "
                    "CrossEncoder is not supported."
                )
            return task == "sequence-classification"
    return False


def read_sentence_settings(directory: Path) -> dict[str, Any]:
    modules = _read_modules(directory)
    if not modules or is_cross_encoder(directory):
        return {}
    path = directory / "modules.json"
    stages: list[int] = []
    settings: dict[str, Any] = {
        "normalize": False,
        "num_layers": 1,
        "layer_weights": None,
        "projections": [],
    }
    for kind, folder, name in modules:
        if kind not in _READERS:
            raise InputError(f"{path}: the module {name!r:.80} is not supported.")
        stage, read = _READERS[kind]
        if stages and (stage < stages[-1] or (stage == stages[-1] and stage in _ONCE)):
            raise InputError(f"{path}: the module {name!r:.80} is not supported at this position.")
        stages.append(stage)
        if kind in _READ:
            _check_module(_read_config(directory, folder), kind)
        module_settings = read(directory, folder)
        settings["projections"] = settings["projections"] + module_settings.pop("projections", [])
        settings |= module_settings
    for stage, name in ((0, "Transformer"), (2, "Pooling")):
        if stage not in stages:
            raise InputError(f"{path} has no module {name}.")
    settings |= _read_prompts_and_similarity(directory)
    if settings["prompts"] and not settings.pop("include_prompt"):
        raise InputError(f"{directory}: include_prompt=false of a Pooling module is not supported.")
    settings.pop("include_prompt", None)
    return settings


def _read_modules(directory):
    """Reads `modules.json`; returns a list of (class or None if unknown, folder, full name)."""
    path = file_within(directory, "modules.json")
    if not path.exists():
        return []
    modules = parse_config(read_text(path), path)
    if not isinstance(modules, list) or not all(isinstance(entry, dict) for entry in modules):
        raise InputError(f"{path} must contain a list of modules.")
    parsed_modules = []
    for module in modules:
        name, folder = str(module.get("type")), module.get("path") or ""
        if not isinstance(folder, str):
            raise InputError(f"{path}: the path of a module must be a string, not {folder!r:.40}.")
        is_known = name.startswith("sentence_transformers.") or name == CONCATENATION
        parsed_modules.append(
            (name.rpartition(".")[2] if is_known else None, folder.strip("/"), name)
        )
    return parsed_modules


def _read_transformer_settings(directory, folder):
    """Reads the settings of the Transformer module from the first file that is not empty."""
    documents = (_read_config(directory, folder, name) for name in SENTENCE_ENCODER)
    return next(filter(None, documents), Document({}, directory / folder))


def _read_transformer(directory, folder):
    settings = _read_transformer_settings(directory, folder)
    _check_transformer(settings)
    read = {"do_lower_case": _read_flag(settings, "do_lower_case", False)}
    length = settings.get("max_seq_length")
    if length is None:  # Since version 6, the tokenizer has this setting.
        length = _read_config(directory, folder, "tokenizer_config.json").get("model_max_length")
        # Tokenizers without a limit have a number with 30 digits here.
        is_limit = type(length) is int and 0 < length < 2**20
        return read | {"max_length": length if is_limit else None}
    if type(length) is not int or length < 1:
        raise settings.error("max_seq_length", "a positive integer")
    return read | {"max_length": length}


def _check_transformer(settings):
    """Raises `InputError` for unsupported settings that would change the embeddings."""
    for key, value in settings.items():
        is_default = value in (None, {}) or (key, value) in _TRANSFORMER_DEFAULTS
        if key.endswith(("_args", "_kwargs")) and isinstance(value, dict):
            unknown = sorted(set(value) - _HARMLESS_ARGUMENTS)
            if unknown:
                raise InputError(f"{settings.source}: {unknown[0]} in {key} is not supported.")
        elif key not in _HARMLESS and not is_default:
            raise InputError(f"{settings.source}: {key}={value!r:.60} is not supported.")


def _check_module(settings, kind):
    """Raises `InputError` for settings of a module that are neither read nor defaults."""
    for key, value in settings.items():
        is_read = key in _READ[kind] or (kind == "Pooling" and key.startswith(_PREFIX))
        if not is_read and (key, value) not in _DEFAULTS:
            raise InputError(f"{settings.source}: {key}={value!r:.60} is not supported.")


def _read_weighted_layers(directory, folder):
    settings = _read_config(directory, folder)
    count = _read_count(settings, "num_hidden_layers") + 1 - _read_count(settings, "layer_start")
    tensors = open_tensors(directory / folder)
    shape = tensors.header.get("layer_weights", (None, None))[1]
    if shape != (count,):
        raise InputError(f"{tensors.path}: layer_weights must have shape {(count,)}, not {shape}.")
    weights = tensors.read("layer_weights").astype("float32")
    return {"num_layers": count, "layer_weights": weights.tolist()}


def _read_concatenated_layers(directory, folder):
    return {"num_layers": _read_count(_read_config(directory, folder), "num_layers")}


def _read_pooling(directory, folder):
    settings = _read_config(directory, folder)
    modes = settings.get("pooling_mode")
    if modes is None:
        names = {key: name for name, key in _KEYS.items()}
        keys = [
            key for key in settings if key.startswith(_PREFIX) and _read_flag(settings, key, False)
        ]
        modes = {names.get(key, key.removeprefix(_PREFIX)) for key in keys}
        modes = [name for name in dict.fromkeys([*_KEYS, *modes]) if name in modes] or ["mean"]
    modes = list(map(str, modes if isinstance(modes, list) else [modes]))
    # The library concatenates the vectors in the order of this list.
    ordered = [name for name in dict.fromkeys([*_KEYS, *modes]) if name in modes]
    if modes != ordered or not modes:
        raise settings.error("pooling_mode", f"in this order, without repetition: {list(_KEYS)}")
    include_prompt = _read_flag(settings, "include_prompt", True)
    return {"pooling": "+".join(modes), "include_prompt": include_prompt}


def _read_dense(directory, folder):
    settings = _read_config(directory, folder)
    names = {theirs: ours for ours, theirs in ACTIVATIONS.items()}
    activation = settings.get("activation_function", ACTIVATIONS["tanh"])
    if activation not in list(names):
        raise InputError(
            f"{settings.source}: the activation_function {activation!r:.80} is not supported."
        )
    projection = {
        "kind": "dense",
        "dim": settings.integer("out_features", least=0, most=_MOST_DIM),
        "activation": names[activation],
        "use_bias": _read_flag(settings, "bias", True),
    }
    return {"projections": [projection]}


# Module class in the library -> (stage, function that reads its settings).
_TRANSFORMERS = "Transformer BERT RoBERTa DistilBERT CamemBERT ALBERT XLMRoBERTa".split()
_READERS = {
    **{name: (0, _read_transformer) for name in _TRANSFORMERS},
    "WeightedLayerPooling": (1, _read_weighted_layers),
    "ConcatenatedLayers": (1, _read_concatenated_layers),
    "Pooling": (2, _read_pooling),
    "Dense": (3, _read_dense),
    "LayerNorm": (3, lambda directory, folder: {"projections": [{"kind": "layer_norm"}]}),
    "Dropout": (3, lambda directory, folder: {}),  # Dropout has no effect on embeddings.
    "Normalize": (4, lambda directory, folder: {"normalize": True}),
}
_WIDTHS = ("embedding_dimension", "word_embedding_dimension")  # the tensors have the same sizes
# Module -> keys of its `config.json` that are read or have no effect on embeddings. All other keys
# must have one of the `_DEFAULTS`.
_READ = {
    "WeightedLayerPooling": (*_WIDTHS, "layer_start", "num_hidden_layers"),
    "ConcatenatedLayers": ("num_layers",),
    "Pooling": (*_WIDTHS, "pooling_mode", "include_prompt"),
    "Dense": ("in_features", "out_features", "bias", "activation_function"),
    "LayerNorm": ("dimension",),
    "Dropout": ("dropout",),
    "Normalize": (),
}
_ONCE = (0, 1, 2)  # stages with at most one module


def read_projections(directory: Path) -> list[dict[str, np.ndarray]]:
    """Reads the tensors of all Dense and LayerNorm modules."""
    modules = _read_modules(directory)
    return [
        _read_projection_tensors(directory / folder, kind)
        for kind, folder, _ in modules
        if kind in ("Dense", "LayerNorm")
    ]


def _read_projection_tensors(folder, kind):
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


def _read_prompts_and_similarity(directory):
    settings = _read_config(directory, "", SENTENCE_SETTINGS)
    prompts = settings.get("prompts") or {}
    is_dict = isinstance(prompts, dict)
    if not is_dict or not all(isinstance(prompt, str) for prompt in prompts.values()):
        raise settings.error("prompts", "an object whose values are strings")
    default = settings.get("default_prompt_name")
    if default is not None and default not in [*prompts, "query", "document"]:
        raise settings.error("default_prompt_name", "the name of a prompt")
    similarity = settings.get("similarity_fn_name") or SIMILARITIES[0]
    if similarity not in SIMILARITIES:
        raise settings.error("similarity_fn_name", f"one of {', '.join(SIMILARITIES)}")
    return {
        "prompts": {key: prompt for key, prompt in prompts.items() if prompt},
        "default_prompt_name": default if prompts.get(default) else None,
        "similarity_fn_name": similarity,
        "truncate_dim": settings.integer("truncate_dim", None, least=0, most=_MOST_DIM),
    }


def _read_config(directory, folder, name="config.json"):
    """Reads a JSON object; a missing file gives an empty `Document`."""
    path = file_within(directory, f"{folder}/{name}" if folder else name)
    return read_json(path) if path.exists() else Document({}, path)


def _read_count(settings, key):
    return settings.integer(key, least=0, most=999)


def _read_flag(settings, key, default):
    value = settings.get(key)
    return bool(value) if type(value) is int and value in (0, 1) else settings.flag(key, default)


_LIBRARY = "sentence_transformers.models."


def copy_sentence_settings(source: ModelSource, directory: Path, config: EncoderConfig) -> None:
    """Copies pooling, normalization and prompts if the source is a text embedding model."""
    settings = read_sentence_settings(source.task_path)
    if settings:
        settings.setdefault("max_length", config.max_length)
        projections = read_projections(source.task_path)
        write_sentence_settings(
            directory, settings, projections, config.num_layers, config.hidden_dim
        )


def write_sentence_settings(
    directory: Path,
    settings: dict[str, Any],
    projections: list[dict[str, np.ndarray]],
    depth: int,
    hidden_dim: int,
) -> None:
    modules = [("", f"{_LIBRARY}Transformer")]
    lower = {"do_lower_case": True} if settings["do_lower_case"] else {}
    transformer = {"max_seq_length": settings["max_length"], **lower}
    write_json(directory / SENTENCE_ENCODER[0], transformer)

    def add(kind, content, tensors=None):
        folder = directory / f"{len(modules)}_{kind.rpartition('.')[2]}"
        modules.append((folder.name, kind))
        folder.mkdir(exist_ok=True)
        write_json(folder / "config.json", content)
        if tensors is not None:
            tensors = {name: np.asarray(array, "float32") for name, array in tensors.items()}
            write_tensors(folder / "model.safetensors", tensors)

    dim, num_layers = hidden_dim, settings["num_layers"]
    width = {"word_embedding_dimension": dim}
    if settings["layer_weights"] is not None:
        start = {"layer_start": depth + 1 - num_layers, "num_hidden_layers": depth}
        weights = {"layer_weights": settings["layer_weights"]}
        add(f"{_LIBRARY}WeightedLayerPooling", width | start, weights)
    elif num_layers > 1:
        add(CONCATENATION, {"num_layers": num_layers})
        dim = hidden_dim * num_layers
        width = {"word_embedding_dimension": dim}
    add(f"{_LIBRARY}Pooling", width | pooling_modes(settings["pooling"]))
    dim *= len(settings["pooling"].split("+"))
    for projection, tensors in zip(settings["projections"], projections, strict=True):
        if projection["kind"] == "layer_norm":
            named = {"norm.weight": tensors["gamma"], "norm.bias": tensors["beta"]}
            add(f"{_LIBRARY}LayerNorm", {"dimension": dim}, named)
            continue
        content = {
            "in_features": dim,
            "out_features": projection["dim"],
            "bias": projection["use_bias"],
            "activation_function": ACTIVATIONS[projection["activation"]],
        }
        named = {"linear.weight": tensors["kernel"].T}
        if projection["use_bias"]:
            named["linear.bias"] = tensors["bias"]
        add(f"{_LIBRARY}Dense", content, named)
        dim = projection["dim"]
    if settings["normalize"]:
        add(f"{_LIBRARY}Normalize", {})
    described = [
        {"idx": number, "name": str(number), "path": folder, "type": kind}
        for number, (folder, kind) in enumerate(modules)
    ]
    write_json(directory / "modules.json", described)
    model_settings = {
        name: settings[name] for name in ("prompts", "default_prompt_name", "truncate_dim")
    }
    model_settings["similarity_fn_name"] = settings["similarity_fn_name"]
    write_json(directory / SENTENCE_SETTINGS, model_settings)
