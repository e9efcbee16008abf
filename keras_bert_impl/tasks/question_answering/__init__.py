"""Answers to questions, found in a context."""

TASK_NAME = "squad"  # of `--task`
