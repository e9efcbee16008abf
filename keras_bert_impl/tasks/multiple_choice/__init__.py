"""Multiple choice: selects the most likely of several endings."""

TASK_NAME = "choice"  # value of `--task`
