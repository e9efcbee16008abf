"""Reader of questions, contexts and answers in the SQuAD 1.1 and 2.0 formats."""

import ast
import dataclasses
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, Self

from keras_bert_impl.data.tables import table_rows
from keras_bert_impl.data.tables.examples import LabeledExamples, join_names
from keras_bert_impl.data.tables.layout import Layout, check_accepted, usable, warn_of_skipped
from keras_bert_impl.data.tables.tables import open_table, typed_rows
from keras_bert_impl.data.tables.user_input import is_missing
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import write_json
from keras_bert_impl.utils.io.lines import read_document, suffix_of
from keras_bert_impl.utils.io.reading import parse_json, parse_json_line

_LONGEST_TEXT = 4 << 20  # maximum characters
_PLACE = re.compile(r"(line|row) \d+|data\[\d+\]")  # ids of flat rows without an id
_NO_ANSWERS: dict[str, list] = {"text": [], "answer_start": []}  # keys of a flat row
# Columns of tables with one answer per row.
_ANSWER = ("answer_text", "answer", "text")
_START = ("answer_start", "start", "answer_start_idx", "start_position")
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_LONGEST_CELL = 100_000  # maximum characters of answers in a cell


@dataclasses.dataclass(frozen=True)
class QuestionExamples(LabeledExamples):
    """Questions with contexts and answers.

    Attributes:
        ids: unique ids.
        questions, contexts: lists of str.
        answers: list of (text, start) tuples for each question: the annotated answers and the
            character offset of each answer in the context. Empty for impossible questions.
        is_impossible: list of bool; None for SQuAD 1.1, where all questions have answers.
        titles: list of str, article of each context.
        source: file name.
        skipped: tuple of str: location and reason for each skipped question.
        read_with: see `LabeledExamples`.
        files: file of each question, if there are several files.
        groups: group of each question, such as the title of its article; see `groups` in
            `read_squad`.
    """

    ids: list
    questions: list
    contexts: list
    answers: list
    is_impossible: list | None
    titles: list
    source: str = "examples"
    skipped: tuple = ()
    read_with: dict[str, Any] | None = None
    files: list[str] | None = None
    groups: list[str] | None = None

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """List of (question, context), the inputs of `QuestionAnswerer`."""
        return list(zip(self.questions, self.contexts))

    @property
    def texts(self) -> list:  # type: ignore[override]
        return self.pairs

    @property
    def labels(self) -> list:  # type: ignore[override]
        return self.answers

    @property
    def undivided(self) -> list:
        return self.contexts

    def of_file(self, number: int) -> Self:
        ids = [f"file {number}, {name}" if _PLACE.fullmatch(name) else name for name in self.ids]
        return self.replace(ids=ids)

    def label_text(self, label: list) -> str:
        return join_names(dict.fromkeys(text for text, _ in label))

    def facts(self) -> dict[str, Any]:
        return {"contexts": len(set(self.contexts))}

    def label_counts(self) -> tuple[str | None, dict[str, float]]:
        count = sum(self.is_impossible or ())
        counts = {"with an answer": len(self) - count, "without": count}
        return "questions", counts if count else {"with an answer": len(self)}

    @property
    def fingerprint(self) -> str:
        """Hexadecimal SHA-256 hash of ids, questions, contexts and answers."""
        digest = hashlib.sha256()
        for row in zip(self.ids, self.questions, self.contexts, self.answers):
            digest.update(json.dumps(row).encode("ascii"))
        return digest.hexdigest()


def read_squad(
    path: Any, skip_bad_rows: bool = False, groups: str | None = None
) -> QuestionExamples:
    """Reads questions in the SQuAD 1.1 or 2.0 format, in a mix of both, or in rows of a table.

    The rows of a table have the columns `question`, `context` and `answers`, and optionally `id`,
    `title` and `is_impossible`. The value of `answers` is `{"text": [...], "answer_start": [...]}`
    or a list of dicts. Instead of `answers`, a row may have one answer in `answer_text` (or
    `answer`), which may be empty, and its offset in `answer_start`. The offset is not needed if the
    answer occurs once in the context. Rows `{"context": ..., "qas": [...]}`, as in files for
    `simpletransformers`, are also read.

    Tables are CSV, TSV, JSON lines, JSON arrays, JSON objects with a list `data`, Parquet, Arrow, or
    tables in memory; see `read_table`. If any question has the key `is_impossible` or an empty list
    of answers, the file is read as SQuAD 2.0, where questions without answers are impossible.

    Args:
        path: str or `Path`, see `lines.raw_lines` for encodings and compression; or a table in
            memory.
        skip_bad_rows: whether to skip invalid questions. A warning reports the number of skipped
            questions, and `skipped` of the result lists them.
        groups: key of a flat row, question, paragraph or article, such as `"title"`. Questions with
            the same value are a group. `hold_out` never splits a group.

    Returns:
        `QuestionExamples`. White space around questions is stripped. Answer starts are character
        offsets (code points), as in the published files.

    Raises:
        InputError: the file has a different format; a question, context or answer is missing; an id
            occurs twice; or the context does not contain an answer at its `answer_start`.

    Source: Rajpurkar et al. 2016 and 2018, and the published files.

    Example:
        examples = read_squad("dev-v1.1.json")
        examples.pairs[0], examples.answers[0]
        # ("Who came?", "Ann came."), [("Ann", 0)]
    """
    source, located_questions = _name_source(path), list(_read_questions(path))
    if not located_questions:
        raise InputError(f"{source} has no questions.")
    is_v2 = any(map(_can_lack_answer, located_questions))
    places: dict[str, str] = {}
    skipped: list[str] = []

    def read_question(located_question):
        place, title, context, question, around = located_question
        try:
            for row in (question, *around):
                check_accepted(row)
            group = None if groups is None else _group(groups, question, *around)
            return *_validate_question(question, context, is_v2, places, place), title, group
        except InputError as error:
            name = question.get("id") if isinstance(question, dict) else None
            raise type(error)(f"{source}, question {name!r:.60} ({place}): {error}") from error

    rows = usable(read_question, located_questions, skipped, skip_bad_rows)
    warn_of_skipped(source, skipped, "questions")
    if not rows:
        raise InputError(f"{source} has no usable questions.")
    ids, questions, contexts, answers, is_impossible, titles, group_names = map(list, zip(*rows))
    read_with = {"dev": source, "skip_bad_rows": skip_bad_rows, "groups": groups}
    return QuestionExamples(
        ids,
        questions,
        contexts,
        answers,
        is_impossible if is_v2 else None,
        titles,
        source=source,
        skipped=tuple(skipped),
        read_with=read_with if isinstance(path, (str, os.PathLike)) else None,
        groups=None if groups is None else group_names,
    )


def read_articles(path: str) -> list[tuple[tuple[str, str], dict[str, Any]]] | None:
    """Reads the questions of a SQuAD file, with or without answers, for predictions.

    Returns:
        ((question, context), {"id", "question", "context"}) of each question. None if the file is
        not a SQuAD file; flat rows are read as a table.
    """
    if suffix_of(path) not in (".json", ".jsonl"):
        return None
    questions = list(_read_questions(path))
    if not any(around for *_, around in questions):
        return None
    rows = []
    for place, _, context, question, _ in questions:
        fields = question if isinstance(question, dict) else {}
        try:
            pair = (
                _validate_text(fields.get("question"), "question").strip(),
                _validate_text(context, "context"),
            )
        except InputError as error:
            raise InputError(f"{path}, {place}: {error}") from error
        columns = ("id", "question", "context")
        rows.append((pair, dict(zip(columns, (str(fields.get("id", place)), *pair)))))
    return rows


def write_squad(path: str | Path, examples: QuestionExamples) -> None:
    articles: dict[str, dict[str, list]] = {}
    for row in range(len(examples)):
        answers = [{"text": text, "answer_start": start} for text, start in examples.answers[row]]
        question = {"id": examples.ids[row], "question": examples.questions[row]}
        if examples.is_impossible is not None:
            question["is_impossible"] = examples.is_impossible[row]
        contexts = articles.setdefault(examples.titles[row], {})
        contexts.setdefault(examples.contexts[row], []).append(question | {"answers": answers})
    data = [
        {
            "title": title,
            "paragraphs": [
                {"context": context, "qas": questions} for context, questions in of.items()
            ],
        }
        for title, of in articles.items()
    ]
    write_json(path, {"version": "1.1" if examples.is_impossible is None else "v2.0", "data": data})


def _can_lack_answer(located_question):
    row = located_question[3]
    if not isinstance(row, dict):
        return False
    return "is_impossible" in row or row.get("answers") == _NO_ANSWERS


def _read_questions(source):
    """Yields (location, title, context, question, (paragraph, article)) without validation."""
    table = _open_table(source)
    if table is not None:
        for number, read in table.rows:
            place = f"{table.unit} {number}"
            try:
                row = read()
            except InputError as error:
                raise InputError(f"{_name_source(source)}, {place}: {error}") from error
            yield from _find_questions(row, place)
        return
    document = parse_json(read_document(source), source)
    for number, article in enumerate(_list_in(document, "data", source)):
        yield from _find_questions(article, f"data[{number}]", source)


def _open_table(source):
    """Opens a table in memory or a file of rows; returns None for one JSON object."""
    if not isinstance(source, (str, os.PathLike)):
        return table_rows.table_in_memory(source)
    suffix = suffix_of(source)
    if suffix in (".csv", ".tsv"):
        return open_table(source, Layout("question", "context"))
    if suffix != ".json" or table_rows.is_json_array(source):
        return typed_rows(source)
    try:
        first = next(read() for _, read in table_rows.json_lines(source))
    except (InputError, StopIteration):
        return None  # the file has one object on several lines
    return None if "data" in first else typed_rows(source)


def _name_source(source):
    return str(source) if isinstance(source, (str, os.PathLike)) else "table"


def _find_questions(row, place, source=None, around=()):
    """Yields the questions of an article, a paragraph or a flat row."""
    if isinstance(row, dict):
        for key in ("paragraphs", "qas"):
            if isinstance(row.get(key), list):
                for number, inner in enumerate(row[key]):
                    yield from _find_questions(
                        inner, f"{place}.{key}[{number}]", source, (row, *around)
                    )
                return
    if source is not None and len(around) < 2 and not (isinstance(row, dict) and "question" in row):
        key = "qas" if around else "paragraphs"
        raise InputError(
            f"{source}: {place} has no list {key!r}. The file is not in the SQuAD format."
        )
    if isinstance(row, dict):
        row = _convert_flat_row(row, place) if not around else row
    paragraph = next(
        (node for node in (row, *around) if isinstance(node, dict) and "context" in node), {}
    )
    article = next(
        (node for node in (row, *around) if isinstance(node, dict) and "title" in node), {}
    )
    yield place, str(article.get("title", "")), paragraph.get("context"), row, around


def _convert_flat_row(row, place):
    """Returns a question with the keys of SQuAD, from a row of a table."""
    question = {"id": place} | {name: value for name, value in row.items() if not is_missing(value)}
    if isinstance(question.get("is_impossible"), str):  # CSV
        question["is_impossible"] = _FLAGS.get(question["is_impossible"].strip().lower())
    if isinstance(question.get("answers"), str):
        question["answers"] = _parse_cell(question["answers"])
    if "answers" not in question:
        text = next((question.pop(name) for name in _ANSWER if name in question), None)
        starts = [question[name] for name in _START if name in question]
        start = next((start for start in starts if start != ""), None)
        if text is not None and str(text).strip():
            question["answers"] = [
                {"text": text, "answer_start": _find_offset(start, text, question)}
            ]
        elif any(name in row for name in _ANSWER):
            question["answers"] = []
    if question.get("answers") == []:
        question["answers"] = _NO_ANSWERS
    return question


def _parse_cell(cell):
    try:
        return parse_json_line(cell)
    except InputError:
        pass
    try:
        # `datasets` and pandas write array(['a'], dtype=object).
        text = re.sub(r"array\((\[[^]]*\])(, dtype=\w+)?\)", r"\1", cell.strip())
        return ast.literal_eval(text) if len(cell) <= _LONGEST_CELL else cell
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return cell


def _find_offset(start, text, question):
    """Returns the offset of an answer; if it is not given, the only place of the answer."""
    if isinstance(start, str) and re.fullmatch(r"\s*[0-9]{1,9}(\.0)?\s*", start):
        return int(float(start))
    if isinstance(start, float) and start.is_integer():
        return int(start)
    context = question.get("context")
    if start is None and isinstance(context, str) and context.count(str(text)) == 1:
        return context.index(str(text))
    return start


def _group(key, *objects):
    for node in objects:
        if isinstance(node, dict) and isinstance(node.get(key), (str, int)):
            return str(node[key])
    raise InputError(f"groups={key!r} requires the key {key!r} with a string or number.")


def _read_answers(question):
    """Returns the answers as dicts with `text` and `answer_start`."""
    answers = question.get("answers")
    if isinstance(answers, dict):
        parts = [answers.get(name) for name in ("text", "answer_start")]
        if not all(isinstance(part, list) for part in parts) or len(set(map(len, parts))) > 1:
            raise InputError(
                "answers must contain two lists of equal length, text and answer_start."
            )
        answers = [{"text": text, "answer_start": start} for text, start in zip(*parts)]
    if not isinstance(answers, list):
        raise InputError(
            "there is no 'answers' list. In a table, write the answer in the columns answer_text and "
            f"answer_start. Received: {answers!r:.60}"
        )
    return answers


def _list_in(value, key, path):
    if not isinstance(value, dict) or not isinstance(value.get(key), list):
        raise InputError(
            f"{path}: the file has no list {key!r}. The file is not in the SQuAD format."
        )
    return value[key]


def _validate_question(question, context, is_v2, places, place):
    """Validates a question. Returns (id, question, context, answers, is_impossible)."""
    if not isinstance(question, dict):
        raise InputError(f"a question must be a JSON object. Received: {question!r:.60}")
    name = question.get("id")
    name = str(name) if type(name) is int else _validate_text(name, "id")
    if name in places:
        raise InputError(f"the question at {places[name]} has the same id.")
    text = _validate_text(question.get("question"), "question").strip()
    context = _validate_text(context, "context")
    answers = _read_answers(question)
    is_impossible = question.get("is_impossible")
    if is_impossible is None:
        is_impossible = is_v2 and not answers  # SQuAD 1.1 does not have the key
    if not isinstance(is_impossible, bool):
        raise InputError(f"is_impossible must be true or false. Received: {is_impossible!r:.40}")
    if is_impossible != (not answers):
        raise InputError(
            "is_impossible is true, but there are answers."
            if is_impossible
            else "there are no answers."
        )
    answers = [_validate_answer(answer, context) for answer in answers]
    places[name] = place
    return name, text, context, answers, is_impossible


def _validate_text(value, name):
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"the {name} must be a non-empty string. Received: {value!r:.40}")
    if len(value) > _LONGEST_TEXT:
        raise InputError(f"the {name} has {len(value):,} characters; the file may be damaged.")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(f"the {name} has an unpaired surrogate at {error.start}.") from error
    return value


def _validate_answer(answer, context):
    if not isinstance(answer, dict):
        raise InputError(f"an answer must be a JSON object. Received: {answer!r:.60}")
    text = _validate_text(answer.get("text"), "answer")
    start = answer.get("answer_start")
    if start is None:
        raise InputError(
            f"the answer {text!r:.60} occurs {context.count(text):,} times in the context. Write "
            "its offset as answer_start."
        )
    if isinstance(start, bool) or not isinstance(start, int):
        raise InputError(f"answer_start must be an integer. Received: {start!r:.40}")
    check_answer(text, start, context)
    return text, start


def check_answer(text: str, start: int, context: str) -> None:
    """Raises InputError if the context does not contain the answer at this position."""
    if start >= 0 and text and context.startswith(text, start):
        return
    begin = max(start, 0)
    places = [context.rfind(text, 0, begin + len(text)), context.find(text, begin)]
    places = [place for place in places if place >= 0] if text else []
    nearest = min(places, key=lambda place: abs(place - start), default=None)
    hint = "the answer does not occur" if nearest is None else f"the answer is at {nearest}"
    there = context[start : start + len(text)] if start >= 0 else ""
    raise InputError(
        f"the answer {text!r:.60} is not at character {start} of the context. Found: "
        f"{there!r:.60}; {hint}."
    )
