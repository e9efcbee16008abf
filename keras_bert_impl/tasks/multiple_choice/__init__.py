"""Multiple choice: selects the most likely of several endings."""

from typing import Any

from keras_bert_impl.tasks.base.options import LongTextSettings

TASK_NAME = "choice"
SETTINGS = LongTextSettings
READER_OPTIONS: set[str] = set()
READS = "reads prompts with endings: SWAG (.csv), CODAH (.tsv), SIQA or other JSON lines (.jsonl)"


def read(source: Any, split: str) -> Any:
    from keras_bert_impl.data.choices import read_choices

    return read_choices(source.file(split), skip_bad_rows=source.skip_bad_rows)
