"""Writes checkpoints for Google's original BERT and ALBERT code."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.interop.google.names import ALBERT, BERT
from keras_bert_impl.interop.source import Tensors
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.paths import local_path

_KINDS = {"bert": BERT, "albert": ALBERT}
_KEYS = """
    attention_probs_dropout_prob hidden_act hidden_dropout_prob hidden_size initializer_range
    intermediate_size max_position_embeddings num_attention_heads num_hidden_layers type_vocab_size
    vocab_size
""".split()
# Of a model with labels. Google's code keeps keys that it does not know; ours reads them back.
_LABEL_KEYS = """
    architectures classifier_dropout id2label keras_bert_impl label2id num_labels problem_type
""".split()
_ALBERT_KEYS = ["embedding_size", "inner_group_num", "num_hidden_groups"]
_PREFIX = "bert_model.ckpt"


def write_google_checkpoint(
    directory: str | Path, config: dict[str, Any], tensors: Tensors, vocabulary: Path | None = None
) -> None:
    """Writes `bert_model.ckpt` with its configuration file and optionally `vocab.txt`.

    Args:
        config: The content of a Hugging Face `config.json` of a BERT or ALBERT.
        vocabulary: A `vocab.txt` to copy.

    Raises:
        InputError: the model is of another type, is causal, has a tensor without a name in such
            checkpoints, or is an ALBERT with the exact GELU, for which Google's code has no name.

    Example:
        from keras_bert_impl.interop import open_model, write_google_checkpoint
        source = open_model("path/to/model")
        tensors = {name: source.read(name) for name in source.unread()}
        write_google_checkpoint(directory, source.config, tensors)
    """
    import tensorflow as tf

    directory = local_path(directory)
    model_type = config.get("model_type", "bert")
    if model_type not in list(_KINDS):
        raise InputError(
            f"a model of type {model_type!r} cannot be written as a Google checkpoint; only "
            f"{' and '.join(_KINDS)} can."
        )
    settings = _settings(config, model_type)
    named = {}
    for name, tensor in tensors.items():
        known = _google_name(name, model_type)
        if known is None:
            raise InputError(f"tensor {name} has no name in Google's checkpoints of {model_type}.")
        google, transpose = known
        named[google] = np.ascontiguousarray(tensor.T if transpose else tensor)
    text = json.dumps(settings, indent=2, sort_keys=True) + "\n"
    (directory / f"{model_type}_config.json").write_text(text, encoding="utf-8")
    if vocabulary is not None:
        shutil.copyfile(vocabulary, directory / "vocab.txt")
    names = sorted(named)
    tf.raw_ops.SaveV2(
        prefix=str(directory / _PREFIX),
        tensor_names=names,
        shape_and_slices=[""] * len(names),  # whole tensors
        tensors=[named[name] for name in names],
    )


def _google_name(name, model_type):
    """Returns (variable name, whether to transpose), or None if the tensor has no such name."""
    for spelling in (name, f"{model_type}.{name}"):  # a base model's names have no prefix
        for known in _KINDS[model_type]:
            google = known.to_google(spelling)
            if google:
                return google, known.transpose
    return None


def _settings(config, model_type):
    if config.get("is_decoder"):
        raise InputError(f"{model_type}_config.json cannot express causal attention.")
    keys = [*_KEYS]
    if "id2label" in config:
        keys += _LABEL_KEYS
    if model_type == "albert":
        keys += _ALBERT_KEYS
    settings = {key: config[key] for key in keys if key in config}
    if model_type == "bert":
        return settings
    if config.get("hidden_act", "gelu_new") == "gelu":
        raise InputError(
            'albert_config.json cannot express the exact GELU: its "gelu" is the tanh approximation '
            '("gelu_new").'
        )
    if settings.get("hidden_act") == "gelu_new":
        settings["hidden_act"] = "gelu"
    return settings
