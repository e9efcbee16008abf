"""Converts the cells of a row to words and labels."""

import ast
import re
from typing import Any

import numpy as np

from keras_bert_impl.data.batches.words import Words, find_words
from keras_bert_impl.data.tables.user_input import is_missing
from keras_bert_impl.data.tags.reading.names import TEXTS, find_name
from keras_bert_impl.data.tags.reading.offsets import (
    OVERLAPPING,
    REPEATED,
    Alignment,
    Marked,
    entities_of,
    labels_of_entities,
)
from keras_bert_impl.data.tags.spans import Span, labels_of
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.reading import parse_json_line

_LONGEST_LIST = 100_000  # maximum characters of a Python list in a cell
_LABEL_STUDIO_TYPES = {"labels", "hypertextlabels"}
_WITHOUT_COMMAS = re.compile(r"""\[\s*('[^']*'|"[^"]*"|\d+)\s+['"\d]""")


def as_list(value: Any) -> Any:
    """Parses a list that is written as text in a cell. Returns other values unchanged."""
    if isinstance(value, (np.ndarray, tuple)):
        return list(value)
    if not isinstance(value, str) or not re.fullmatch(r"\s*\[.*\]\s*", value, re.DOTALL):
        return value
    if _WITHOUT_COMMAS.match(value):
        raise InputError(
            f"{value!r:.60} is a list without commas, printed by NumPy. Write the table as JSON "
            "lines or Parquet."
        )
    try:
        return parse_json_line(value, finite=True)
    except InputError:
        pass
    try:
        parsed = ast.literal_eval(value.strip()) if len(value) <= _LONGEST_LIST else value
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value  # the value is a text in brackets
    return parsed


def word_of(value: Any) -> str:
    """Returns a word as str. In tables, a word can be a str, a number, or a dict with a token."""
    if isinstance(value, dict):
        value = value.get(find_name(value, ("text", "orth", "word", "token", "form", "value")))
    if is_missing(value) or isinstance(value, (dict, list)):
        raise InputError(f"a word must be a string. Received: {value!r:.40}")
    return str(value)


def name_of(value: Any) -> str:
    if isinstance(value, (dict, list)):
        raise InputError(f"a label must be a string. Received: {value!r:.40}")
    return "" if is_missing(value) else str(value)


def split_text(words: Any) -> list[str]:
    if isinstance(words, list):
        return [word_of(word) for word in words]
    if not isinstance(words, str):
        raise InputError(f"words must be a list or a string. Received: {words!r:.60}")
    return words.split()


def are_entities(words: Any, tags: Any) -> bool:
    if isinstance(tags, dict) or is_missing(tags):
        return True
    if not isinstance(tags, list):
        return False
    has_words = isinstance(words, list) and not any(isinstance(word, dict) for word in words)
    return isinstance(tags[0], (dict, list, tuple)) if tags else not has_words


def labels_of_text(
    text: Any, words: Any, tags: Any, alignment: Alignment, where: str
) -> tuple[list[str], list[str]]:
    entities = [] if is_missing(tags) else entities_of(tags)
    if text is None:
        return split_text(words), _label_words(len(words), entities, alignment, where)
    if not isinstance(text, str):
        raise InputError(f"entities with offsets require a text. Received: {text!r:.60}")
    text_words = _split_words(text, words) if isinstance(words, list) else find_words(text)
    parts = [text[start:end] for start, end in zip(text_words.starts, text_words.ends)]
    return parts, labels_of_entities(text_words, entities, alignment, where)


def _split_words(text, tokens):
    """Splits a text at the offsets of the tokens, or by `find_words` if there are no offsets."""
    if not all(isinstance(token, dict) and {"start", "end"} <= set(token) for token in tokens):
        return find_words(text)
    offsets = [offset for token in tokens for offset in (token["start"], token["end"])]
    if not all(isinstance(offset, int) for offset in offsets) or offsets != sorted(offsets):
        raise InputError("the offsets of the tokens are not ascending.")
    if offsets and not 0 <= offsets[0] <= offsets[-1] <= len(text):
        raise InputError("the offsets of the tokens are not within the text.")
    return Words(text, *np.array(offsets, "int64").reshape(-1, 2).T)


def _label_words(count, entities: list[Marked], alignment, where):
    spans = [Span(kind, start, end + 1) for kind, start, end, _ in entities]
    for span in spans:
        if not 0 <= span.start < span.end <= count:
            raise InputError(f"{span} is outside of the {count} words.")
    alignment.total += len(spans)
    disjoint_spans: list[Span] = []
    for span in sorted(spans, key=lambda span: span.start - span.end):
        if any(longer.start < span.end and span.start < longer.end for longer in disjoint_spans):
            alignment.places[OVERLAPPING].append(f"{span.type!r} ({where})")
        else:
            disjoint_spans.append(span)
    return labels_of(disjoint_spans, count)


def of_label_studio(
    row: dict[str, Any], text: str | None, alignment: Alignment, where: str
) -> dict[str, Any] | None:
    """Converts a task of Label Studio to a row with text and entities.

    Returns other rows unchanged.
    """
    data, annotations = row.get("data"), row.get("annotations", row.get("completions"))
    if not isinstance(data, dict) or not isinstance(annotations, list):
        return row
    completed = [
        annotation
        for annotation in annotations
        if isinstance(annotation, dict) and not annotation.get("was_cancelled")
    ]
    if not completed:
        return None
    if len(completed) > 1:
        alignment.places[REPEATED].append(where)
    strings = {name: value for name, value in data.items() if isinstance(value, str)}
    name = text or find_name(strings, TEXTS) or next(iter(strings), None)
    if name not in strings:
        raise InputError(f"the task has no text {name!r} in its data. Found: {listed(data)}")
    result = completed[0].get("result")
    regions = result if isinstance(result, list) else []
    entities = []
    for region in regions:
        value = region.get("value") if isinstance(region, dict) else None
        if not isinstance(value, dict) or not {"start", "end"} <= set(value):
            continue
        # Other regions, such as choices, describe an entity and have no label.
        if _LABEL_STUDIO_TYPES & {*value, str(region.get("type"))}:
            offsets = value.get("globalOffsets")
            no_label = {"labels": None}
            entities.append(no_label | value | (offsets if isinstance(offsets, dict) else {}))
    return {text or "text": strings[name], "entities": entities}


def of_argilla(row: dict[str, Any]) -> dict[str, Any] | None:
    """Converts a record of Argilla 2 to a row with text and entities.

    Returns other rows unchanged.
    """
    fields, responses = row.get("fields"), row.get("responses")
    if not isinstance(fields, dict) or not isinstance(responses, dict):
        return row
    texts = [value for value in fields.values() if isinstance(value, str)]
    answers = [
        answer["value"]
        for question_answers in responses.values()
        for answer in (question_answers if isinstance(question_answers, list) else [])
        if isinstance(answer, dict)
        and answer.get("status", "submitted") == "submitted"
        and isinstance(answer.get("value"), list)
        and all(isinstance(entity, dict) for entity in answer["value"])
    ]
    return {"text": texts[0], "entities": answers[0]} if texts and answers else None
