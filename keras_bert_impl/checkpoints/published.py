"""The published models, and the supported and unsupported model families."""

import dataclasses
import hashlib
import itertools
import re
from collections.abc import Iterable
from typing import Any

from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.reading import Document


@dataclasses.dataclass(frozen=True)
class PublishedModel:
    """A published model.

    Args:
        fields: Fields of the model's `EncoderConfig`.
        hub: `owner/name` on the Hugging Face hub.
        tokenizer: `"WordPiece"`, `"byte-level BPE"`, `"SentencePiece"` or `"Moses + BPE"`.
        lowercase: Whether the tokenizer lowercases text.
        license: License of the published weights.
        paper: Paper that describes the model.
    """

    fields: dict[str, Any]
    hub: str
    tokenizer: str = "WordPiece"
    lowercase: bool = False
    license: str = "Apache-2.0"
    paper: str = "Devlin et al. 2019, arXiv:1810.04805"


# arguments of `_make_fields`: layers, width and heads
_SIZES = {"small": (12, 256, 4), "base": (12, 768, 12), "large": (24, 1024, 16)}


def _make_fields(vocabulary_size, num_layers, hidden_dim, num_heads, **fields):
    sizes = {"vocabulary_size": vocabulary_size, "num_layers": num_layers}
    sizes |= {"hidden_dim": hidden_dim, "num_heads": num_heads, "intermediate_dim": 4 * hidden_dim}
    return sizes | fields


def _list_base_and_large(hub, vocabulary_size, about, **fields):
    return [
        PublishedModel(
            _make_fields(vocabulary_size, *_SIZES[size], **fields), hub.format(size), **about
        )
        for size in ("base", "large")
    ]


def _make_bert(hub, vocabulary_size, size="base", **about):
    return PublishedModel(_make_fields(vocabulary_size, *_SIZES[size]), hub, **about)


def _list_berts():
    uncased, cased = 30522, 28996
    low = {"lowercase": True}
    span = {"paper": "Joshi et al. 2020, arXiv:1907.10529", "license": "CC-BY-NC-4.0"}
    bio = {"paper": "Lee et al. 2019, arXiv:1901.08746"}
    science = {"paper": "Beltagy et al. 2019, arXiv:1903.10676"}
    clinical = {"paper": "Alsentzer et al. 2019, arXiv:1904.03323", "license": "MIT"}
    finnish = {"paper": "Virtanen et al. 2019, arXiv:1912.07076", "license": "CC-BY-4.0"}
    finance = {"paper": "Araci 2019, arXiv:1908.10063"}
    dutch = {"paper": "de Vries et al. 2019, arXiv:1912.09582"}
    return [
        _make_bert("google-bert/bert-base-uncased", uncased, **low),
        _make_bert("google-bert/bert-base-cased", cased),
        _make_bert("google-bert/bert-large-uncased", uncased, "large", **low),
        _make_bert("google-bert/bert-large-cased", cased, "large"),
        _make_bert("google-bert/bert-large-uncased-whole-word-masking", uncased, "large", **low),
        _make_bert("google-bert/bert-large-cased-whole-word-masking", cased, "large"),
        _make_bert("google-bert/bert-base-multilingual-uncased", 105879, **low),
        _make_bert("google-bert/bert-base-multilingual-cased", 119547),
        _make_bert("google-bert/bert-base-chinese", 21128, **low),
        _make_bert("SpanBERT/spanbert-base-cased", cased, **span),
        _make_bert("SpanBERT/spanbert-large-cased", cased, "large", **span),
        _make_bert("dmis-lab/biobert-base-cased-v1.1", cased, **bio),
        _make_bert("dmis-lab/biobert-large-cased-v1.1", 58996, "large", **bio),
        _make_bert("allenai/scibert_scivocab_uncased", 31090, **low, **science),
        _make_bert("allenai/scibert_scivocab_cased", 31116, **science),
        _make_bert("emilyalsentzer/Bio_ClinicalBERT", cased, **clinical),
        _make_bert("TurkuNLP/bert-base-finnish-cased-v1", 50105, **finnish),
        _make_bert("TurkuNLP/bert-base-finnish-uncased-v1", 50101, **low, **finnish),
        _make_bert("ProsusAI/finbert", uncased, **low, **finance),
        _make_bert("GroNLP/bert-base-dutch-cased", 30073, **dutch),
    ]


def _list_chinese():
    """Returns the Chinese models of HFL, which are all of type BERT."""
    about = {"lowercase": True, "paper": "Cui et al. 2021, arXiv:1906.08101"}
    mac = about | {"paper": "Cui et al. 2020, arXiv:2004.13922"}
    shallow = {"rbt3": (3, 768, 12), "rbt4": (4, 768, 12), "rbt6": (6, 768, 12)}
    shallow["rbtl3"] = (3, 1024, 16)
    return [
        _make_bert("hfl/chinese-bert-wwm", 21128, **about),
        _make_bert("hfl/chinese-bert-wwm-ext", 21128, **about),
        _make_bert("hfl/chinese-roberta-wwm-ext", 21128, **about),
        _make_bert("hfl/chinese-roberta-wwm-ext-large", 21128, "large", **about),
        *(
            PublishedModel(_make_fields(21128, *shape), f"hfl/{name}", **about)
            for name, shape in shallow.items()
        ),
        *_list_base_and_large("hfl/chinese-macbert-{}", 21128, mac),
    ]


def _list_small_berts():
    about = {"lowercase": True, "paper": "Turc et al. 2019, arXiv:1908.08962"}
    shapes = itertools.product((2, 4, 6, 8, 10, 12), (128, 256, 512, 768))
    models = []
    for layers, width in shapes:
        hub = f"google/bert_uncased_L-{layers}_H-{width}_A-{width // 64}"
        models.append(PublishedModel(_make_fields(30522, layers, width, width // 64), hub, **about))
    return models


def _list_distilled():
    tiny = {"lowercase": True, "paper": "Jiao et al. 2020, arXiv:1909.10351"}
    mini = {"lowercase": True, "paper": "Wang et al. 2020, arXiv:2002.10957", "license": "MIT"}
    small = mini | {"license": "Apache-2.0"}
    distil = {"paper": "Sanh et al. 2019, arXiv:1910.01108"}
    fields = {"architecture": "distilbert", "num_segments": 0, "use_pooler": False}

    def make_distilbert(name, vocabulary_size, **about):
        config = _make_fields(vocabulary_size, 6, 768, 12, **fields)
        return PublishedModel(config, f"distilbert/{name}", **distil, **about)

    tiny_config = _make_fields(30522, 4, 312, 12, intermediate_dim=1200)
    return [
        make_distilbert("distilbert-base-uncased", 30522, lowercase=True),
        make_distilbert("distilbert-base-cased", 28996),
        make_distilbert("distilbert-base-multilingual-cased", 119547),
        PublishedModel(tiny_config, "huawei-noah/TinyBERT_General_4L_312D", **tiny),
        PublishedModel(
            _make_fields(30522, 6, 768, 12), "huawei-noah/TinyBERT_General_6L_768D", **tiny
        ),
        PublishedModel(
            _make_fields(30522, 12, 384, 12), "microsoft/MiniLM-L12-H384-uncased", **mini
        ),
        PublishedModel(
            _make_fields(30522, 6, 384, 12), "sentence-transformers/all-MiniLM-L6-v2", **small
        ),
    ]


def _list_robertas():
    roberta = {"paper": "Liu et al. 2019, arXiv:1907.11692", "license": "MIT"}
    roberta |= {"tokenizer": "byte-level BPE"}
    xlm = {"paper": "Conneau et al. 2020, arXiv:1911.02116", "license": "MIT"}
    camembert = {"paper": "Martin et al. 2020, arXiv:1911.03894", "license": "MIT"}

    def make_roberta(architecture, hub, vocabulary_size, size, about):
        fields = {"architecture": architecture, "num_segments": 1, "layer_norm_epsilon": 1e-5}
        fields |= {"pad_token_id": 1, "position_offset": 2}
        config = _make_fields(vocabulary_size, *_SIZES[size], **fields)
        return PublishedModel(config, hub, **{"tokenizer": "SentencePiece"} | about)

    return [
        make_roberta("roberta", "FacebookAI/roberta-base", 50265, "base", roberta),
        make_roberta("roberta", "FacebookAI/roberta-large", 50265, "large", roberta),
        make_roberta("xlm-roberta", "FacebookAI/xlm-roberta-base", 250002, "base", xlm),
        make_roberta("xlm-roberta", "FacebookAI/xlm-roberta-large", 250002, "large", xlm),
        make_roberta("camembert", "almanach/camembert-base", 32005, "base", camembert),
    ]


def _list_alberts():
    sizes = {size: _SIZES[size] for size in ("base", "large")}
    sizes |= {"xlarge": (24, 2048, 16), "xxlarge": (12, 4096, 64)}
    # Version 1 was trained with dropout (except xxlarge) and exact GELU.
    versions = {"v1": ("gelu", 0.1), "v2": ("gelu_tanh", 0.0)}
    about = {"tokenizer": "SentencePiece", "lowercase": True}
    about["paper"] = "Lan et al. 2020, arXiv:1909.11942"
    models = []
    for version, (activation, dropout) in versions.items():
        for size, shape in sizes.items():
            rate = 0.0 if size == "xxlarge" else dropout
            fields = {"architecture": "albert", "embedding_dim": 128, "num_layer_groups": 1}
            fields |= {"activation": activation, "dropout": rate, "attention_dropout": rate}
            config = _make_fields(30000, *shape, **fields)
            models.append(PublishedModel(config, f"albert/albert-{size}-{version}", **about))
    return models


def _list_electras():
    about = {"lowercase": True, "paper": "Clark et al. 2020, arXiv:2003.10555"}
    fields = {"architecture": "electra", "use_pooler": False}
    widths = {"small": 128, "base": 768, "large": 1024}
    models = []
    for size, (num_layers, hidden_dim, num_heads) in _SIZES.items():
        shapes = {"discriminator": (hidden_dim, num_heads), "generator": (256, 4)}
        for kind, (width, heads) in shapes.items():
            embedding_dim = None if widths[size] == width else widths[size]
            config = _make_fields(
                30522, num_layers, width, heads, embedding_dim=embedding_dim, **fields
            )
            models.append(PublishedModel(config, f"google/electra-{size}-{kind}", **about))
    return models


def _list_flauberts():
    about = {"tokenizer": "Moses + BPE", "license": "MIT"}
    about["paper"] = "Le et al. 2020, arXiv:1912.05372"
    fields = {"architecture": "flaubert", "num_segments": 0, "use_pooler": False, "pad_token_id": 2}
    shapes = {  # arguments: vocabulary size, layers, width, heads, pre_norm
        "small_cased": (68729, 6, 512, 8, True),
        "base_uncased": (67542, 12, 768, 12, False),
        "base_cased": (68729, 12, 768, 12, False),
        "large_cased": (68729, 24, 1024, 16, True),
    }
    models = []
    for name, (*shape, pre_norm) in shapes.items():
        norm = {"layer_norm_epsilon": 1e-6 if pre_norm else 1e-12, "pre_norm": pre_norm}
        config = _make_fields(*shape, **fields, **norm)
        lowercase = "uncased" in name
        hub = f"flaubert/flaubert_{name}"
        models.append(PublishedModel(config, hub, lowercase=lowercase, **about))
    return models


def _list_longformers():
    about = {"tokenizer": "byte-level BPE", "paper": "Beltagy et al. 2020, arXiv:2004.05150"}
    fields = {"architecture": "longformer", "max_length": 4096, "num_segments": 1}
    fields |= {"layer_norm_epsilon": 1e-5, "pad_token_id": 1, "position_offset": 2}
    fields |= {"window": 256, "max_global_tokens": 128}
    return _list_base_and_large("allenai/longformer-{}-4096", 50265, about, **fields)


def _list_big_birds():
    about = {"tokenizer": "SentencePiece", "paper": "Zaheer et al. 2020, arXiv:2007.14062"}
    fields = {"architecture": "big_bird", "max_length": 4096}
    fields |= {"activation": "gelu_tanh", "block_size": 64}
    return _list_base_and_large("google/bigbird-roberta-{}", 50358, about, **fields)


def _list_modernberts():
    about = {"tokenizer": "byte-level BPE", "paper": "Warner et al. 2024, arXiv:2412.13663"}
    shapes = {"base": (22, 768, 12, 1152), "large": (28, 1024, 16, 2624)}
    models = []
    for size, (*shape, intermediate_dim) in shapes.items():
        config = _make_fields(
            50368,
            *shape,
            architecture="modernbert",
            intermediate_dim=intermediate_dim,
            max_length=8192,
            num_segments=0,
            dropout=0.0,
            attention_dropout=0.0,
            layer_norm_epsilon=1e-5,
            pad_token_id=50283,
            use_pooler=False,
            pre_norm=True,
            final_norm=True,
            pooling="mean",
            use_bias=False,
            gated=True,
            rotary_base=160_000.0,
            global_every=3,
            window=64,
            local_rotary_base=10_000.0,
        )
        models.append(PublishedModel(config, f"answerdotai/ModernBERT-{size}", **about))
    return models


def _list_gpts():
    paper = "Radford et al. 2019, Language Models are Unsupervised Multitask Learners"
    about = {"tokenizer": "byte-level BPE", "license": "MIT", "paper": paper}
    shapes = {
        "openai-community/gpt2": (12, 768, 12),
        "openai-community/gpt2-medium": (24, 1024, 16),
        "openai-community/gpt2-large": (36, 1280, 20),
        "openai-community/gpt2-xl": (48, 1600, 25),
        "distilbert/distilgpt2": (6, 768, 12),
    }
    fields = {"architecture": "gpt2", "max_length": 1024, "num_segments": 0}
    fields |= {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-5, "pad_token_id": 50256}
    fields |= {"use_pooler": False, "pre_norm": True, "final_norm": True}
    fields |= {"embedding_norm": False, "causal": True}
    return [
        PublishedModel(_make_fields(50257, *shape, **fields), hub, **about)
        for hub, shape in shapes.items()
    ]


_FAMILIES = (
    _list_berts,
    _list_chinese,
    _list_small_berts,
    _list_distilled,
    _list_robertas,
    _list_alberts,
    _list_electras,
    _list_flauberts,
    _list_modernberts,
    _list_longformers,
    _list_big_birds,
    _list_gpts,
)
MODELS = {model.hub.split("/")[1]: model for family in _FAMILIES for model in family()}


def published_name(name: str) -> str | None:
    """Returns the key in `MODELS`, or None. The name may include the owner, as in `owner/name`."""
    short = name.rpartition("/")[2]
    return short if short in MODELS and name in (short, MODELS[short].hub) else None


# SHA-256 of a published vocabulary's tokens, joined by newlines -> model name.
_VOCABULARIES = {
    "0f052197aac305fe42f378b5c61554b7bacb34b8be4af83fec2cfdcdffbc9973": "bert-base-uncased",
    "9dd1dce5943e4cdda015102aa80afbf7df7b09cb6902ea212276a853acae9789": "bert-base-cased",
    "8550a78ca2dd304e6a4b45baa9780db8a93cfacc564b4d1c319905db0122f1e4": "bert-base-chinese",
    "7974e1090ba19a88b6e456195d4aa7f9f13ea8d4876b0a362c425a2444708f5a": (
        "bert-base-multilingual-cased"
    ),
    "cf28af60d3f93fbd0503d74b4fba2ea5adf4e9ba5d272bebd2a9dad1e38d2da4": "scibert_scivocab_uncased",
}


def published_lowercase(
    vocabulary: list[str], names: Iterable[str] = ()
) -> tuple[bool, str] | None:
    """Identifies a published tokenizer; returns (whether it lowercases, model name) or None."""
    digest = hashlib.sha256("\n".join(vocabulary).encode("utf-8", "replace")).hexdigest()
    for name in (_VOCABULARIES.get(digest, ""), *names):
        last = re.split("/|--", name)[-1]
        if last in MODELS:
            return MODELS[last].lowercase, last
        if re.search("(?i)(^|[-_])uncased([-_]|$)", last):
            return True, last
        if re.search("(?i)(^|[-_])cased([-_]|$)", last):
            return False, last
    return None


# Values of `model_type` in `config.json` that `interop.layouts` reads.
SUPPORTED = (
    "bert roberta xlm-roberta camembert albert distilbert electra flaubert xlm modernbert "
    "modernbert-decoder longformer big_bird gpt2"
).split()
# Suggested model -> unsupported families, as in `model_type`.
_NEAREST = {
    "bert-base-uncased": "convbert squeezebert mobilebert ibert fnet funnel megatron-bert roformer "
    "realm retribert splinter visual_bert layoutlm",
    "roberta-base": "deberta deberta-v2 deberta-v3 mpnet xlnet data2vec-text luke bart esm "
    "roberta-prelayernorm nystromformer yoso mra",
    "bert-base-multilingual-cased": "canine",
    "xlm-roberta-base": "xlm-roberta-xl mdeberta rembert ernie_m xmod mbart mt5 m2m_100",
    "bert-base-chinese": "ernie nezha",
    "bigbird-roberta-base": "bigbird_pegasus",
    "longformer-base-4096": "led reformer",
    "ModernBERT-base": "nomic_bert nomic-bert new gte neobert eurobert gpt_neo gpt_neox gptj llama mistral "
    "qwen2 qwen3 gemma gemma2 gemma3 gemma3_text phi phi3 opt bloom t5 umt5 falcon mamba",
}
_INSTEAD = {family: name for name, families in _NEAREST.items() for family in families.split()}
_OTHERWISE = "bert-base-uncased"


def check_family(config: Document) -> None:
    family = config.get("model_type")
    if family is None:
        classes = [config.text("registered_name", ""), *config.list_of("architectures", str, [])]
        families = map(_find_family, filter(None, classes))
        family = next(filter(None, families), "bert")
    if family not in SUPPORTED:
        raise InputError(
            f"{config.source}: models of type {shown(family)} are not supported. "
            f"{instead_of(family)} Supported types are {', '.join(SUPPORTED)}."
        )


def is_preset(config: Document) -> bool:
    return "registered_name" in config and "model_type" not in config


def instead_of(family: object) -> str:
    """Returns a hint for an error message: a supported model similar to an unsupported one."""
    name = _INSTEAD.get(family, _OTHERWISE) if isinstance(family, str) else _OTHERWISE
    advice = f"Take {name!r}"
    if family == "mpnet":
        advice += ", or 'all-MiniLM-L6-v2' for embeddings"
    return f"{advice}; `keras-bert models` lists all models."


def unsupported_in_name(name: str) -> str | None:
    """Returns the family in a model name such as `deberta-v3-base` if it is unsupported."""
    parts = f"-{re.sub('[^a-z0-9]+', '-', name.lower())}-"
    # "new" is also a common word.
    families = [family for family in (*SUPPORTED, *_INSTEAD) if family != "new"]
    mentioned = [family for family in families if f"-{family.replace('_', '-')}-" in parts]
    longest = max(mentioned, key=len, default="bert")
    return None if longest in SUPPORTED else longest


def _find_family(name):
    """Returns the `model_type` of a class such as `keras_hub>BertBackbone`, or None."""
    lower = re.sub("^.*>|(?:For[A-Z].*|Model|LMHeadModel|Backbone)$", "", name).lower()
    families = {re.sub("[-_]", "", family): family for family in (*SUPPORTED, *_INSTEAD)}
    return families.get(lower)
