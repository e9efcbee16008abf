"""Integrated gradients and occlusion."""

import functools
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import keras
import numpy as np
from keras import ops

from keras_bert_impl.models.encoder import encoders_run_by
from keras_bert_impl.models.encoder_layers import EncoderLayers, apply_layers, with_all_names
from keras_bert_impl.reports.attribution.results import Attribution
from keras_bert_impl.reports.attribution.rows import text_row
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.tasks.registry import all_tasks
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import OneOf, PositiveInt, check

METHODS = ("integrated_gradients", "occlusion")
_ROWS = 16  # rows per batch


def attribute(
    model: TaskModel,
    text: str | tuple[str, str] | list[str],
    target: Any = None,
    method: str = "integrated_gradients",
    steps: int = 32,
) -> Attribution:
    """Attributes an output of a model to the words of a text.

    The output is the log-odds of a class, `log(p / (1 - p))`, a regression value, or the sum of an
    answer's start and end logits. The baseline is the text in which all tokens except special
    tokens are replaced by the mask token. The model is not changed.

    - `"integrated_gradients"`: the gradient of the output with respect to the embeddings is
      integrated along the line from the baseline embeddings to the text embeddings. This integral
      is multiplied by the text embeddings minus the baseline embeddings. The score of a token is
      the sum of the product over the dimensions. The scores add up to `output - baseline`, except
      for the numerical error `Attribution.gap`.
    - `"occlusion"`: the score of a word is the output for the text minus the output for the text in
      which the word is masked.

    A text is truncated to `max_length`.

    Args:
        model: `TextClassifier`, `TokenClassifier` or `QuestionAnswerer`.
        text: a text, a (first, second) pair, or for taggers also a list of words.
        target: name or index of the class; for taggers the index of a word, or (index, label).
            Default: the predicted class, the most confident entity word, or the best answer.
        method: `"integrated_gradients"` or `"occlusion"`.
        steps: number of points for Gauss-Legendre quadrature. Default: 32.

    Returns:
        `Attribution`, with a score for each word.

    Raises:
        InputError: the model or target is not supported, or the text has no words.

    Source: Sundararajan et al. 2017 (arXiv:1703.01365), equation 1; Zeiler and Fergus 2014
    (arXiv:1311.2901), section 4.2.

    Example:
        result = attribute(classifier, "a good film", target="good")
        [(word.text, round(word.score, 3)) for word in result.words]
    """
    if not getattr(model, "has_attribution", False):
        model_classes = dict.fromkeys(kind for task in all_tasks() for kind in task.model_classes)
        names = ", ".join(kind.__name__ for kind in model_classes if kind.has_attribution)
        raise InputError(f"attribute supports only {names}, not a {type(model).__name__}.")
    check("method", method, Annotated[str, OneOf(*METHODS)])
    if method == METHODS[0] and model.is_quantized and model.encoder.compute_dtype != "float32":
        raise InputError(
            "a quantized 16-bit model has no gradients. Write method='occlusion', or quantize a "
            "model in float32."
        )
    steps = check("steps", steps, PositiveInt)
    row = text_row(model, text)
    network = _Network(model, row.features)
    outputs = network(row.features)
    name, objective = model.attribution_target(row, outputs, target)
    ids = row.features["token_ids"]
    is_word = (row.word_of >= 0).reshape(ids.shape)
    masked = np.where(is_word, model.tokenizer.mask_id, ids)
    output = float(objective(outputs)[0])
    baseline = float(objective(network({**row.features, "token_ids": masked}))[0])
    if method == "occlusion":
        scores = output - network.occluded(row.word_of, len(row.words), masked, objective)
    else:
        token_scores = network.integrated(masked, objective, steps)
        scores = np.zeros(len(row.words))
        np.add.at(scores, row.word_of[row.word_of >= 0], token_scores[row.word_of >= 0])
    words = [word._replace(score=float(score)) for word, score in zip(row.words, scores)]
    return Attribution(words, name, method, output, baseline, row.is_cut)


class _Network:
    """Computes an output of a model for the features of one text, `[1, ..., length]`."""

    def __init__(self, model, features):
        self.model, self.features = model, features

    def __call__(self, features):
        return self.model(features, training=False)

    def occluded(self, word_of, count, masked, objective):
        """Returns the output for each word, float64 `[words]`, if only this word is masked."""
        ids = self.features["token_ids"]
        outputs = []
        for words in _split_into_batches(np.arange(count)):
            is_hidden = (word_of == words[:, None]).reshape(len(words), *ids.shape[1:])
            features = self._repeat_features(len(words))
            features["token_ids"] = np.where(is_hidden, masked, ids)
            outputs.append(ops.convert_to_numpy(objective(self(features))))
        return np.concatenate(outputs).astype("float64")

    def integrated(self, masked, objective, steps):
        """Returns the integrated gradients of each token, float64 `[length]`."""
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        total: Any = 0.0
        for indices in _split_into_batches(np.arange(steps)):
            alphas = ((nodes[indices] + 1) / 2).astype("float32")[:, None, None]
            path = _Path(self.model.encoder, masked.reshape(1, -1), alphas)
            output = functools.partial(self._compute_output_along, path, objective)
            gradients = _convert_to_float64(gradient(output, path.no_offsets()))
            share = (weights[indices] / 2)[:, None, None]  # [steps, 1, 1]
            total += np.sum(share * gradients * _convert_to_float64(path.difference), axis=(0, 2))
        return total

    def _compute_output_along(self, path, objective, offsets):
        path.offsets = offsets
        with encoders_run_by(path.run):
            return ops.sum(objective(self(self._repeat_features(len(path.alphas)))))

    def _repeat_features(self, count):
        return {name: np.repeat(value, count, axis=0) for name, value in self.features.items()}


class _Path:
    """Points on the line between the baseline embeddings and the text embeddings.

    Args:
        masked: int32 `[1, length]`, token ids of the baseline.
        alphas: float32 `[points, 1, 1]`; 0 for the baseline, 1 for the text.

    Attributes:
        offsets: zeros `[points, length, hidden]`, which `run` adds to the embeddings. The gradient
            with respect to `offsets` equals the gradient with respect to the embeddings.
    """

    offsets: Any
    difference: Any

    def __init__(self, encoder, masked, alphas):
        self.layers = EncoderLayers(*(getattr(encoder, name) for name in EncoderLayers._fields))
        self.masked, self.alphas = masked, alphas

    def run(self, compute, features):
        """Runs the encoder on the embeddings of the points. An argument of `encoders_run_by`."""
        layers = self.layers._replace(embeddings=self._embed)
        return apply_layers(layers, with_all_names(features))[0]

    def _embed(self, token_ids, segment_ids, position_ids):
        first = [None if ids is None else ids[:1] for ids in (segment_ids, position_ids)]
        start = self.layers.embeddings(self.masked, *first, training=False)
        self.difference = self.layers.embeddings(token_ids[:1], *first, training=False) - start
        return start + ops.cast(self.alphas, start.dtype) * self.difference + self.offsets

    def no_offsets(self):
        embeddings = self.layers.embeddings
        shape = len(self.alphas), self.masked.shape[1], embeddings.hidden_dim
        return ops.zeros(shape, embeddings.variable_dtype)


def gradient(function: Callable, inputs: Any) -> Any:
    if keras.backend.backend() == "jax":
        import jax

        return jax.grad(function)(inputs)
    import tensorflow as tf

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(inputs)
        output = function(inputs)
    return tape.gradient(output, inputs)


def _convert_to_float64(tensor):
    return ops.convert_to_numpy(ops.cast(tensor, "float32")).astype("float64")


def _split_into_batches(numbers: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(numbers), _ROWS):
        yield numbers[start : start + _ROWS]
