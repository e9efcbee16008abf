"""Extractive question answering."""

import dataclasses

from keras_bert_impl.io.settings import PositiveInt
from keras_bert_impl.tasks.base.options import WindowSettings

TASK_NAME = "squad"
READER_OPTIONS: set[str] = set()
READS = "reads questions whose answers are in a context"


@dataclasses.dataclass(frozen=True)
class QuestionSettings(WindowSettings):
    """Settings of question answering.

    Args:
        max_question_length: Maximum tokens of a question. Longer ones are truncated. Default: 64.
    """

    max_question_length: PositiveInt | None = None


SETTINGS = QuestionSettings
