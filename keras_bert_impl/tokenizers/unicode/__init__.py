"""Code point properties, normalization and positions in the TensorFlow graph."""
