"""Extractive question answering."""

import dataclasses
from typing import Any

from keras_bert_impl.tasks.base.options import WindowSettings
from keras_bert_impl.utils.settings import PositiveInt

TASK_NAME = "squad"
MAX_LENGTH = 384
READER_OPTIONS = {"groups"}
READS = "reads questions with contexts and answers in the SQuAD format"


@dataclasses.dataclass(frozen=True)
class QuestionSettings(WindowSettings):
    """Settings for question answering.

    Args:
        max_question_length: Maximum number of tokens in a question. Longer questions are truncated.
            Default: 64.
    """

    max_question_length: PositiveInt | None = None


SETTINGS = QuestionSettings


def read(source: Any, split: str) -> Any:
    from keras_bert_impl.data.questions import read_squad

    return read_squad(source.file(split), source.skip_bad_rows, source.groups)
