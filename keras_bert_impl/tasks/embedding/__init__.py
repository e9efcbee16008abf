"""Sentence embeddings and semantic search."""

import dataclasses

from keras_bert_impl.tasks.base.options import TABLE_OPTIONS, VectorSettings

TASK_NAME = "similarity"
READER_OPTIONS = TABLE_OPTIONS | {"negative"}
READS = (
    "reads pairs in a table (or STS-B in --data) with scores in --label, or without labels, texts "
    "and similar texts"
)


@dataclasses.dataclass(frozen=True)
class SimilaritySettings(VectorSettings):
    """Settings of similarity.

    Args:
        loss: Loss for similarity. cosine (the default, learns the labels as cosines) or cosent
            (learns their order); for texts without labels, multiple_negatives (the default) or,
            with three texts, triplet.
    """

    loss: str | None = None


SETTINGS = SimilaritySettings
