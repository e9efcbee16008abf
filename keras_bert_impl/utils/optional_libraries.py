"""Libraries that are not available on every platform: TensorFlow Text and KerasHub."""

import importlib
from typing import Any

import tensorflow as tf

from keras_bert_impl.utils.errors import InputError

try:  # The import registers operations.
    import tensorflow_text
except ModuleNotFoundError as error:
    if error.name != "tensorflow_text":  # A dependency is missing, such as Keras 2.
        raise
    tensorflow_text = None
except tf.errors.NotFoundError:  # The package was built for another version of TensorFlow.
    tensorflow_text = None


def import_keras_hub() -> Any:
    try:
        return importlib.import_module("keras_hub")
    except ImportError as error:
        raise InputError(
            f"KerasHub cannot be imported: {error}. Run `pip install keras-hub`; KerasHub needs "
            "tensorflow-text."
        ) from error
