"""Comparison of an exported network with its model."""

import contextlib
from collections.abc import Callable, Iterator

import keras
import numpy as np

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.models.inputs import check_values
from keras_bert_impl.serving.network.networks import encoder_of, network_of
from keras_bert_impl.serving.network.parts import input_names

_SAMPLES = [
    "It is a truth universally acknowledged.",
    "Ada wrote the first program in 1843, for a machine that was never built!",
    "Zürich, 東京, naïve café: words that few vocabularies have.",
    "yes",
]


def features_of(model: keras.Model, texts: list[str] | None = None) -> dict[str, np.ndarray]:
    """Returns features of texts for the network of a model; for a plain encoder, random ids."""
    texts = texts or _SAMPLES
    if not hasattr(model, "tokenizer"):
        draw, shape = np.random.default_rng(0), (len(texts), min(16, model.config.max_length))
        ids = draw.integers(0, model.config.vocabulary_size, shape).astype("int32")
        return {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids * 0 + 1}
    length = getattr(model, "max_length", encoder_of(model).config.max_length)
    features = {n: np.asarray(f)[:, :length] for n, f in model.tokenizer(texts).items()}
    groups = [np.newaxis] * len(network_of(model).groups)
    return {name: feature[(*groups, ...)] for name, feature in features.items()}


def as_inputs(features: dict, config: EncoderConfig, dtype: str = "int64") -> dict[str, np.ndarray]:
    """Converts encoder features to network inputs."""
    check_values(features, config)
    names = input_names(config)
    return {name: np.asarray(features[ours], dtype) for name, ours in names.items()}


@contextlib.contextmanager
def answered_by(session: Callable, model: keras.Model) -> Iterator[None]:
    """Makes a task model's `predict` run its network in a session, inside the context."""
    network = network_of(model)

    def predict_batches(data, **kwargs):
        features = (keras.utils.unpack_x_y_sample_weight(batch)[0] for batch in data)
        outputs = (network.as_model_outputs(session, feature) for feature in features)
        return np.concatenate([model.scores(output) for output in outputs])

    model.predict_batches = predict_batches
    try:
        yield
    finally:
        del model.predict_batches


def relative_difference(
    received: dict[str, np.ndarray], expected: dict[str, np.ndarray], padding_mask: np.ndarray
) -> float:
    """Returns the largest RMS difference of an output, relative to the RMS of its expected values.

    Args:
        padding_mask: int `[batch, length]` or `[batch, group, length]`. Positions with 0 are
            ignored.
    """
    mask, found = np.asarray(padding_mask, bool), []
    for name, array in expected.items():
        other = received[name]
        if array.shape[:2] == mask.shape:  # per-token output
            array, other = array[mask], other[mask]
        real = ~(array <= -1e8)  # excludes padding choices, which have -1e9; NaN is compared
        distance = np.sqrt(np.mean(np.square(other - array)[real]))
        found.append(distance / max(np.sqrt(np.mean(np.square(array[real]))), 1e-6))
    worst = np.max(found)
    return float(worst) if np.isfinite(worst) else float("inf")
