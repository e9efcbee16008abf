"""The likeliest of several endings."""

TASK_NAME = "choice"  # of `--task`
