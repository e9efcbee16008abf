"""KerasHub models with random weights, and their outputs in float64."""

import numpy as np
import pytest

from tests.checkpoints.interop.parity import batch
from tests.helpers import randomize, to_numpy

keras_hub = pytest.importorskip("keras_hub")

VOCABULARY = 53
# All sizes differ, so that swapped dimensions cannot pass.
SIZES = {
    "vocabulary_size": VOCABULARY,
    "num_layers": 2,
    "num_heads": 4,
    "hidden_dim": 32,
    "intermediate_dim": 48,
    "max_sequence_length": 20,
}
ELECTRA = {("vocab_size" if k == "vocabulary_size" else k): v for k, v in SIZES.items()}
CASES = {
    "bert": ("Bert", SIZES | {"num_segments": 3}),
    "roberta": ("Roberta", SIZES),
    "xlm-roberta": ("XLMRoberta", SIZES),
    "albert": ("Albert", SIZES | {"embedding_dim": 16}),
    "albert in groups": ("Albert", SIZES | {"embedding_dim": 16, "num_layers": 4, "num_groups": 2}),
    "distilbert": ("DistilBert", SIZES),
    "electra small": ("Electra", ELECTRA | {"embedding_dim": 16}),
    "electra": ("Electra", ELECTRA | {"embedding_dim": 32, "num_segments": 1}),
}


def random_backbone(case, **arguments):
    """Creates a backbone with noise in every weight: fresh biases are 0 and scales 1."""
    name, sizes = CASES[case]
    backbone = getattr(keras_hub.models, f"{name}Backbone")(**(sizes | arguments))
    randomize(backbone)
    return backbone


def random_task(case, task, **arguments):
    """Creates a task on a backbone with noise in every weight."""
    kind = getattr(keras_hub.models, CASES[case][0] + task)
    model = kind(backbone=random_backbone(case), **arguments)
    randomize(model, seed=1)
    return model


def features_for(backbone, lengths):
    """Creates padded features; the padding id appears only in padding."""
    segments = getattr(backbone, "num_segments", 1)
    features = batch(VOCABULARY, lengths, segments)
    real = features["padding_mask"] == 1
    features["token_ids"] = np.where(real, np.maximum(features["token_ids"], 5), 1).astype("int32")
    return features


def in_float64(model):
    """Copies a model to one that computes in float64."""
    config = model.get_config()
    if hasattr(model, "backbone"):
        copy = type(model)(**config | {"backbone": in_float64(model.backbone)})
    else:
        copy = type(model).from_config(config | {"dtype": "float64"})
    copy.set_weights(model.get_weights())
    return copy


def original_outputs(backbone, features):
    """Returns a float64 backbone's outputs under our names, with the pooled output if any."""
    outputs = backbone({name: features[name] for name in backbone.input})
    outputs = outputs if isinstance(outputs, dict) else {"sequence_output": outputs}
    outputs = to_numpy(outputs)
    assert {array.dtype for array in outputs.values()} == {np.dtype("float64")}
    return outputs
