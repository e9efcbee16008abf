"""Token classification: entities, parts of speech."""

from keras_bert_impl.tasks.base.options import TABLE_OPTIONS

TASK_NAME = "tagging"
READER_OPTIONS = TABLE_OPTIONS - {"pair", "id"} | {"labels", "word_prefix", "sentence", "outside"}
READS = (
    "reads labels of words: columns (CoNLL), CoNLL-U, and tables or JSON of datasets, doccano, "
    "Label Studio, Prodigy and others"
)
READER_NOTE = (
    "For tagging, --text and --label name the columns of words and labels, and --sentence the one "
    "that numbers the sentences; default: those with common names. In a file without a header they "
    "are numbers (default: 0, and -1, the last); in a .conllu file, --label is upos (the default), "
    "xpos, feats or deprel."
)
