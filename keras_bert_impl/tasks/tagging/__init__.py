"""Labels of words: entities, parts of speech."""

TASK_NAME = "tagging"  # of `--task`
