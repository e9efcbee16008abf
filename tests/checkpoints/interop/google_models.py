"""Google's checkpoints for the tests: made by its own code, or written as TensorFlow 1 does."""

import json
import tarfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.checkpoints.interop import (
    encoder_tensors,
    head_tensors,
    open_model,
    read_encoder_config,
)
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.weights import load_weights
from tests.checkpoints.interop.named_heads import connected

MADE = Path(__file__).parents[2] / "fixtures" / "google"


def unpacked(name, directory):
    """Unpacks a model from tests/fixtures/google, with the outputs that Google's code computed."""
    with tarfile.open(MADE / f"{name}.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    return directory / name, dict(np.load(directory / name / "expected.npz"))


def loaded(path, *names, generator=False, **overrides):
    """Builds a model that returns the outputs of a checkpoint's encoder and heads."""
    source = open_model(path, generator)
    config = read_encoder_config(source)
    encoder = Encoder(type(config)(**config.to_dict() | overrides))
    features = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("token_ids", "segment_ids", "padding_mask")
    }
    states = encoder(features)
    outputs = dict(states)
    for name in names:
        outputs[name] = connected(encoder, name, states, source.config.get("num_labels"))
    model = keras.Model(features, outputs)
    tensors = encoder_tensors(encoder.config)
    for name in names:
        tensors += head_tensors(config, name)
    fresh = load_weights(model, source, tensors)
    assert not [path for path in fresh if "pooler" not in path]
    return model, source


def write_variables(directory, variables, settings=None, config="bert_config.json"):
    """Writes a TensorFlow 1 checkpoint as its `Saver` does, and a configuration file."""
    directory.mkdir(parents=True, exist_ok=True)
    names = sorted(variables)
    tf.raw_ops.SaveV2(
        prefix=str(directory / "bert_model.ckpt"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[variables[name] for name in names],
    )
    if settings is not None:
        (directory / config).write_text(json.dumps(settings))
    return directory


def variables_of(model, renames):
    """Converts the weights of a `transformers` model to TensorFlow 1's variables.

    Args:
        model: a model of `transformers`.
        renames: list of (old, new) substrings, replaced in names in this order.

    Returns:
        dict of variable name to float32 array.
    """
    variables = {}
    for name, weight in model.state_dict().items():
        array = weight.float().numpy()
        path = name
        for old, new in renames:
            path = path.replace(old, new)
        module, _, leaf = path.replace(".", "/").rpartition("/")
        last = module.split("/")[-1]
        if last.startswith("LayerNorm"):
            leaf = {"weight": "gamma", "bias": "beta"}[leaf]
        elif last.endswith("_embeddings"):
            module, _, leaf = module.rpartition("/")
        elif last in ("seq_relationship", "squad", "predictions", "generator_predictions"):
            leaf = f"output_{'weights' if leaf == 'weight' else 'bias'}"
        elif leaf == "weight":
            leaf, array = "kernel", array.T
        variables[f"{module}/{leaf}" if module else leaf] = np.ascontiguousarray(array)
    return variables
