"""Labeled examples, and readers of tables, GLUE and TensorFlow Datasets."""
