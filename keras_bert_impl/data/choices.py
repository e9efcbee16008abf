"""Multiple-choice examples: reading files, scores and prediction files."""

import dataclasses
import functools
import itertools
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.data.prediction_files import cells, write_predictions_table
from keras_bert_impl.data.scores.decisions import likeliest
from keras_bert_impl.data.scores.metrics import accuracy
from keras_bert_impl.data.tables.examples import LabeledExamples, most_common
from keras_bert_impl.data.tables.layout import Layout, check_accepted, usable, warn_of_skipped
from keras_bert_impl.data.tables.table_rows import Table, table_in_memory
from keras_bert_impl.data.tables.tables import (
    JSON,
    WITHOUT_DELIMITER,
    open_table,
    table_columns,
    typed_rows,
)
from keras_bert_impl.data.tables.user_input import is_missing
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.files import replace_file
from keras_bert_impl.utils.io.lines import decoded, raw_lines, suffix_of, text_of
from keras_bert_impl.utils.io.paths import local_path


@dataclasses.dataclass(frozen=True)
class ChoiceExamples(LabeledExamples):
    """Prompts with endings, and the index of each correct ending.

    Args:
        texts: list of (prompt, list of endings).
        labels: list of int, 0-based index of each correct ending; None if unlabeled.
        source: file name.
        lines: list of int, last line or row of each example; None if not from a file.
        skipped: tuple of str: location of each skipped row, with the reason.
        read_with: see `LabeledExamples`.
        unit: what `lines` counts: `"line"` or `"row"`.
        files: file of each example, if there are several files.
    """

    texts: list
    labels: list | None = None
    source: str = "examples"
    lines: list | None = None
    skipped: tuple = ()
    read_with: dict[str, Any] | None = None
    unit: str = "line"
    files: list[str] | None = None

    def label_counts(self) -> tuple[str | None, dict[str, float]]:
        return "endings", most_common(f"{len(endings)} each" for _, endings in self.texts)


def score_choices(
    examples: ChoiceExamples, probabilities: Sequence[np.ndarray]
) -> dict[str, float]:
    """Computes the accuracy of multiple-choice predictions.

    Args:
        examples: `ChoiceExamples` with labels.
        probabilities: list of arrays `[endings]`, from `MultipleChoice.predict`.

    Returns:
        dict of float: `accuracy`; NaN if a probability is NaN.

    Raises:
        InputError: the examples have no labels, or the numbers of examples and predictions differ.

    Example:
        from keras_bert_impl.tasks import score_choices
        score_choices(examples, model.predict(examples.texts))["accuracy"]
    """
    if examples.labels is None:
        raise InputError(f"{examples.source} has no labels, which are required for scores.")
    if len(probabilities) != len(examples):
        raise InputError(f"{len(examples)} examples, but predictions for {len(probabilities)}.")
    return {"accuracy": accuracy(examples.labels, likeliest(probabilities))}


def write_choice_predictions(
    path: str | Path, probabilities: Sequence[np.ndarray], examples: ChoiceExamples | None = None
) -> None:
    """Writes the most likely ending and all probabilities, one line per example.

    Args:
        path: the `.tsv` file.
        probabilities: list of float32 arrays `[endings]`, from `MultipleChoice.predict`. If the
            number of endings differs, short rows are filled with empty cells.
        examples: if given, the correct ending, line and prompt of each example are added.
    """
    most = max(map(len, probabilities), default=0)

    def format_row(row):
        choice = "" if np.isnan(row).any() else row.argmax()
        return [choice, *cells(row), *[""] * (most - len(row))]

    columns = ["choice", *(f"ending{number}" for number in range(most))]
    write_predictions_table(path, columns, map(format_row, probabilities), examples)


_LONGEST_TEXT = 100_000  # maximum characters of a text
_ENDING = re.compile(r"ending\d+")
_SIQA = ("answerA", "answerB", "answerC")


def read_choices(
    path: Any, labels: str | Path | None = None, skip_bad_rows: bool = False
) -> ChoiceExamples:
    """Reads prompts with endings.

    The suffix determines the format. A `.csv` file must have the SWAG format, and a `.tsv` file the
    CODAH format. A `.jsonl` or `.json` file contains an object per line or an array of objects. The
    objects are in the SIQA format, or have the keys `prompt`, `endings` (a list of two or more) and
    `answer` (the 0-based index of the correct ending). Parquet and Arrow files, and tables in memory
    (see `read_table`), have rows in one of these formats, also in the SWAG format. See `lines.raw_lines` for encodings, line
    ends and compression. Blank lines are skipped.

    - SWAG: the prompt is `sent1`, and `sent2` is prepended to each of `ending0`, `ending1`, ... If
      the file does not have the columns `sent1` and `sent2`, the prompt is `startphrase`.
    - SIQA: the prompt is context and question. The answer is in `label` (1 to 3), in `correct` or
      `label_letter` (A to C), or in a separate file, such as `dev-labels.lst` next to `dev.jsonl`.

    Args:
        labels: str or `Path` of the SIQA label file, if it has a different name.
        skip_bad_rows: whether to skip invalid rows. A warning reports the number of skipped rows,
            and the attribute `skipped` lists them.

    Returns:
        `ChoiceExamples`, unlabeled if the file has no answers.

    Raises:
        InputError: the file has no rows or a different format, or a row is invalid: the number of
            columns differs, a text is empty or longer than 100,000 characters, an answer is out of
            range or missing in some rows only, the encoding is wrong, or there is a NUL byte.

    Source: Zellers et al. 2018 (SWAG), Chen et al. 2019 (CODAH), Sap et al. 2019 (SIQA), and the
        published files (two versions of SIQA).

    Example:
        examples = read_choices("codah/full_data.tsv")
        examples.texts[0], examples.labels[0]  # ("I am very hungry. I", ["sleep.", ...]), 3
    """
    is_file = isinstance(path, (str, os.PathLike))
    source, table = str(path) if is_file else "table", _open(path, is_file)
    if labels is not None and not (is_file and suffix_of(path) in JSON):
        raise InputError(f"{source} contains its answers. Leave out labels={str(labels)!r}.")
    if is_file and labels is None and suffix_of(path) in JSON:
        beside = local_path(path).with_name(f"{local_path(path).stem}-labels.lst")
        labels = beside if beside.exists() else None
    skipped: list[str] = []
    rows = _add_answers(source, table.rows, labels)
    read = functools.partial(_read_example, source, table.unit, labels)
    examples = usable(read, rows, skipped, skip_bad_rows)
    if any(label is not None for *_, label in examples):
        check = functools.partial(_check_labeled, source, table.unit)
        examples = usable(check, examples, skipped, skip_bad_rows)
    warn_of_skipped(source, skipped)
    if not examples:
        raise InputError(f"{source} has no usable rows.")
    lines, prompts, endings, answers = map(list, zip(*examples))
    is_read_again = is_file and not labels
    return ChoiceExamples(
        list(zip(prompts, endings)),
        None if answers[0] is None else answers,
        source=source,
        lines=lines,
        skipped=tuple(skipped),
        read_with={"dev": source, "skip_bad_rows": skip_bad_rows} if is_read_again else None,
        unit=table.unit,
    )


def write_choices(path: Path, examples: ChoiceExamples) -> None:
    with replace_file(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        for (prompt, endings), answer in zip(examples.texts, examples.labels):
            row = {"prompt": prompt, "endings": endings, "answer": answer}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _check_labeled(path, unit, row):
    if row[-1] is None:
        raise InputError(
            f"{path}, {unit} {row[0]}: the answer is missing, but other rows have one."
        )
    return row


def _read_lines(path):
    return ((number, line) for number, line in raw_lines(path) if line.strip())


def _check_choice(where, prompt, endings, label):
    _check_text(where, "prompt", prompt)
    for number, ending in enumerate(endings):
        _check_text(where, f"ending {number}", ending)
    if label is not None and not 0 <= label < len(endings):
        raise InputError(
            f"{where}: the answer must be from 0 to {len(endings) - 1}. Received: {label}"
        )
    return prompt, endings, label


def _check_text(where, name, text):
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{where}: the {name} must be a non-empty string. Received: {text!r:.40}")
    if len(text) > _LONGEST_TEXT:
        raise InputError(
            f"{where}: the {name} has {len(text):,} characters; the file may be damaged."
        )


def _parse_answer(where, value, first=0):
    """Returns the 0-based index of the correct ending. In the file, indices start at `first`."""
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,9}", str(value).strip(), re.ASCII):
        raise InputError(
            f"{where}: the answer must be the number of an ending. Received: {value!r:.40}"
        )
    return int(value) - first


# === Rows ===


def _open(path, is_file):
    if not is_file:
        return table_in_memory(path)
    suffix = suffix_of(path)
    if suffix == ".tsv":
        return Table(
            ((line, functools.partial(_parse_codah_row, raw)) for line, raw in _read_lines(path)),
            "line",
        )
    if suffix == ".csv":
        names = table_columns(path)
        endings = _find_ending_names(names)
        if len(endings) < 2 or not ({"sent1", "sent2"} <= set(names) or "startphrase" in names):
            raise InputError(
                f"{path}: SWAG requires the columns sent1 and sent2, or startphrase, and ending0, "
                f"ending1, ... Received: {listed(names)}"
            )
        return open_table(path, Layout(*endings[:2]))
    if suffix not in WITHOUT_DELIMITER:
        raise InputError(
            f"{path}: the name must end in .csv, .tsv, .jsonl, .ndjson, .json, .parquet or .arrow."
        )
    return typed_rows(path)


def _parse_codah_row(raw):
    cells = text_of(raw).split("\t")
    if len(cells) != 7:
        raise InputError(
            f"{len(cells)} columns, expected 7: category, prompt, four endings, answer."
        )
    return {"prompt": cells[1], "endings": cells[2:6], "answer": cells[6]}


def _add_answers(source, rows, labels):
    """Yields (row, line of the file of answers or None)."""
    if labels is None:
        return zip(rows, itertools.repeat(None))
    rows, numbers = list(rows), list(_read_lines(labels))
    if len(rows) != len(numbers):
        raise InputError(f"{source} has {len(rows)} rows, but {labels} has {len(numbers)} labels.")
    return zip(rows, numbers)


def _read_example(source, unit, labels, numbered_and_label):
    """Returns (line, prompt, endings, answer or None) for a row in any of the formats."""
    (line, read), label = numbered_and_label
    where = f"{source}, {unit} {line}"
    try:
        row = read()
        check_accepted(row)
    except InputError as error:
        raise type(error)(f"{where}: {error}") from error
    if not isinstance(row, dict):
        raise InputError(f"{where}: expected an object. Received: {row!r:.40}")
    row = {name: _convert_cell(value) for name, value in row.items()}
    if {"context", "question", *_SIQA} <= set(row):
        label = _read_siqa_label(where, row) if label is None else _label_of_line(labels, *label)
        prompt = f"{row['context']} {row['question']}"
        for name in ("context", "question"):
            _check_text(where, name, row[name])
        return line, *_check_choice(where, prompt, [row[name] for name in _SIQA], label)
    if label is not None:
        raise InputError(
            f"{where}: only SIQA supports a separate file of answers. Received: {labels}"
        )
    if len(_find_ending_names(row)) > 1:
        return line, *_read_swag_example(where, row)
    if not isinstance(row.get("endings"), list):
        raise InputError(
            f"{where}: expected an object with prompt, endings (a list) and answer, or a SIQA "
            "object with context, question, answerA, answerB and answerC."
        )
    if len(row["endings"]) < 2:
        raise InputError(f"{where}: there must be at least two endings.")
    answer = row.get("answer")
    if answer is None and row.get("label") is not None:
        raise InputError(
            f"{where}: store the 0-based index of the correct ending as 'answer', not 'label'."
        )
    label = None if answer is None else _parse_answer(where, answer)
    return line, *_check_choice(where, row.get("prompt"), row["endings"], label)


def _find_ending_names(names):
    return sorted(filter(_ENDING.fullmatch, map(str, names)), key=lambda name: int(name[6:]))


def _convert_cell(value):
    """Converts missing values and whole floats, which pandas and Parquet have."""
    is_whole = isinstance(value, float) and value.is_integer()
    return int(value) if is_whole else None if is_missing(value) else value


def _read_swag_example(where, row):
    endings = [row[name] for name in _find_ending_names(row)]
    label = None if row.get("label") is None else _parse_answer(where, row["label"])
    if row.get("sent1") is None:
        return _check_choice(where, row.get("startphrase"), endings, label)
    prompt, endings, label = _check_choice(where, row["sent1"], endings, label)
    return prompt, [f"{row.get('sent2') or ''} {ending}".strip() for ending in endings], label


# === SIQA ===


def _read_siqa_label(where, row):
    for name in ("correct", "label_letter"):
        if row.get(name) is not None:
            if row[name] not in ("A", "B", "C"):
                raise InputError(f"{where}: {name} must be A, B or C, not {row[name]!r:.40}.")
            return "ABC".index(row[name])
    return None if row.get("label") is None else _parse_answer(where, row["label"], first=1)


def _label_of_line(path, line, content):
    return _parse_answer(f"{path}, line {line}", decoded(content, path, line), first=1)
