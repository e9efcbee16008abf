"""What a written network computes, beside the model that it was written from."""

import contextlib

import keras
import numpy as np

from keras_bert_impl.models.inputs import check_values
from keras_bert_impl.serving.network.networks import encoder_of, network_of
from keras_bert_impl.serving.network.parts import input_names

_SAMPLES = [
    "It is a truth universally acknowledged.",
    "Ada wrote the first program in 1843, for a machine that was never built!",
    "Zürich, 東京, naïve café: words that few vocabularies have.",
    "yes",
]


def features_of(model, texts=None):
    """Features of texts as the network of a model takes them; of an encoder alone, random ids.

    Args:
        model: as of `network_of`.
        texts: list of str. Default: four, of several languages.
    """
    texts = texts or _SAMPLES
    if not hasattr(model, "tokenizer"):
        draw, shape = np.random.default_rng(0), (len(texts), min(16, model.config.max_length))
        ids = draw.integers(0, model.config.vocabulary_size, shape).astype("int32")
        return {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids * 0 + 1}
    length = getattr(model, "max_length", encoder_of(model).config.max_length)
    features = {n: np.asarray(f)[:, :length] for n, f in model.tokenizer(texts).items()}
    groups = [np.newaxis] * len(network_of(model).groups)
    return {name: feature[(*groups, ...)] for name, feature in features.items()}


def as_inputs(features, config, dtype="int64"):
    """dict of arrays: features of an encoder as the inputs of its network.

    Raises:
        InputError: an id that has no embedding; see `check_values`.
    """
    check_values(features, config)
    names = input_names(config)
    return {name: np.asarray(features[ours], dtype) for name, ours in names.items()}


@contextlib.contextmanager
def answered_by(session, model):
    """Inside the block a task model's `predict` computes its network by a session.

    Args:
        session: function of features, as `Network.outputs_of_model` takes them, to outputs by name.
        model: `TaskModel`.
    """

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


def relative_difference(received, expected, padding_mask):
    """How far outputs are from others, relative to those: of each the root of the mean square.

    Args:
        received, expected: dicts of name to float32 array.
        padding_mask: int `[batch, length]` or `[batch, group, length]`. What stands where it is 0
            is left out.

    Returns:
        float, that of the output that is farthest; infinite where one has no finite numbers.
    """
    mask, found = np.asarray(padding_mask, bool), []
    for name, array in expected.items():
        other = received[name]
        if array.shape[:2] == mask.shape:  # of tokens
            array, other = array[mask], other[mask]
        real = ~(array <= -1e8)  # choices that are padding have -1e9; NaN is compared
        distance = np.sqrt(np.mean(np.square(other - array)[real]))
        found.append(distance / max(np.sqrt(np.mean(np.square(array[real]))), 1e-6))
    worst = np.max(found)
    return float(worst) if np.isfinite(worst) else float("inf")
