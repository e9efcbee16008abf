"""Settings of several tasks and their allowed values. Does not import TensorFlow.

The `__init__` module of a task's folder declares:

- `TASK_NAME`: value of `--task`; None for the default task;
- `SETTINGS`: dataclass of task-specific settings;
- `read`: the reader, and `READER_OPTIONS`, its fields of `ExampleSource`;
- `READS` and, optionally, `READER_NOTE`: descriptions of the input files for `--help`.
"""

import dataclasses
from typing import Annotated

from keras_bert_impl.training.tuning.settings import TuningSettings
from keras_bert_impl.utils.settings import OneOf, PositiveInt

TABLE_OPTIONS = {"text", "pair", "label", "id", "groups", "dates", "delimiter", "no_header"}

MAX_LENGTH = 128  # default sequence length in tokens; a task's folder may declare another
# Values of `LongTexts.way`; `OF_WINDOWS` are the values that split texts into windows.
OF_WINDOWS = ("mean", "max", "attention")
LONG_TEXTS = ("truncate", "head_tail", *OF_WINDOWS)


@dataclasses.dataclass(frozen=True)
class WindowSettings(TuningSettings):
    """Settings of tasks that split texts into windows.

    Args:
        doc_stride: Number of tokens between the starts of consecutive windows. Default: 128 for
            questions, else half of `max_length`.
    """

    doc_stride: PositiveInt | None = None


@dataclasses.dataclass(frozen=True)
class LongTextSettings(WindowSettings):
    """Settings for long texts, text pairs and multiple-choice prompts.

    Args:
        long_texts: How to handle texts, pairs and multiple-choice prompts longer than `max_length`.
            See `LongTexts`. Default: `"truncate"`.
        max_windows: Maximum number of windows of a text longer than `max_length`. Default: 8.
    """

    long_texts: Annotated[str, OneOf(*LONG_TEXTS)] | None = None
    max_windows: PositiveInt | None = None


@dataclasses.dataclass(frozen=True)
class VectorSettings(LongTextSettings):
    """Pooling settings.

    Args:
        pooling: How token vectors are pooled into a text vector. Text classification and regression
            support cls (the first token), mean, max and attention. For similarity, see
            `TextEmbedder`. Default: the model's pooling. If an embedding model does not specify
            the pooling, the default is mean.
    """

    pooling: str | None = None


def setting_names(settings_class: type) -> tuple[str, ...]:
    general = {field.name for field in dataclasses.fields(TuningSettings)}
    names = (field.name for field in dataclasses.fields(settings_class))
    return tuple(name for name in names if name not in general)
