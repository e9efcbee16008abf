"""Byte-level BPE tokenization in the TensorFlow graph."""
