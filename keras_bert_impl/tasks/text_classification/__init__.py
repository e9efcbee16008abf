"""Single-label and multi-label classification, and regression, of texts or text pairs."""

import dataclasses
from typing import Any

from keras_bert_impl.tasks.base.options import TABLE_OPTIONS, VectorSettings

TASK_NAME = None
READER_OPTIONS = TABLE_OPTIONS | {"labels", "label_separator", "single_label", "regression"}


@dataclasses.dataclass(frozen=True)
class ClassificationSettings(VectorSettings):
    """Settings for text classification.

    Args:
        class_weight: Loss weight of each class: `"balanced"`, or a dict of label name -> weight.
            Requires one label per text; see `TextClassifier.fit`.
    """

    class_weight: dict | str | None = None


SETTINGS = ClassificationSettings


def read(source: Any, split: str) -> Any:
    return source.table(split, numeric=source.regression)
