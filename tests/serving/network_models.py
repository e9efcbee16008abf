"""Tiny models of every architecture and task."""

import csv
import functools
import re

import keras
import numpy as np

from keras_bert_impl.serving.graphs.networks import network_of
from keras_bert_impl.tasks import (
    MaskedLM,
    MultipleChoice,
    NextSentencePredictor,
    QuestionAnswerer,
    TextClassifier,
    TextEmbedder,
    TokenClassifier,
)
from tests.helpers import random_features, randomize
from tests.tasks import helpers

# A runtime and Keras both compute in float32, on values of magnitude 1, but sum in a different
# order.
TOLERANCE = 1e-5
FEW_HEADS = ("encoder", "classifier", "masked")
_ROBERTA = {"pad_token_id": 1, "position_offset": 2, "num_segments": 1}
_NO_SEGMENTS = {"num_segments": 0, "use_pooler": False}
_MODERN = _NO_SEGMENTS | {
    "num_layers": 3,
    "layer_norm_epsilon": 1e-5,
    "pre_norm": True,
    "final_norm": True,
    "pooling": "mean",
    "use_bias": False,
    "gated": True,
    "rotary_base": 160_000.0,
    "global_every": 2,
    "window": 2,
    "local_rotary_base": 10_000.0,
}
ARCHITECTURES = {
    "bert": {},
    "bert-causal": {"causal": True},
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA | {"activation": "relu"},
    "albert": {"embedding_dim": 8, "num_layer_groups": 2, "num_layers": 4}
    | {"activation": "gelu_tanh"},
    "distilbert": _NO_SEGMENTS,
    "electra": {"embedding_dim": 8, "use_pooler": False},
    "flaubert": _NO_SEGMENTS | {"pad_token_id": 2, "intermediate_dim": 64},
    "flaubert-large": _NO_SEGMENTS | {"pad_token_id": 2, "pre_norm": True, "intermediate_dim": 64},
    "modernbert": _MODERN,
    "modernbert-decoder": _MODERN | {"causal": True},
}

_VARIANTS = {
    "bert-causal": "bert",
    "flaubert-large": "flaubert",
    "modernbert-decoder": "modernbert",
}

# Heads of causal encoders: none that needs tokens on both sides, or uses the first one, and only
# those with a file format.
_OF_CAUSAL = {
    "bert-causal": ("encoder", "tags", "tags with a CRF", "answers"),
    "modernbert-decoder": ("encoder", "classifier", "regression", "several labels"),
}


@functools.cache
def encoder(kind):
    """A tiny encoder of at least two layers, with noise in every weight."""
    settings = {"num_layers": 2, **ARCHITECTURES[kind]}
    model = helpers.encoder(architecture=_VARIANTS.get(kind, kind), **settings)
    randomize(model)
    return model


def models(kind, names=None):
    """Models on the encoder of a kind, by name, for every task it supports.

    Args:
        kind: str, a key of `ARCHITECTURES`.
        names: list of str, the models to build; None for all.
    """
    base, tokenizer = encoder(kind), helpers.tokenizer()

    def classifier(**settings):
        return TextClassifier(base, tokenizer, **{"labels": ["a", "b", "c"]} | settings)

    def embedder(**settings):
        return TextEmbedder(base, tokenizer, **settings)

    makers = {
        "encoder": lambda: base,
        "classifier": classifier,
        "regression": lambda: classifier(labels=None, num_classes=1),
        "several labels": lambda: classifier(problem_type="multi_label_classification"),
        "windows": lambda: classifier(long_texts="mean"),
        "largest window": lambda: classifier(long_texts="max"),
        "weighted windows": lambda: classifier(long_texts="attention"),
        "tags": lambda: TokenClassifier(base, tokenizer, labels=["a", "b", "c"]),
        "tags with a CRF": lambda: TokenClassifier(base, tokenizer, labels=["a", "b"], crf=True),
        "answers": lambda: QuestionAnswerer(base, tokenizer, max_question_length=8, max_length=32),
        "choice": lambda: MultipleChoice(base, tokenizer),
        "choice in windows": lambda: MultipleChoice(base, tokenizer, long_texts="max"),
        "masked": lambda: MaskedLM(base, tokenizer),
        "vectors": lambda: embedder(normalize=True),
        "largest": lambda: embedder(pooling="max", num_layers=2),
        "three poolings": lambda: embedder(pooling="cls+mean_sqrt_len_tokens+weightedmean"),
        "last tokens": lambda: embedder(pooling="lasttoken"),
        "vectors of windows": lambda: embedder(num_layers=2, long_texts="attention"),
        "mixed": lambda: embedder(pooling="cls", num_layers=2, layer_weights=[1.0, 3.0]),
    }
    if base.config.architecture in ("bert", "albert"):
        makers["next"] = lambda: NextSentencePredictor(base, tokenizer)
    if kind in _OF_CAUSAL:
        makers = {name: makers[name] for name in _OF_CAUSAL[kind]}
    keras.utils.set_random_seed(0)  # reproducible heads, whatever was built before
    instances = {name: make() for name, make in makers.items() if names is None or name in names}
    weights = base.get_weights()
    for model in instances.values():
        randomize(model)
    base.set_weights(weights)  # they share it: undo the noise of each
    return instances


def features(model):
    """Random features with padding, in the form `Network.outputs_of_model` takes."""
    config = getattr(model, "encoder", model).config
    rank = len(model.input["token_ids"].shape) - isinstance(model, TextEmbedder)
    if rank == 2:
        return random_features(config, [9, 4, 1])
    rows = random_features(config, [5, 9, 3, 7, 0, 0])  # two rows of the second group are padding
    shape = {3: (2, 3, 9), 4: (1, 2, 3, 9)}[rank]
    return {name: row.reshape(shape) for name, row in rows.items()}


def largest_difference(received, expected, mask):
    """The largest absolute difference of outputs, ignoring padding positions."""
    assert sorted(received) == sorted(expected)
    differences = []
    for name, array in expected.items():
        output = received[name]
        assert output.shape == array.shape and output.dtype == np.float32
        if array.shape[:2] == mask.shape:
            array, output = array[mask == 1], output[mask == 1]
        differences.append(np.abs(array - output).max())
    return np.max(differences)


def difference_from_keras(session, model, inputs=None):
    """The largest absolute difference between the outputs of a session and of the model."""
    inputs = inputs or features(model)
    return largest_difference(
        session(inputs), network_of(model).outputs_of_model(inputs), inputs["padding_mask"]
    )


_ONLY = """
import json, sys
assert not {"tensorflow", "keras", "keras_bert_impl", "torch", "onnx"} & set(sys.modules)
print(json.dumps(logits.tolist()))
"""
TEXTS_OF_DOCS = ["a joy", "dull, and far too long"]


def probabilities_of_docs(package, directory):
    """Runs the code in docs/runtimes.md for `package`; returns its class probabilities.

    Uses `TEXTS_OF_DOCS` and the `TextClassifier` in `directory`. The process imports nothing but
    what the code itself imports.
    """
    docs = (helpers.ROOT / "docs/runtimes.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", docs, re.DOTALL)
    tokenize = blocks[0]
    assert all(f'"{text}"' in tokenize for text in TEXTS_OF_DOCS)
    (use,) = [block for block in blocks if package in block]
    code = f"{tokenize}{use}{_ONLY}".replace('"served/', f'"{directory}/')
    logits = np.array(helpers.run_python(code))
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def export_command(model, folder, kind):
    """Saves a classifier and labeled texts in a folder.

    Returns:
        list of str, the arguments of the export command without `--out`.
    """
    model.save_pretrained(folder / "model")
    texts, labels = helpers.examples(20)
    with open(folder / "dev.csv", "w", newline="") as file:
        csv.writer(file).writerows([["text", "label"], *zip(texts, labels)])
    gate = ["--dev", str(folder / "dev.csv"), "--text", "text", "--label", "label"]
    return ["export", "--model", str(folder / "model"), "--format", kind, *gate]
