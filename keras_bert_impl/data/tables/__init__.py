"""Labeled examples, and readers for tables, GLUE and TensorFlow Datasets."""
