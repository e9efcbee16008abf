"""Token classification: entities, parts of speech."""

TASK_NAME = "tagging"  # value of `--task`
