"""Sentence embeddings and semantic search."""

TASK_NAME = "similarity"  # of `--task`
