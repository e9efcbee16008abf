"""TensorFlow Text where it can be imported, else None. The import registers its operations."""

import tensorflow as tf

try:
    import tensorflow_text
except (ImportError, tf.errors.NotFoundError):  # the second: it was built for another TensorFlow
    tensorflow_text = None
