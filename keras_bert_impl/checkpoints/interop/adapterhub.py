"""Converts bottleneck adapters and heads between this package and AdapterHub's `adapters` library.

In a file with a head, `adapters` calls the first dense layer `heads.NAME.1` and the second one
`heads.NAME.4`.
"""

import dataclasses
import re
from pathlib import Path
from typing import Any

from keras_bert_impl.checkpoints.config import Adapter, EncoderConfig
from keras_bert_impl.checkpoints.interop.huggingface import (
    class_of,
    encoder_tensors,
    head_tensors,
    layout_of,
    tensor_prefix,
)
from keras_bert_impl.checkpoints.interop.layouts.bert import TensorName
from keras_bert_impl.checkpoints.interop.source import ModelSource, SafetensorsFile, Tensors
from keras_bert_impl.checkpoints.interop.torch_file import TorchFile
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.reading import Document, file_within, read_json

CONFIG, WEIGHTS, HEAD_CONFIG = "adapter_config.json", "adapter.safetensors", "head_config.json"
HEAD_WEIGHTS = "model_head.safetensors"
WRITTEN = (CONFIG, WEIGHTS, HEAD_CONFIG, HEAD_WEIGHTS)
WEIGHT_FILES = {WEIGHTS: SafetensorsFile, "pytorch_adapter.bin": TorchFile}
_HEAD_FILES = {HEAD_WEIGHTS: SafetensorsFile, "pytorch_model_head.bin": TorchFile}
_VERSION = "adapters.1.0.0"  # first version with this file format
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
# Settings that change the computation -> the supported value.
_FIXED = {
    "original_ln_after": True,
    "residual_before_ln": True,
    "adapter_residual_before_ln": False,
    "ln_before": False,
    "ln_after": False,
    "is_parallel": False,
    "scaling": 1.0,
    "use_gating": False,
    "phm_layer": False,
    "inv_adapter": None,
    "stochastic_depth": 0.0,
    "leave_out": [],
}
# Encoders whose classifier has a tanh between two layers, as AdapterHub's. ELECTRA has a GELU.
_WITH_TANH = ("bert", "roberta", "xlm-roberta", "camembert")
_HEADS = {  # type of a head -> (name here, number of dense layers)
    "classification": ("classifier", 2),
    "multilabel_classification": ("classifier", 2),
    "tagging": ("token_classifier", 1),
    "question_answering": ("question_answerer", 1),
}


def is_adapterhub(settings: Document) -> bool:
    """Returns whether `adapter_config.json` is from AdapterHub, not from `peft`."""
    return "config" in settings and "peft_type" not in settings


def from_adapterhub(
    directory: Path, config: EncoderConfig, settings: Document, base: ModelSource
) -> tuple[Adapter, Tensors, Tensors, dict[str, Any]]:
    """Reads a directory written by AdapterHub's `adapters` library.

    Args:
        base: the base model, whose pooler some heads use.

    Returns:
        Tuple of the `Adapter`, its variables keyed by path, the head's tensors keyed by name, and
        keys for `config.json`.
    """
    stated, name = settings.mapping("config"), settings.text("name")
    if stated.get("architecture") is not None:
        raise stated.error(
            "architecture", "null or missing: only bottleneck adapters are supported"
        )
    for key, value in _FIXED.items():
        if stated.get(key, value) != value:
            raise stated.error(key, f"{value!r}, because other values are not supported")
    attention, output = stated.flag("mh_adapter"), stated.flag("output_adapter")
    before = stated.flag("original_ln_before")
    if not output or (attention and before):
        raise stated.error("output_adapter", "true, with original_ln_before only after the output")
    arrays = _read_arrays(directory, WEIGHT_FILES)
    added = {}
    for variable, tensor in _match_names(config, name, attention):
        if tensor not in arrays:
            raise InputError(f"{directory}: tensor {tensor:.200} is missing.")
        array = arrays.pop(tensor)
        added[variable] = array.T if variable.endswith("kernel") else array
    if arrays:
        raise InputError(f"{directory}: tensor {next(iter(arrays)):.200} is not supported.")
    widths = {array.size for path, array in added.items() if path.endswith("down/bias")}
    if len(widths) > 1:
        raise InputError(f"{directory}: adapters of different widths are not supported.")
    activation = stated.text("non_linearity", choices=_ACTIVATIONS)
    adapter = Adapter(
        "houlsby" if attention else "pfeiffer",
        size=widths.pop(),
        activation=_ACTIVATIONS[activation],
        after_norm=before,
    )
    if not file_within(directory, HEAD_CONFIG).exists():
        return adapter, added, {}, {}
    return adapter, added, *_read_head(directory, config, base)


def _read_head(directory, config, base):
    """Returns ({name: tensor} of a head, keys for `config.json`)."""
    settings = read_json(file_within(directory, HEAD_CONFIG))
    stated, name = settings.mapping("config"), settings.text("name")
    kind = stated.text("head_type", choices=_HEADS)
    head, count = _HEADS[kind]
    uses_pooler = stated.flag("use_pooler", False)
    layers = stated.integer("layers", least=1)
    if layers != (1 if uses_pooler else count):
        raise stated.error("layers", f"{1 if uses_pooler else count} for this head")
    if count == 2 and not uses_pooler:
        stated.text("activation_function", choices=("tanh",))
    names = _list_head_names(config, head)
    _check_classifier(config, names, directory)
    numbers = {"1": names[-2:]} if layers == 1 else {"1": names[:-2], "4": names[-2:]}
    arrays, tensors = _read_arrays(directory, _HEAD_FILES), {}
    for number, (weight, bias) in numbers.items():
        for ours, part in ((weight, "weight"), (bias, "bias")):
            theirs = f"heads.{name}.{number}.{part}"
            if theirs not in arrays:
                raise InputError(f"{directory}: tensor {theirs:.200} is missing.")
            tensors[ours] = arrays[theirs]
    if uses_pooler:  # The pooler is the first of the two layers.
        for ours, theirs in zip(names, ("pooler.dense.weight", "pooler.dense.bias")):
            array = base.read(theirs)
            if array is None:
                raise InputError(
                    f"{directory}: the head uses the pooler of the base model, but {base.path} has "
                    f"no tensor {theirs}. Pass a base model with a pooler."
                )
            tensors[ours] = array
    count = stated.integer("num_labels", least=1)
    labels = stated.mapping("label2id", None) or {f"LABEL_{n}": n for n in range(count)}
    config_keys = {
        "architectures": [class_of(config, head)],
        "id2label": {str(number): label for label, number in labels.items()},
    }
    if kind == "multilabel_classification":
        config_keys["problem_type"] = "multi_label_classification"
    return tensors, config_keys


def to_adapterhub(
    config: EncoderConfig,
    added: Tensors,
    changed: Tensors,
    head: str | None,
    described: dict[str, Any],
    base: str,
) -> tuple[dict[str, Any], Tensors, dict[str, Any], Tensors]:
    """Converts a bottleneck adapter and its head to the files of AdapterHub.

    Args:
        added: the adapter's variables, keyed by path.
        changed: trained tensors of the encoder and the head, keyed by name.
        described: content of `config.json`.

    Returns:
        (content of `adapter_config.json`, its tensors, content of `head_config.json`, its tensors).
    """
    adapter = config.adapter
    if adapter is None or adapter.kind not in ("houlsby", "pfeiffer"):
        kind = "no adapter" if adapter is None else f"a {adapter.kind} adapter"
        raise InputError(
            f"AdapterHub's files require a houlsby or pfeiffer adapter. The model has {kind}."
        )
    name = "adapter"
    both = adapter.kind == "houlsby"
    activation = adapter.activation or ("gelu" if both else "relu")
    stated = dict(_FIXED) | {
        "original_ln_before": adapter.after_norm,
        "mh_adapter": both,
        "output_adapter": True,
        "non_linearity": {"silu": "swish"}.get(activation, activation),
        "reduction_factor": config.hidden_dim / adapter.size,
        "cross_adapter": False,
        "dropout": 0.0,
        "init_weights": "bert",
    }
    tensors = {
        tensor: added[variable].T if variable.endswith("kernel") else added[variable]
        for variable, tensor in _match_names(dataclasses.replace(config, adapter=None), name, both)
    }
    common = {
        "hidden_size": config.hidden_dim,
        "model_class": f"{class_of(config, None).removesuffix('Model')}AdapterModel",
        "model_name": base,
        "model_type": layout_of(config).model_type,
        "name": name,
        "version": _VERSION,
    }
    head_names = [] if head not in dict(_HEADS.values()) else _list_head_names(config, head)
    _check_classifier(config, head_names, "AdapterHub's files")
    labels = described.get("id2label", {})
    is_multi = described.get("problem_type") == "multi_label_classification"
    kinds = [
        k
        for k, (head_name, _) in _HEADS.items()
        if head_name == head and is_multi == ("multi" in k)
    ]
    if not kinds or set(changed) != set(head_names):
        raise InputError(
            "AdapterHub's files require a TextClassifier, TokenClassifier or QuestionAnswerer with "
            "a frozen encoder. Call save_tuned(model, directory, base) instead. Trained tensors: "
            f"{listed(sorted(changed)) or None}"
        )
    head_config = {
        "head_type": kinds[0],
        "layers": len(head_names) // 2,
        "activation_function": "tanh",
        "label2id": {label: int(number) for number, label in labels.items()} or None,
        "num_labels": len(changed[head_names[-1]]),
        "dropout_prob": None,
    }
    if head == "classifier":
        head_config |= {"use_pooler": False, "bias": True}
    numbers = ["1.weight", "1.bias", "4.weight", "4.bias"]
    head_tensors = {
        f"heads.{name}.{n}": changed[head_name] for n, head_name in zip(numbers, head_names)
    }
    return common | {"config": stated}, tensors, common | {"config": head_config}, head_tensors


def _match_names(config, name, attention):
    prefix = tensor_prefix(config)
    ends = {
        "down/kernel": "adapter_down.0.weight",
        "down/bias": "adapter_down.0.bias",
        "up/kernel": "adapter_up.weight",
        "up/bias": "adapter_up.bias",
    }
    places = "(attention/)?output" if attention else "output"
    for dense in encoder_tensors(config):
        if not re.fullmatch(rf"layer_\d+/{places}/kernel", dense.variable):
            continue
        if not dense.tensor.endswith(".output.dense.weight") or config.pre_norm:
            raise InputError(
                f"AdapterHub's files are not supported for {config.architecture} encoders."
            )
        module = prefix + dense.tensor.removesuffix(".dense.weight")
        for ours, theirs in ends.items():
            variable = dense.variable.removesuffix("kernel") + f"adapter/{ours}"
            yield variable, f"{module}.adapters.{name}.{theirs}"


def _list_head_names(config, head):
    """Returns the weight and bias names of a head's dense layers, with the encoder's prefix."""
    names: list[TensorName] = list(head_tensors(config, head))
    if head == "classifier" and len(names) == 2:
        pooler = [n for n in encoder_tensors(config) if n.variable.startswith("pooler/")]
        prefix = tensor_prefix(config)
        names = [dataclasses.replace(n, tensor=prefix + n.tensor) for n in pooler] + names
    return [name.tensor for name in names]


def _check_classifier(config, names, where):
    """Raises `InputError` if a head's two layers have another activation than AdapterHub's tanh."""
    if len(names) == 4 and config.architecture not in _WITH_TANH:
        raise InputError(
            f"{where}: AdapterHub's classifier has a tanh between its layers, but the classifier of "
            f"{config.architecture} encoders has another activation. Supported are "
            f"{', '.join(_WITH_TANH)}, and other tasks than classification."
        )


def _read_arrays(directory, kinds):
    paths = [(file_within(directory, name), kind) for name, kind in kinds.items()]
    file = next((kind(path) for path, kind in paths if path.exists()), None)
    if file is None:
        raise InputError(f"{directory} has no {' or '.join(kinds)}.")
    return {name: file.read(name) for name in file.header}
