"""Extractive question answering."""

TASK_NAME = "squad"  # value of `--task`
