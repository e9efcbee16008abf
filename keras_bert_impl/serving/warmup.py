"""Warmup requests for TensorFlow Serving, which it runs before the first client request.

They are read from `assets.extra/tf_serving_warmup_requests` of a SavedModel, a TFRecord file of
`PredictionLog` messages. They are serialized here from their published fields, so that every
export has them: `tensorflow-serving-api`, which defines these messages, requires a package named
`tensorflow` and is meant for clients.
"""

import itertools
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_bert_impl.serving.buckets import Bucket
from keras_bert_impl.serving.signatures import HUB_NAMES, Function, Functions, Signatures

BATCH_SIZES = (1, 8, 32)

TEXTS = (
    "The house stands on a hill above the river.",
    "Ada Lovelace met Charles Babbage in London in June 1833, and wrote the first program.",
    "Why?",
    "It was built by hand, stone by stone, over more than forty years, and yet nobody lives in it.",
)


def write_warmup(path: str | Path, signatures: Signatures, functions: Functions, name: str) -> None:
    """Writes requests with a few texts for each signature and each of `BATCH_SIZES`."""
    with tf.io.TFRecordWriter(str(path)) as file:
        for (signature, function), size in itertools.product(functions.items(), BATCH_SIZES):
            inputs = example_inputs(signatures, function, size)
            file.write(prediction_log(name, signature, inputs))
        for bucket in signatures.buckets:
            inputs = bucket_inputs(signatures, functions["ids"], bucket)
            file.write(prediction_log(name, "ids", inputs))


def bucket_inputs(
    signatures: Signatures, function: Function, bucket: Bucket
) -> dict[str, np.ndarray]:
    """Returns inputs of the signature `ids`, given its function, that fill a bucket."""
    rows, length = bucket
    shape = (*[1] * (signatures.features_rank - 2), rows, length)
    inputs = {spec.name: np.zeros(shape, "int32") for spec in _specs(function)}
    inputs["padding_mask"] += 1
    return inputs


def example_strings(signatures: Signatures, size: int = len(TEXTS)) -> dict[str, list]:
    """Returns a batch of inputs of `serving_default`, made from a few built-in texts."""
    return _strings(signatures, signatures.strings, size)


def _strings(signatures, ranks, size):
    texts = [signatures.as_example(text) for text in TEXTS]

    def text(number):
        return texts[number % len(texts)]

    return {
        name: [text(i + k) if rank == 1 else [text(i + k), text(i + k + 1)] for i in range(size)]
        for k, (name, rank) in enumerate(ranks.items())
    }


def example_inputs(signatures: Signatures, function: Function, size: int) -> dict[str, np.ndarray]:
    """Returns a batch of inputs of one of the functions, made from a few built-in texts."""
    specs = _specs(function)
    if specs[0].dtype == tf.string:
        strings = _strings(signatures, {spec.name: spec.shape.rank for spec in specs}, size)
        return {name: np.array(texts, object) for name, texts in strings.items()}
    (texts,) = _strings(signatures, {"text": 1}, size).values()
    features = {name: feature.numpy() for name, feature in signatures.cut(texts).items()}
    features["word_mask"] = features["padding_mask"]
    features |= {new: features[name] for name, new in HUB_NAMES.items()}

    def as_groups(rows, rank):
        """Reshapes to `[batch, 1, ..., length]`, with the given rank."""
        return rows.reshape(len(rows), *[1] * (rank - 2), -1)

    return {spec.name: as_groups(features[spec.name], spec.shape.rank) for spec in specs}


def _specs(function):
    return tf.nest.flatten(function.structured_input_signature)


def prediction_log(name: str, signature: str, inputs: dict[str, np.ndarray]) -> bytes:
    """Returns the serialized `PredictionLog` of a request to the model with this name.

    Source: `prediction_log.proto`, `predict.proto` and `model.proto` of TensorFlow Serving.
    """
    model_spec = _field(1, name.encode()) + _field(3, signature.encode())
    request = _field(1, model_spec)
    for key, values in inputs.items():
        tensor = tf.make_tensor_proto(values).SerializeToString()
        request += _field(2, _field(1, key.encode()) + _field(2, tensor))
    return _field(6, _field(1, request))  # PredictionLog.predict_log.request


def _field(number, content):
    """Returns a length-delimited protocol buffer field."""
    length, size = b"", len(content)
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content
