"""Sentence embeddings and semantic search."""

import dataclasses

from keras_bert_impl.tasks.base.options import TABLE_OPTIONS, VectorSettings

TASK_NAME = "similarity"
READER_OPTIONS = TABLE_OPTIONS | {"negative"}
READS = (
    "reads pairs of texts from a table (or STS-B from --data), with scores in --label; without "
    "labels, it reads texts with similar texts"
)


@dataclasses.dataclass(frozen=True)
class SimilaritySettings(VectorSettings):
    """Settings of similarity.

    Args:
        loss: Loss for similarity. With labels: cosine (the default; labels are cosine similarities)
            or cosent (labels rank the pairs). Without labels: multiple_negatives (the default) or,
            for three texts, triplet.
    """

    loss: str | None = None


SETTINGS = SimilaritySettings
