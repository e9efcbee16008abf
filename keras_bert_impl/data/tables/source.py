"""`ExampleSource`: command-line options for files of labeled examples."""

import dataclasses
from pathlib import Path
from typing import Any

from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.lines import encoded_as, is_utf8, suffix_of

MULTILINGUAL = ("xnli", "paws_x")
# Columns that indicate a file for another task.
_TASKS = {"tokens": "tagging", "entities": "tagging", "data": "squad", "answers": "squad"}
_TASKS |= {"endings": "choice"}


@dataclasses.dataclass(frozen=True)
class ExampleSource:
    """Files of labeled examples, and options for reading the files.

    Args:
        train, dev: path of a file, or a list of paths; with `tfds`, name of a split.
        data: folder of GLUE, XNLI or PAWS-X.
        tfds: name or directory of a TensorFlow Datasets dataset.
        text, pair, negative, label, id, groups, dates: columns of a table. For tagging files
            without a header, `text` and `label` are column numbers. If `label` is `A,B`, the
            columns `A` and `B` contain 0 or 1 for each label.
        sentence: for tagging, column with a different value for each sentence.
        outside: for tagging, label of words outside of entities.
        language: language of XNLI or PAWS-X.
        word_prefix: prefix to remove from all words.
        labels: allowed labels.
        label_separator: separator of label names.
        single_label: whether each list of labels contains exactly one label, used as the class.
        delimiter: character between the cells of a table.
        encoding: encoding of text files; None for UTF-8.
        no_header: whether tables have no header. Columns are then named by their 0-based index.
        skip_bad_rows: whether to skip invalid rows, with a warning.
        regression: whether labels are numbers.
        splits: splits that the command reads, for messages.
    """

    train: str | list[str] | None = None
    dev: str | list[str] | None = None
    data: str | None = None
    tfds: str | None = None
    text: str | None = None
    pair: str | None = None
    negative: str | None = None
    label: str | None = None
    id: str | None = None
    groups: str | None = None
    dates: str | None = None
    sentence: str | None = None
    outside: str | None = None
    language: str = "en"
    word_prefix: str = ""
    labels: list[str] | None = None
    label_separator: str | None = None
    single_label: bool = False
    delimiter: str | None = None
    encoding: str | None = None
    no_header: bool = False
    skip_bad_rows: bool = False
    regression: bool = False
    splits: tuple[str, ...] = ("train", "dev")

    def file(self, split: str, *columns: str) -> str:
        """Returns the file of a split; raises if a required option is missing."""
        names = [*self.splits, *columns]
        for name in names:
            if not getattr(self, name):
                needed = ", ".join(f"--{name}" for name in names)
                is_dev = name == "dev" and "train" in names
                hint = " (or --dev-split 0.1 instead of --dev)" if is_dev else ""
                raise InputError(
                    f"--{name} is missing. Pass --{name} COLUMN.{self._describe_columns()}"
                    if name in columns
                    else f"--{name} is missing. Pass {needed}{hint}, or a GLUE task with --data."
                )
        if split == "test":
            raise InputError(
                "--test requires a folder in --data. To score a file, pass it as --dev."
            )
        return getattr(self, split)

    def each(self, split: str) -> "list[ExampleSource]":
        """Returns an `ExampleSource` for each file of a split."""
        files = getattr(self, split, None)
        if not isinstance(files, list):
            return [self]
        form: dict[str, Any] = {"encoding": self.encoding, "delimiter": self.delimiter}
        return [
            dataclasses.replace(
                self,
                **{split: file},
                **(form if self.tfds else dict.fromkeys(form) | applicable(form, file)),
            )
            for file in files
        ]

    def _describe_columns(self):
        from keras_bert_impl.data.tables.tables import table_columns

        if self.tfds:
            return ""
        first = self.each(self.splits[0])[0]
        path = getattr(first, self.splits[0])
        columns = table_columns(path, first.delimiter, not self.no_header)
        task = next((_TASKS[name] for name in columns if name in _TASKS), None)
        hint = f" They look like columns for --task {task}." if task else ""
        return f" The columns of {path} are {listed(columns)}.{hint}"

    def check_table(self, *needed: str) -> None:
        for split in self.splits:
            for source in self.each(split):
                source._check_columns(source.file(split, *needed))

    def _check_columns(self, path):
        from keras_bert_impl.data.tables.layout import Layout
        from keras_bert_impl.data.tables.tables import check_columns, label_columns

        if self.tfds:
            return
        with encoded_as(self.encoding):
            layout = Layout(
                self.text,
                self.pair,
                label_columns(path, self.label, self.delimiter, not self.no_header),
                id=self.id,
                groups=self.groups,
                dates=self.dates,
                negative=self.negative,
                header=not self.no_header,
            )
            check_columns(path, layout, self.delimiter)

    def table(self, split: str, numeric: bool, needed: tuple = ("text", "label")) -> Any:
        """Reads `Examples` from a table or from TensorFlow Datasets."""
        path = self.file(split, *needed)
        if self.tfds:
            if self.negative:
                raise InputError("--negative is not supported with --tfds, only with files.")
            from keras_bert_impl.data.tables.published import read_tfds

            columns = self.text, self.pair, self.label
            return read_tfds(self.tfds, path, *columns, skip_bad_rows=self.skip_bad_rows)
        from keras_bert_impl.data.tables.tables import read_table

        return read_table(
            path,
            self.text,
            self.pair,
            self.label,
            labels=self.labels,
            numeric=numeric,
            id=self.id,
            label_separator=self.label_separator,
            skip_bad_rows=self.skip_bad_rows,
            negative=self.negative,
            delimiter=self.delimiter,
            header=not self.no_header,
            single_label=self.single_label,
            encoding=self.encoding,
            groups=self.groups,
            dates=self.dates,
        )

    def published(self, name: str, split: str) -> Any:
        """Reads `Examples` of a GLUE task, XNLI or PAWS-X from the folder `data`."""
        from keras_bert_impl.data.tables.published import read_glue, read_paws_x, read_xnli

        if not self.data or self.dev:
            raise InputError(
                "--task requires the folder of the task in --data. Leave out --train and --dev."
            )
        if split == "train" and self.train:
            return self._read_augmented(like=self.published(name, "dev"))
        skip = self.skip_bad_rows
        if name in MULTILINGUAL:
            read = read_xnli if name == "xnli" else read_paws_x
            return read(self.data, split, self.language, skip)
        return read_glue(name, self.data, split, skip)

    def _read_augmented(self, like):
        """Reads a file written by `keras-bert augment`, with the label names of `like`."""
        from keras_bert_impl.data.tables.tables import read_table

        examples = read_table(
            self.train,
            "text",
            "pair" if isinstance(like.texts[0], tuple) else None,
            "label",
            labels=like.label_names,
            numeric=like.is_numeric,
            skip_bad_rows=self.skip_bad_rows,
        )
        return dataclasses.replace(examples, label_names=like.label_names, metrics=like.metrics)


def applicable(form: dict[str, Any], file: str | Path) -> dict[str, Any]:
    """Removes the encoding and delimiter if they do not apply to `file`."""
    from keras_bert_impl.data.tables.tables import WITHOUT_DELIMITER

    options = dict(form)
    if options.get("encoding") and is_utf8(file):
        del options["encoding"]
    if options.get("delimiter") and suffix_of(file) in WITHOUT_DELIMITER:
        del options["delimiter"]
    return options


def given_options(options: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in options.items()
        if value not in (None, False, "") and value != getattr(ExampleSource, name, None)
    }
