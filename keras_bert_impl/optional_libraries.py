"""Libraries that are not available on every platform: TensorFlow Text and KerasHub."""

import importlib
from typing import Any

import tensorflow as tf

from keras_bert_impl.io.errors import InputError

try:  # the import registers its operations
    import tensorflow_text
except ModuleNotFoundError as error:
    if error.name != "tensorflow_text":  # a library that it needs, such as Keras 2
        raise
    tensorflow_text = None
except tf.errors.NotFoundError:  # it was built for another TensorFlow
    tensorflow_text = None


def import_keras_hub() -> Any:
    """Imports KerasHub, or raises InputError."""
    try:
        return importlib.import_module("keras_hub")
    except ImportError as error:
        raise InputError(
            f"KerasHub cannot be imported: {error}. Install it with pip install keras-hub; it needs "
            "tensorflow-text."
        ) from error
