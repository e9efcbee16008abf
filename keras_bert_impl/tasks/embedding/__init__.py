"""Sentence embeddings and semantic search."""

from keras_bert_impl.tasks.base.options import TABLE_OPTIONS

TASK_NAME = "similarity"
READER_OPTIONS = TABLE_OPTIONS | {"negative"}
READS = (
    "reads pairs in a table (or STS-B in --data) with scores in --label, or without labels, texts "
    "and similar texts"
)
