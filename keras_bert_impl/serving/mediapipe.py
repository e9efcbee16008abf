"""Export to MediaPipe's TextClassifier and TextEmbedder: a LiteRT file with a text as input."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from mediapipe.tasks.python import BaseOptions, text

from keras_bert_impl.serving.graphs.networks import Network, network_of
from keras_bert_impl.serving.litert import convert
from keras_bert_impl.serving.network.export import Format, Report, export_network
from keras_bert_impl.serving.network.proof import answered_by, as_inputs
from keras_bert_impl.serving.tflite_metadata import with_metadata
from keras_bert_impl.tokenizers import WordPieceTokenizer
from keras_bert_impl.utils.errors import InputError

_USE = """\
from mediapipe.tasks.python import BaseOptions, text
options = text.{0}Options(BaseOptions("model.tflite"))
print(text.{0}.create_from_options(options).{1}("a text"))
"""
_FILE = "model.tflite"
_ROLES = {"input_ids": "ids", "attention_mask": "mask", "token_type_ids": "segment_ids"}
_SAME = 0.999  # minimum cosine similarity of vectors from the same tokens
_TINY = 1e-30


def export_mediapipe(
    model: keras.Model, directory: str | Path, precision: str = "fp32", **how
) -> Report:
    """Writes `model.tflite` for MediaPipe.

    The report counts the texts for which MediaPipe's tokenizer changes the prediction.
    """
    _check(model)
    task = ("TextClassifier", "classify") if _list_labels(model) else ("TextEmbedder", "embed")
    mediapipe_format = Format(
        "MediaPipe",
        _write,
        lambda directory, config: Session(directory / _FILE, config, model),
        _USE.format(*task),
        network=_ScoresNetwork,
        ask=lambda directory, *arguments: _count_differences(directory / _FILE, model, *arguments),
        inputs="The input is one text.",
    )
    return export_network(model, directory, mediapipe_format, precision, **how)


def _check(model):
    """Raises `InputError` if MediaPipe does not support the task or the tokenizer of a model."""
    kind, tokenizer = type(model).__name__, getattr(model, "tokenizer", None)
    if kind not in ("TextClassifier", "TextEmbedder") or _is_regression(model):
        raise InputError(
            "MediaPipe supports only a TextClassifier with labels and a TextEmbedder. Export "
            f"this {kind} with --format litert."
        )
    if network_of(model).groups:
        raise InputError(
            "MediaPipe truncates long texts and does not support the windows of this model. "
            "Choose another format."
        )
    lowercase = getattr(tokenizer, "lowercase", False) or getattr(model, "do_lower_case", False)
    if not isinstance(tokenizer, WordPieceTokenizer) or not lowercase or tokenizer.added_tokens:
        raise InputError(
            "MediaPipe supports only the WordPiece tokenizer of uncased models without added "
            f"tokens. This model has {tokenizer!r}. Export it with --format litert."
        )


def _is_regression(model):
    return getattr(model, "problem_type", None) == "regression"


def _list_labels(model):
    return list(model.labels) if hasattr(model, "problem_type") else None


def _is_multi_label(model):
    return getattr(model, "problem_type", None) == "multi_label_classification"


def _write(model, directory, precision, batches):
    shapes = dict.fromkeys(_ROLES, [1, model.max_length])
    content = convert(model, _ScoresNetwork(model), shapes, precision, batches)
    content = with_metadata(content, _ROLES, model.tokenizer.vocabulary, _list_labels(model))
    (directory / _FILE).write_bytes(content)


class _ScoresNetwork(Network):
    """Network with probabilities as outputs, as MediaPipe requires, instead of logits."""

    def write(self, graph: Any) -> None:
        network_of(self.model).write(graph)
        if _list_labels(self.model):
            scores = graph.outputs.pop("logits")
            if _is_multi_label(self.model):
                scores = graph.add("Sigmoid", scores)
            else:
                scores = graph.add("Softmax", scores, axis=-1)
            graph.output("scores", scores, ["batch", len(self.model.labels)])

    def outputs_of_model(self, features: dict) -> dict[str, np.ndarray]:
        outputs = network_of(self.model).outputs_of_model(features)
        return _normalize_outputs(outputs, self.model)


def _normalize_outputs(outputs, model):
    """Converts single-label logits to log-probabilities, like the outputs of `Session`."""
    if "logits" in outputs and not _is_multi_label(model):
        logits = outputs["logits"]
        least = logits - logits.max(axis=-1, keepdims=True)
        outputs = {"logits": least - np.log(np.exp(least).sum(axis=-1, keepdims=True))}
    return outputs


class Session:
    """Runs an exported model on token ids in LiteRT, one row at a time."""

    def __init__(self, path: Path, config: Any, model: Any) -> None:
        self._interpreter = Interpreter(str(path))
        self._run = self._interpreter.get_signature_runner()
        self._config, self._model = config, model

    def __call__(self, features: dict) -> dict[str, np.ndarray]:
        """Returns the outputs by name. Probabilities are converted to logits."""
        inputs = as_inputs(features, self._config, "int32")
        inputs.setdefault("token_type_ids", np.zeros_like(inputs["input_ids"]))
        missing = self._model.max_length - inputs["input_ids"].shape[1]
        inputs = {name: np.pad(array, [[0, 0], [0, missing]]) for name, array in inputs.items()}
        rows = [
            self._run(**{name: array[[row]] for name, array in inputs.items()})
            for row in range(len(inputs["input_ids"]))
        ]
        outputs = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
        if "scores" not in outputs:
            return outputs
        scores = np.maximum(outputs["scores"], _TINY)
        if _is_multi_label(self._model):
            return {"logits": np.log(scores) - np.log(np.maximum(1 - scores, _TINY))}
        return {"logits": np.log(scores)}


# === Predictions by MediaPipe ===


def answers(path: str | Path, model: keras.Model, texts: list[str]) -> np.ndarray:
    """Returns MediaPipe's scores `[texts, classes]` or vectors `[texts, dim]`."""
    base = BaseOptions(model_asset_path=str(path))
    if _list_labels(model):
        places = {label: number for number, label in enumerate(model.labels)}
        scores = np.zeros((len(texts), len(places)), "float32")
        options = text.TextClassifierOptions(base_options=base)
        with text.TextClassifier.create_from_options(options) as classifier:
            for row, sample in enumerate(texts):
                for category in classifier.classify(sample).classifications[0].categories:
                    scores[row, places[category.category_name]] = category.score
        return scores
    options = text.TextEmbedderOptions(base_options=base)
    with text.TextEmbedder.create_from_options(options) as embedder:
        return np.array([embedder.embed(sample).embeddings[0].embedding for sample in texts])


def are_different(model: keras.Model, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Returns bool `[texts]`: whether predictions differ, apart from the rounding of vectors."""
    if _is_multi_label(model):
        return np.any((ours >= 0.5) != (theirs >= 0.5), axis=1)
    if _list_labels(model):
        return ours.argmax(axis=1) != theirs.argmax(axis=1)
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    return (ours * theirs).sum(axis=1) < _SAME * lengths


def _count_differences(path, model, session, texts):
    with answered_by(session, model):
        if _list_labels(model):
            ours = np.asarray(model.predict(texts, verbose=0))
        else:
            ours = model.encode(texts, prompt="")
    count = int(are_different(model, ours, answers(path, model, texts)).sum())
    return f"MediaPipe's tokenizer changes the prediction for {count:,} of {len(texts):,} texts"
