"""Labelled examples and the readers of tables, GLUE and TensorFlow Datasets."""
