"""Sentence embeddings and semantic search."""

import dataclasses
from typing import Any

from keras_bert_impl.tasks.base.options import TABLE_OPTIONS, VectorSettings
from keras_bert_impl.utils.errors import InputError

TASK_NAME = "similarity"
READER_OPTIONS = TABLE_OPTIONS | {"negative"}
READS = (
    "reads text pairs from a table, or STS-B from --data. Labels are similarity scores; without "
    "--label, the pairs are similar texts"
)


@dataclasses.dataclass(frozen=True)
class SimilaritySettings(VectorSettings):
    """Settings for text similarity.

    Args:
        loss: Loss for similarity. With labels, cosine (default; labels are cosine similarities) or
            cosent (labels rank the pairs). Without labels, multiple_negatives (default) or triplet
            (requires three texts per example).
    """

    loss: str | None = None


SETTINGS = SimilaritySettings


def read(source: Any, split: str) -> Any:
    from keras_bert_impl.tasks.embedding.similarity import AnchorExamples, SimilarityExamples

    if source.data:
        return SimilarityExamples.of(source.published("stsb", split))
    if not source.pair:
        raise InputError("the column of the second text is missing. Pass --pair, or --data.")
    if not source.label:
        return AnchorExamples.of(source.table(split, numeric=False, needed=("text",)))
    if source.negative:
        raise InputError("--negative cannot be combined with --label. Leave out --label.")
    return SimilarityExamples.of(source.table(split, numeric=True))
