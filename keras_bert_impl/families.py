"""Which model families are supported, and what to take in place of the others."""

import re

from keras_bert_impl.io.document import Document
from keras_bert_impl.io.errors import InputError, shown

# `model_type` in `config.json`; `interop.layouts` reads these.
SUPPORTED = (
    "bert roberta xlm-roberta camembert albert distilbert electra flaubert modernbert "
    "modernbert-decoder longformer"
).split()
# What to take -> families that are not supported, as in `model_type`.
_NEAREST = {
    "bert-base-uncased": "convbert squeezebert mobilebert ibert fnet funnel megatron-bert roformer "
    "realm retribert splinter visual_bert layoutlm",
    "roberta-base": "deberta deberta-v2 deberta-v3 mpnet xlnet data2vec-text luke bart esm "
    "roberta-prelayernorm nystromformer yoso mra",
    "bert-base-multilingual-cased": "canine",
    "xlm-roberta-base": "xlm xlm-roberta-xl mdeberta rembert ernie_m xmod mbart mt5 m2m_100",
    "bert-base-chinese": "ernie nezha",
    "longformer-base-4096": "big_bird bigbird led reformer",
    "ModernBERT-base": "nomic_bert nomic-bert new gte neobert eurobert gpt2 gpt_neox gptj llama mistral "
    "qwen2 qwen3 gemma gemma2 gemma3 gemma3_text phi phi3 opt bloom t5 umt5 falcon mamba",
}
_INSTEAD = {family: name for name, families in _NEAREST.items() for family in families.split()}
_OTHERWISE = "bert-base-uncased"


def check_family(config: Document) -> None:
    """Raises if a `config.json`, also of a KerasHub preset, belongs to an unsupported family."""
    family = config.get("model_type")
    if family is None:
        classes = [config.text("registered_name", ""), *config.list_of("architectures", str, [])]
        families = map(_family_of_class, filter(None, classes))
        family = next(filter(None, families), "bert")
    if family not in SUPPORTED:
        raise InputError(
            f"{config.source}: models of type {shown(family)} are not supported. "
            f"{instead_of(family)} Supported are {', '.join(SUPPORTED)}."
        )


def instead_of(family: object) -> str:
    """Returns a sentence with the nearest supported model; `family` may be a value from a file."""
    name = _INSTEAD.get(family, _OTHERWISE) if isinstance(family, str) else _OTHERWISE
    advice = f"Take {name!r}"
    if family == "mpnet":
        advice += ", or 'all-MiniLM-L6-v2' for embeddings"
    return f"{advice}; `keras-bert models` lists all."


def unsupported_in_name(name: str) -> str | None:
    """Returns the family that is not supported in a model's name such as `deberta-v3-base`."""
    parts = f"-{re.sub('[^a-z0-9]+', '-', name.lower())}-"
    families = (*SUPPORTED, *_INSTEAD)
    found = [family for family in families if f"-{family.replace('_', '-')}-" in parts]
    longest = max(found, key=len, default="bert")
    return None if longest in SUPPORTED else longest


def _family_of_class(name):
    """Returns the `model_type` of `BertModel` or `keras_hub>BertBackbone`; None if unknown."""
    lower = re.sub("^.*>|(?:For[A-Z].*|Model|LMHeadModel|Backbone)$", "", name).lower()
    families = {re.sub("[-_]", "", family): family for family in (*SUPPORTED, *_INSTEAD)}
    return families.get(lower)
