"""Multiple choice: selects the most likely of several endings."""

TASK_NAME = "choice"
READER_OPTIONS: set[str] = set()
READS = "reads prompts with endings from SWAG (.csv), CODAH (.tsv), SIQA or any number of endings (.jsonl)"
