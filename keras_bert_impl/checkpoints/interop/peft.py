"""Converts LoRA weights from and to the format of the `peft` library.

A matrix in the file may combine several matrices of this package, as in ModernBERT's fused
projections. The LoRA product of a combined matrix is `B A`, where `B` is block-diagonal with one
diagonal block for each matrix of this package.
"""

import dataclasses
import re
from typing import Any

import numpy as np

from keras_bert_impl.checkpoints.config import PROJECTIONS, Adapter, EncoderConfig
from keras_bert_impl.checkpoints.interop.huggingface import encoder_tensors, tensor_prefix
from keras_bert_impl.checkpoints.interop.source import ModelSource, Tensors
from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.reading import Document

_ROOT = "base_model.model."
_PROJECTIONS = {  # path of a matrix in a block -> name in `Adapter.projections`
    "attention/query": "query",
    "attention/key": "key",
    "attention/value": "value",
    "attention/query_global": "query",
    "attention/key_global": "key",
    "attention/value_global": "value",
    "attention/output": "attention_output",
    "intermediate": "intermediate",
    "gate": "gate",
    "output": "output",
}
TASK_TYPES = {
    "classifier": "SEQ_CLS",
    "token_classifier": "TOKEN_CLS",
    "question_answerer": "QUESTION_ANS",
}
# Unsupported settings, which change the computation but not the tensor names.
_OFF = """
    use_dora lora_bias use_qalora layer_replication trainable_token_indices target_parameters
    alora_invocation_tokens use_bdlora arrow_config kasa_config velora_config monteclora_config
""".split()
# Initializations that do not change the base model. With other initializations, such as PiSSA,
# `peft` changes the weights of the base model.
_INITIALIZATIONS = (True, False, None, "gaussian", "eva", "orthogonal")
_A = ".lora_A.weight"
# Supported regular expressions contain only names, groups, digits and `.*`, so that they cannot be
# slow.
_PATTERN = re.compile(
    r"\^?(?:[\w-]|\\?\.|\.[*+]|\\d\+?|\[\d-\d\]\+?|\((?:[\w.-]+\|)*[\w.-]+\)){1,200}\$?"
)


def to_peft(
    config: EncoderConfig, added: Tensors, changed: Tensors, head: str | None, base: str
) -> tuple[dict[str, Any], Tensors]:
    """Converts LoRA weights to the format of `peft`.

    Returns:
        (content of `adapter_config.json`, tensors).
    """
    adapter, prefix = config.adapter, tensor_prefix(config)
    if head is None:  # The names have no prefix if the model has no head.
        changed = {name.removeprefix(prefix): array for name, array in changed.items()}
        prefix = ""
    tensors = {_ROOT + name: array for name, array in changed.items()}
    ranks = {}
    for tensor, parts in matrices(config).items():
        with_lora = [part for part in parts if part + "a" in added]
        if not with_lora:
            continue
        module = prefix + tensor.removesuffix(".weight")
        blocks = [added[part + "b"].T for part in with_lora]  # a list of [units, rank]
        b = np.zeros((len(parts) * len(blocks[0]), len(blocks) * adapter.size), "float32")
        for column, (part, block) in enumerate(zip(with_lora, blocks)):
            row = parts.index(part) * len(block)
            columns = slice(column * adapter.size, (column + 1) * adapter.size)
            b[row : row + len(block), columns] = block
        a = np.concatenate([added[part + "a"].T for part in with_lora])
        tensors |= {f"{_ROOT}{module}.lora_A.weight": a, f"{_ROOT}{module}.lora_B.weight": b}
        ranks[module] = b.shape[1]
    changed_modules = {name.removeprefix(prefix).split(".")[0] for name in changed}
    fused = {module: rank for module, rank in ranks.items() if rank != adapter.size}
    return {
        "peft_type": "LORA",
        "task_type": TASK_TYPES.get(head) if head else "FEATURE_EXTRACTION",
        "base_model_name_or_path": base,
        "r": adapter.size,
        "lora_alpha": adapter.alpha,
        "lora_dropout": adapter.dropout,
        "target_modules": list(ranks),
        "rank_pattern": fused,
        "alpha_pattern": {m: adapter.alpha * rank / adapter.size for m, rank in fused.items()},
        "modules_to_save": sorted(changed_modules - {"crf"}),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }, tensors


def from_peft(
    config: EncoderConfig, settings: Document, tensors: Tensors, base: ModelSource
) -> tuple[Adapter | None, Tensors, Tensors]:
    """Converts LoRA weights from the format of `peft`.

    Returns:
        (`Adapter` or None, adapter variables keyed by path, all other tensors keyed by the name
        without prefix).
    """
    settings.text("peft_type", choices=("LORA",))
    settings.text("bias", "none", choices=("none", "all", "lora_only"))
    for name in _OFF:
        if settings.get(name):
            raise settings.error(name, "null, false or missing, because it is not supported")
    if settings.get("init_lora_weights") not in _INITIALIZATIONS:
        raise settings.error(
            "init_lora_weights",
            "an initialization that does not change the base model. Convert the adapter with "
            "peft's save_pretrained(..., path_initial_model_for_weight_conversion=...)",
        )
    prefix = tensor_prefix(config)
    names = {name.removeprefix(_ROOT).removeprefix(prefix): name for name in tensors}
    remaining = _drop_copies({short: tensors[name] for short, name in names.items()})
    modules = {
        short.removesuffix(_A): names.get(short, short).removeprefix(_ROOT).removesuffix(_A)
        for short in remaining
        if short.endswith(_A)
    }
    products = {}
    for tensor, parts in matrices(config).items():
        module = tensor.removesuffix(".weight")
        if module not in modules:
            continue
        a, b, scale = _take_product(settings, remaining, module, modules.pop(module))
        if len(b) % len(parts):
            raise InputError(f"{settings.source}: LoRA on {tensor} has an invalid shape {b.shape}.")
        for part, rows in zip(parts, np.split(b, len(parts))):
            products[part] = a, rows, scale
    for short, module in modules.items():
        a, b, scale = _take_product(settings, remaining, short, module)
        remaining[f"{short}.weight"] = _merge(settings, base, f"{short}.weight", a, b, scale)
    unknown = [name for name in remaining if "lora_" in name]
    if unknown or not (products or modules):
        subject = f"{unknown[0]:.200} is not" if unknown else "no tensor is"
        raise InputError(f"{settings.source}: {subject} a LoRA weight of this encoder.")
    return *(_align_products(config, settings, products) if products else (None, {})), remaining


def _drop_copies(tensors):
    # `peft` stores a trained copy and the untrained original of some tensors. The trained copy gets
    # the name of the tensor in the base model.
    plain_tensors = {}
    for name, array in tensors.items():
        plain = re.sub(r"\.modules_to_save(\.default)?\.", ".", name)
        if ".original_module." not in name and (plain == name or plain not in tensors):
            plain_tensors[plain.replace(".base_layer.", ".")] = array
    return plain_tensors


def _take_product(settings, tensors, short, module):
    """Returns the LoRA of a module: (A `[rank, inputs]`, B `[units, rank]`, scale)."""
    a, b = (tensors.pop(f"{short}.lora_{m}.weight", None) for m in "AB")
    shapes = [None if matrix is None else matrix.shape for matrix in (a, b)]
    if None in shapes or a.ndim != 2 or b.ndim != 2 or a.shape[0] != b.shape[1]:
        raise InputError(
            f"{settings.source}: LoRA on {short:.200} has shapes that do not match: {shapes[0]} "
            f"and {shapes[1]}."
        )
    return a, b, _compute_scale(settings, module, len(a))


def _merge(settings, base, tensor, a, b, scale):
    shape = base.shape(tensor)
    if shape != (len(b), a.shape[1]):
        raise InputError(
            f"{settings.source}: LoRA on {tensor:.200} has shape {(len(b), a.shape[1])}; in the "
            f"base model it is {shape}."
        )
    return base.read(tensor).astype("float32") + scale * (b.astype("float32") @ a)


def matrices(config: EncoderConfig) -> dict[str, list[str]]:
    """Returns {weight matrix: LoRA variable paths} of all blocks."""
    plain = dataclasses.replace(config, adapter=None)
    paths: dict[str, list[str]] = {}
    for name in encoder_tensors(plain):
        layer, _, part = name.variable.removesuffix("/kernel").partition("/")
        if part in _PROJECTIONS:
            paths.setdefault(name.tensor, []).append(f"{layer}/{part}/lora/")
    return paths


def _compute_scale(settings, module, rank):
    ranks, alphas = settings.mapping("rank_pattern"), settings.mapping("alpha_pattern")
    rank_key, alpha_key = _find_pattern(ranks, module), _find_pattern(alphas, module)
    stated = (
        settings.integer("r", least=1) if rank_key is None else ranks.integer(rank_key, least=1)
    )
    if stated != rank:
        raise InputError(
            f"{settings.source}: LoRA on {module} has rank {rank}, but the settings state {stated}."
        )
    stated_alpha = settings if alpha_key is None else alphas
    alpha = stated_alpha.number(alpha_key or "lora_alpha", above=0)
    return alpha / (rank**0.5 if settings.flag("use_rslora", False) else rank)


def _find_pattern(patterns, module):
    """Returns the first key (a name, suffix or regular expression) that matches a module name."""
    for key in patterns:
        if not _PATTERN.fullmatch(key) or key.count("*") + key.count("+") > 2:
            raise InputError(
                f"{patterns.source}: {patterns.inside}{shown(key)} is not a supported pattern. "
                "Write the name of the module, or a suffix of the name."
            )
        if re.match(rf"(.*\.)?({key})$", module):
            return key
    return None


def _align_products(config, settings, products):
    """Converts LoRA products to the same rank and scale; returns (`Adapter`, {path: array})."""
    size = max(len(a) for a, _, _ in products.values())
    scale = next(iter(products.values()))[2]
    projections = {projection_of(part) for part in products}
    added = {}
    for parts in matrices(config).values():
        for part in (part for part in parts if projection_of(part) in projections):
            hidden, inner = config.hidden_dim, config.intermediate_dim
            inputs = inner if projection_of(part) == "output" else hidden
            units = inner if projection_of(part) in ("intermediate", "gate") else hidden
            empty = np.zeros((0, inputs), "float32"), np.zeros((units, 0), "float32"), scale
            a, b, own_scale = products.get(part, empty)
            padding = size - len(a)
            b = b if own_scale == scale else b * (own_scale / scale)
            added[part + "a"] = np.pad(a, [[0, padding], [0, 0]]).T
            added[part + "b"] = np.pad(b, [[0, 0], [0, padding]]).T
    adapter = Adapter(
        "lora",
        size=size,
        alpha=scale * size,
        dropout=settings.number("lora_dropout", 0.0, least=0, below=1),
        projections=[name for name in PROJECTIONS if name in projections],
    )
    return adapter, added


def projection_of(part: str) -> str:
    """Returns the entry of `Adapter.projections` for the path of a LoRA variable."""
    return _PROJECTIONS[part.removesuffix("/lora/").partition("/")[2]]
