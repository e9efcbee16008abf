"""Extractive question answering."""

TASK_NAME = "squad"
READER_OPTIONS: set[str] = set()
READS = "reads questions with answers in a context"
