"""Settings of several tasks, and allowed values; imports nothing heavy, for the command line.

The folder of a task declares in its `__init__`: `TASK_NAME`, the value of `--task`, None for the task
of tables; `SETTINGS`, the dataclass of the settings that only some tasks have; `READER_OPTIONS`, the
fields of `ExampleSource` that its reader takes; `READS`, what it reads, and if needed `READER_NOTE`,
for `--help`.
"""

import dataclasses
from typing import Annotated

from keras_bert_impl.io.settings import OneOf, PositiveInt
from keras_bert_impl.tuning.settings import TuningSettings

TABLE_OPTIONS = {"text", "pair", "label", "id", "delimiter", "no_header"}

# How texts longer than a row are handled; `OF_WINDOWS` split them into windows.
OF_WINDOWS = ("mean", "max", "attention")
LONG_TEXTS = ("truncate", "head_tail", *OF_WINDOWS)


@dataclasses.dataclass(frozen=True)
class WindowSettings(TuningSettings):
    """Settings of windows.

    Args:
        doc_stride: For windows: tokens from the start of one to the start of the next. Default: 128
            for questions, else half of `max_length`.
    """

    doc_stride: PositiveInt | None = None


@dataclasses.dataclass(frozen=True)
class LongTextSettings(WindowSettings):
    """Settings of long texts, pairs and prompts.

    Args:
        long_texts: Use of texts, pairs and prompts of choices longer than `max_length`. See
            `LongTexts`. Default: `"truncate"`.
        max_windows: Maximum number of windows of a text longer than `max_length`. Default: 8.
    """

    long_texts: Annotated[str, OneOf(*LONG_TEXTS)] | None = None
    max_windows: PositiveInt | None = None


@dataclasses.dataclass(frozen=True)
class VectorSettings(LongTextSettings):
    """Settings of the vector of a text.

    Args:
        pooling: Vector of a text. For similarity: see `TextEmbedder`; mean is the default of models
            without one. For texts with classes or numbers: mean, max or attention over all tokens,
            instead of the vector that the encoder was published with. Default: the model's pooling.
    """

    pooling: str | None = None


def setting_names(settings_class: type) -> tuple[str, ...]:
    """Returns the names of the settings of a task's class that not every run has."""
    general = {field.name for field in dataclasses.fields(TuningSettings)}
    names = (field.name for field in dataclasses.fields(settings_class))
    return tuple(name for name in names if name not in general)
