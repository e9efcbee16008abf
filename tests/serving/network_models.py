"""Tiny models of every architecture and every task."""

import csv
import functools
import re

import keras
import numpy as np

from keras_bert_impl.serving.network.networks import network_of
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

# A runtime and Keras both compute in float32, over values of the order of 1, and differ in the order
# of their sums.
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

# No head that the first token is asked for, and those that there are files of.
_OF_CAUSAL = {
    "bert-causal": ("encoder", "tags", "tags with a CRF", "answers", "masked"),
    "modernbert-decoder": ("encoder", "classifier", "regression", "several labels"),
}


@functools.cache
def encoder(kind):
    """A tiny encoder of two layers or more, with noise in every weight."""
    settings = {"num_layers": 2, **ARCHITECTURES[kind]}
    made = helpers.encoder(architecture=_VARIANTS.get(kind, kind), **settings)
    randomize(made)
    return made


def models(kind, names=None):
    """dict of name to a model on the encoder of that kind, for every task that it can have.

    Args:
        kind: str, a key of `ARCHITECTURES`.
        names: which of them; None for all.
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
        "vectors of windows": lambda: embedder(num_layers=2, long_texts="attention"),
        "mixed": lambda: embedder(pooling="cls", num_layers=2, layer_weights=[1.0, 3.0]),
    }
    if base.config.architecture in ("bert", "albert"):
        makers["next"] = lambda: NextSentencePredictor(base, tokenizer)
    if kind in _OF_CAUSAL:
        makers = {name: makers[name] for name in _OF_CAUSAL[kind]}
    keras.utils.set_random_seed(0)  # of heads, whatever was made before
    made = {name: make() for name, make in makers.items() if names is None or name in names}
    weights = base.get_weights()
    for model in made.values():
        randomize(model)
    base.set_weights(weights)  # all share it: without the noise of each
    return made


def features(model):
    """Random features with padding, as `Network.outputs_of_model` takes them."""
    config = getattr(model, "encoder", model).config
    rank = len(model.input["token_ids"].shape) - isinstance(model, TextEmbedder)
    if rank == 2:
        return random_features(config, [9, 4, 1])
    rows = random_features(config, [5, 9, 3, 7, 0, 0])  # of the second group two are padding
    shape = {3: (2, 3, 9), 4: (1, 2, 3, 9)}[rank]
    return {name: row.reshape(shape) for name, row in rows.items()}


def largest_difference(received, expected, mask):
    """The largest difference of outputs, not counting what stands at padding."""
    assert sorted(received) == sorted(expected)
    found = []
    for name, array in expected.items():
        other = received[name]
        assert other.shape == array.shape and other.dtype == np.float32
        if array.shape[:2] == mask.shape:
            array, other = array[mask == 1], other[mask == 1]
        found.append(np.abs(array - other).max())
    return np.max(found)


def difference_from_keras(session, model, given=None):
    """The largest difference of what a session makes of features from what the model does."""
    given = given or features(model)
    return largest_difference(
        session(given), network_of(model).outputs_of_model(given), given["padding_mask"]
    )


_ONLY = """
import json, sys
assert not {"tensorflow", "keras", "keras_bert_impl", "torch", "onnx"} & set(sys.modules)
print(json.dumps(logits.tolist()))
"""
TEXTS_OF_DOCS = ["a joy", "dull, and far too long"]


def probabilities_of_docs(package, directory):
    """What the code in docs/devices.md that imports a package makes of `TEXTS_OF_DOCS`, in a
    process with what it imports alone; of a `TextClassifier` in that directory.
    """
    docs = (helpers.ROOT / "docs/devices.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", docs, re.DOTALL)
    (code,) = [block for block in blocks if package in block]
    assert all(f'"{text}"' in code for text in TEXTS_OF_DOCS)
    code, last = code.replace('"served/', f'"{directory}/').strip().rsplit("\n", 1)
    code += f"\nlogits = {last.removesuffix('.argmax(axis=1)')}\n{_ONLY}"
    logits = np.array(helpers.run_python(code))
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def export_command(model, folder, kind):
    """Saves a classifier and labelled texts in a folder.

    Returns:
        list of str, the arguments of the command that exports it, all but `--out`.
    """
    model.save_pretrained(folder / "model")
    texts, labels = helpers.examples(20)
    with open(folder / "dev.csv", "w", newline="") as file:
        csv.writer(file).writerows([["text", "label"], *zip(texts, labels)])
    gate = ["--dev", str(folder / "dev.csv"), "--text", "text", "--label", "label"]
    return ["export", "--model", str(folder / "model"), "--format", kind, *gate]
