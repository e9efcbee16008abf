"""Token classification, such as named entity recognition and part-of-speech tagging."""

import dataclasses
from typing import Any

from keras_bert_impl.tasks.base.options import TABLE_OPTIONS, WindowSettings
from keras_bert_impl.training.tuning.settings import CRF_RATE, FULL
from keras_bert_impl.utils.errors import InputError

TASK_NAME = "tagging"
READER_OPTIONS = TABLE_OPTIONS - {"pair", "id", "dates"} | {
    *("labels", "word_prefix", "sentence", "outside")
}
READS = (
    "reads words with labels from CoNLL and CoNLL-U files, and from tables or JSON of datasets, "
    "doccano, Label Studio, Prodigy and others"
)
READER_NOTE = (
    "For tagging, --text and --label are the columns of words and labels, and --sentence is the "
    "column of sentence numbers (default: columns with common names). If the file has no header, "
    "pass column numbers (default: 0 for words, -1 for labels, which is the last column). In a "
    ".conllu file, --label is upos (the default), xpos, feats or deprel. In CoNLL files, "
    "--groups document keeps each document in one set."
)


@dataclasses.dataclass(frozen=True)
class TaggingSettings(WindowSettings):
    """Settings for tagging.

    Args:
        label_all_tokens: For tagging: train all subwords of a word with the label of the word.
            False trains only the first subword.
        crf: For tagging: add a conditional random field (CRF) over the words of a text.
        features: For tagging: train a BiLSTM on these hidden states of the frozen encoder. A layer
            number or a name, see `FeatureTagger`. The default `learning_rate` of the BiLSTM is
            1e-3. None fine-tunes the encoder.

    Raises:
        InputError: the settings cannot be combined.
    """

    label_all_tokens: bool = False
    crf: bool = False
    features: int | str | None = None

    def __post_init__(self):
        if self.features is not None:
            if self.tuning != FULL:
                raise InputError(f"features requires tuning={FULL}. Received: tuning={self.tuning}")
            if self.learning_rate is None:
                object.__setattr__(self, "learning_rate", 1e-3)
        super().__post_init__()
        if self.crf_rate != CRF_RATE and not self.crf:
            raise InputError("crf_rate requires crf=true.")


SETTINGS = TaggingSettings


def read(source: Any, split: str) -> Any:
    from keras_bert_impl.data.tags.reading.read_tags import read_tags

    return read_tags(
        source.file(split),
        source.text,
        source.label,
        source.sentence,
        source.labels,
        source.outside,
        source.word_prefix,
        source.delimiter,
        not source.no_header,
        source.skip_bad_rows,
        source.groups,
        source.encoding,
    )
