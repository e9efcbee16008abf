"""LoRA as the `peft` library writes it: `adapter_config.json` and names of tensors.

Where a matrix of theirs holds several of ours, as the fused ones of ModernBERT do, our products
stand in one of theirs whose second matrix is made of blocks.
"""

import dataclasses

import numpy as np

from keras_bert_impl.adapter import Adapter
from keras_bert_impl.errors import InputError
from keras_bert_impl.interop.huggingface import encoder_tensors, tensor_prefix

_ROOT = "base_model.model."
_PLACES = {  # places in a block to the names of `Adapter.projections`
    "attention/query": "query",
    "attention/key": "key",
    "attention/value": "value",
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
# Settings by which other arithmetic hides behind the same names.
_FIXED = {"use_dora": False, "bias": "none", "lora_bias": False, "use_qalora": False}


def to_peft(config, added, changed, head, base):
    """What `peft` loads onto the base model.

    Args:
        config: `EncoderConfig` with LoRA.
        added: dict of paths of LoRA's variables to arrays.
        changed: dict of names of other tensors, with the prefix of the encoder's, to arrays.
        head: str or None, as of `interop.head_tensors`.
        base: str, the name of the base model.

    Returns:
        (dict for `adapter_config.json`, dict of names to arrays).
    """
    adapter, prefix = config.adapter, tensor_prefix(config)
    tensors = {_ROOT + name: array for name, array in changed.items()}
    ranks = {}
    for tensor, parts in matrices(config).items():
        with_lora = [part for part in parts if part + "a" in added]
        if not with_lora:
            continue
        module = prefix + tensor.removesuffix(".weight")
        blocks = [added[part + "b"].T for part in with_lora]  # [units, rank] each
        b = np.zeros((len(parts) * len(blocks[0]), len(blocks) * adapter.size), "float32")
        for column, (part, block) in enumerate(zip(with_lora, blocks)):
            row = parts.index(part) * len(block)
            columns = slice(column * adapter.size, (column + 1) * adapter.size)
            b[row : row + len(block), columns] = block
        tensors[f"{_ROOT}{module}.lora_A.weight"] = np.concatenate(
            [added[part + "a"].T for part in with_lora]
        )
        tensors[f"{_ROOT}{module}.lora_B.weight"] = b
        ranks[module] = b.shape[1]
    others = {name.removeprefix(prefix).split(".")[0] for name in changed}
    return {
        "peft_type": "LORA",
        "task_type": TASK_TYPES.get(head),
        "base_model_name_or_path": base,
        "r": adapter.size,
        "lora_alpha": adapter.alpha,
        "lora_dropout": adapter.dropout,
        "target_modules": list(ranks),
        "rank_pattern": {m: r for m, r in ranks.items() if r != adapter.size},
        "alpha_pattern": {
            module: adapter.alpha * rank / adapter.size
            for module, rank in ranks.items()
            if rank != adapter.size
        },
        "modules_to_save": sorted(others - {"crf"}),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }, tensors


def from_peft(config, settings, tensors, where):
    """The opposite, of what `peft` or `to_peft` wrote.

    Args:
        config: `EncoderConfig` of the base model.
        settings: dict, the content of `adapter_config.json`.
        tensors: dict of names to arrays.
        where: str, what an error begins with.

    Returns:
        (`Adapter`, dict of paths of its variables to arrays, dict of names of other tensors,
        those of the encoder without its prefix, to arrays).

    Raises:
        InputError: no LoRA, or one of another arithmetic.
    """
    if settings.get("peft_type") != "LORA":
        raise InputError(f"{where}: peft_type is {settings.get('peft_type')!r}; LORA is supported.")
    for name, value in _FIXED.items():
        if (settings.get(name) or value) != value:
            raise InputError(
                f"{where}: {name} is {settings[name]!r}; only {value!r} is supported."
            )
    prefix = tensor_prefix(config)
    rest = {name.removeprefix(_ROOT).removeprefix(prefix): a for name, a in tensors.items()}
    products = {}
    for tensor, parts in matrices(config).items():
        a, b = (rest.pop(f"{tensor.removesuffix('weight')}lora_{m}.weight", None) for m in "AB")
        if a is None or b is None:
            continue
        if a.ndim != 2 or b.ndim != 2 or a.shape[0] != b.shape[1] or len(b) % len(parts):
            raise InputError(f"{where}: LoRA of {tensor} has shapes {a.shape} and {b.shape}.")
        scale = _scale(settings, prefix + tensor.removesuffix(".weight"), len(a), where)
        for part, rows in zip(parts, np.split(b, len(parts))):
            products[part] = a, rows, scale
    unknown = [name for name in rest if "lora_" in name]
    if unknown or not products:
        what = f"{unknown[0]:.200} is not" if unknown else "no tensor is"
        raise InputError(f"{where}: {what} LoRA on a matrix of this encoder's blocks.")
    return *_in_one_shape(config, settings, products), rest


def matrices(config):
    """dict of the tensors of matrices in blocks to where LoRA's variables of their parts are."""
    plain = dataclasses.replace(config, adapter=None)
    found = {}
    for name in encoder_tensors(plain):
        layer, _, place = name.variable.removesuffix("/kernel").partition("/")
        if place in _PLACES:
            found.setdefault(name.tensor, []).append(f"{layer}/{place}/lora/")
    return found


def _scale(settings, module, rank, where):
    """float. What the product of a matrix is multiplied by."""

    def number(name, default):
        value = (settings.get(f"{name}_pattern") or {}).get(module)
        value = settings.get(default) if value is None else value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise InputError(f"{where}: {default} of {module} is {value!r}, not a number above 0.")
        return value

    for pattern in ("rank_pattern", "alpha_pattern"):
        modules = settings.get(pattern) or {}
        # A shorter name, or an expression, is for whatever ends so.
        if not isinstance(modules, dict) or any(name.count(".") < 2 for name in modules):
            raise InputError(f"{where}: {pattern} must name whole modules.")
    if number("rank", "r") != rank:
        raise InputError(f"{where}: LoRA of {module} has rank {rank}, by the settings another.")
    return number("alpha", "lora_alpha") / (rank**0.5 if settings.get("use_rslora") else rank)


def _in_one_shape(config, settings, products):
    """(`Adapter`, its variables), of matrices that may differ in rank and scale.

    Narrow ones are filled up with zeros; a matrix without a product has one of zeros.
    """
    size = max(len(a) for a, _, _ in products.values())
    scale = next(iter(products.values()))[2]
    projections = {place(part) for part in products}
    added = {}
    for parts in matrices(config).values():
        for part in (part for part in parts if place(part) in projections):
            hidden, inner = config.hidden_dim, config.intermediate_dim
            inputs = inner if place(part) == "output" else hidden
            units = inner if place(part) in ("intermediate", "gate") else hidden
            empty = np.zeros((0, inputs), "float32"), np.zeros((units, 0), "float32"), scale
            a, b, own_scale = products.get(part, empty)
            more = size - len(a)
            b = b if own_scale == scale else b * (own_scale / scale)
            added[part + "a"] = np.pad(a, [[0, more], [0, 0]]).T
            added[part + "b"] = np.pad(b, [[0, 0], [0, more]]).T
    adapter = Adapter(
        "lora",
        size=size,
        alpha=scale * size,
        dropout=settings.get("lora_dropout") or 0.0,
        projections=[place for place in _PLACES.values() if place in projections],
    )
    return adapter, added


def place(part):
    return _PLACES[part.removesuffix("/lora/").partition("/")[2]]
