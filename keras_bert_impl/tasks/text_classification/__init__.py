"""Single-label and multi-label classification, and regression, of texts or text pairs."""

from keras_bert_impl.tasks.base.options import TABLE_OPTIONS

TASK_NAME = None
READER_OPTIONS = TABLE_OPTIONS | {"labels", "label_separator", "single_label", "regression"}
