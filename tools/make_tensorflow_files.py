"""Writes small random models, with outputs, in TensorFlow and Flax formats of `transformers` 4.

It runs in a separate environment; `tests/checkpoints/interop/test_tensorflow_names.py` reads the folder:

    python3.11 -m venv oracle
    oracle/bin/pip install "transformers==4.46.3" "tensorflow-cpu==2.18.1" "tf-keras==2.18.0" \
        "flax==0.8.2" "jax==0.4.25" "jaxlib==0.4.25" "numpy<2"
    oracle/bin/python tools/make_tensorflow_files.py FOLDER [FAMILY ...]

Each model has a folder `FAMILY/CLASS/KIND` with the files from `save_pretrained` and
`expected.npz`, which contains the features and the outputs, named as in `transformers`. `KIND` is
the file format: `h5`, `h5_shards`, `tf_safetensors`, `saved_model`, `flax`, `flax_shards` or
`flax_safetensors`.
"""

import os
import sys
from pathlib import Path

os.environ |= {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "2", "JAX_PLATFORMS": "cpu"}

import jax
import numpy as np
import transformers

HEADS = """
    Model ForMaskedLM LMHeadModel ForCausalLM WithLMHeadModel ForPreTraining
    ForNextSentencePrediction ForSequenceClassification ForTokenClassification
    ForQuestionAnswering ForQuestionAnsweringSimple ForMultipleChoice
""".split()
OF_TWO = """
    ForPreTraining ForQuestionAnswering ForQuestionAnsweringSimple ForMultipleChoice
""".split()
CAUSAL = ("LMHeadModel", "ForCausalLM")
# Classes that are also written as a SavedModel, which takes ten seconds per model.
IN_SAVED_MODELS = ("TFBertModel", "TFBertForSequenceClassification", "TFAlbertForMaskedLM")
SIZES = {
    "vocab_size": 40,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 24,
    "type_vocab_size": 2,
    "num_labels": 3,
}
OF_ROBERTA = SIZES | {"pad_token_id": 1, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
SHORT = {"vocab_size": 40, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 24}
FAMILIES = {  # prefix of the class names -> settings
    "Bert": SIZES,
    "Roberta": OF_ROBERTA,
    "XLMRoberta": OF_ROBERTA,
    "Camembert": OF_ROBERTA,
    "Albert": SIZES | {"embedding_size": 4},
    "DistilBert": SHORT | {"dim": 8, "hidden_dim": 16, "num_labels": 3},
    "Electra": SIZES | {"embedding_size": 4},
    "Flaubert": SHORT | {"emb_dim": 8, "num_labels": 3, "initializer_range": 0.02},
    "Longformer": OF_ROBERTA | {"attention_window": 4, "vocab_size": 40},
}
LENGTHS = (7, 12, 5, 9)
SHARD = "4KB"
KINDS = {
    "TF": {
        "h5": {"safe_serialization": False},
        "h5_shards": {"safe_serialization": False, "max_shard_size": SHARD},
        "tf_safetensors": {"safe_serialization": True},
        "tf_safetensors_shards": {"safe_serialization": True, "max_shard_size": SHARD},
        "saved_model": {"safe_serialization": False, "saved_model": True},
    },
    "Flax": {
        "flax": {"safe_serialization": False},
        "flax_shards": {"safe_serialization": False, "max_shard_size": SHARD},
        "flax_safetensors": {"safe_serialization": True},
    },
}


jax.config.update("jax_enable_x64", True)
# JAX has removed this method, which some Flax models call.
type(jax.numpy.zeros(1)).split = jax.numpy.split


def main(folder: Path, families: list[str]) -> None:
    """Writes all models of the given families, in all formats."""
    for family in families or FAMILIES:
        settings = FAMILIES[family]
        kind = getattr(transformers, f"{family}Config")
        for head in HEADS:
            for framework in KINDS:
                model_class = getattr(transformers, f"{framework}{family}{head}", None)
                if model_class is not None:
                    head_settings = {"is_decoder": True} if head in CAUSAL else {}
                    head_settings |= {"num_labels": 2} if head in OF_TWO else {}
                    config = kind(**settings | head_settings)
                    write(folder / family / head, framework, model_class, config)


def write(folder: Path, framework: str, model_class: type, config: object) -> None:
    """Writes a model in all formats of a framework."""
    features = batch(config, model_class.__name__)
    create = tf_model if framework == "TF" else flax_model
    model, outputs = create(model_class, config, features)
    for kind, how in KINDS[framework].items():
        path = folder / kind
        if kind == "saved_model" and model_class.__name__ not in IN_SAVED_MODELS:
            continue
        model.save_pretrained(path, **how)
        if kind == "saved_model":
            (path / "tf_model.h5").unlink()
        expected = {name: np.asarray(value) for name, value in outputs.items() if value is not None}
        np.savez(path / "expected.npz", **features, **{f"out_{n}": v for n, v in expected.items()})
    print(folder.relative_to(folder.parents[1]), framework, *outputs, flush=True)


def batch(config: object, name: str) -> dict[str, np.ndarray]:
    """Creates padded features, `[batch, length]`, or `[batch, choices, length]`."""
    random = np.random.default_rng(0)
    lengths = np.array(LENGTHS)[:, None]
    place = np.arange(max(LENGTHS))[None]
    mask = (place < lengths).astype("int32")
    ids = random.integers(4, 40, mask.shape).astype("int32")
    ids = np.where(mask, ids, config.pad_token_id).astype("int32")
    features = {"input_ids": ids, "attention_mask": mask}
    if getattr(config, "type_vocab_size", 0) and config.model_type != "distilbert":
        segments = (place >= lengths // 2).astype("int32") % config.type_vocab_size
        features["token_type_ids"] = segments
    if config.model_type == "longformer":
        features["global_attention_mask"] = (place == 0).astype("int32") * mask
    if "MultipleChoice" in name:
        features = {n: value.reshape(2, 2, -1) for n, value in features.items()}
    return features


def tf_model(model_class: type, config: object, features: dict) -> tuple:
    """Creates a TensorFlow model with noise in every weight, and computes its outputs."""
    model = model_class(config)
    model(features, training=False)
    random = np.random.default_rng(1)
    for weight in model.weights:
        if weight.dtype.is_floating:
            noise = 0.2 * random.standard_normal(weight.shape)
            weight.assign_add(noise.astype("float32"))
    outputs = model(features, training=False)
    return model, {n: v for n, v in outputs.items() if not isinstance(v, tuple)}


def flax_model(model_class: type, config: object, features: dict) -> tuple:
    """Same as `tf_model`, but in Flax, with float64 outputs (float32 is less exact)."""
    shape = (1, 2, 4) if "MultipleChoice" in model_class.__name__ else (1, 4)
    model = model_class(config, input_shape=shape, dtype=jax.numpy.float64)
    random = np.random.default_rng(1)
    model.params = jax.tree_util.tree_map(
        lambda w: (w + 0.2 * random.standard_normal(w.shape)).astype("float32"), model.params
    )
    params = jax.tree_util.tree_map(lambda w: w.astype("float64"), model.params)
    outputs = model(**features, params=params, train=False)
    return model, {n: v for n, v in outputs.items() if not isinstance(v, tuple)}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
