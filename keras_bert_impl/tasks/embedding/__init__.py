"""Sentence embeddings and semantic search."""

TASK_NAME = "similarity"  # value of `--task`
