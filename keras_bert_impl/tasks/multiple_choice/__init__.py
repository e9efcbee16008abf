"""Multiple choice: selects the most likely of several endings."""

from keras_bert_impl.tasks.base.options import LongTextSettings

TASK_NAME = "choice"
SETTINGS = LongTextSettings
READER_OPTIONS: set[str] = set()
READS = "reads prompts with endings: SWAG (.csv), CODAH (.tsv), SIQA or other JSON lines (.jsonl)"
