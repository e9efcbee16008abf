"""Converts entities with character offsets to word labels."""

import collections
import functools
import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.data.batches.words import Words
from keras_bert_impl.data.tables.layout import SkippedRowError
from keras_bert_impl.data.tags.reading.names import plain
from keras_bert_impl.data.tags.spans import Span, labels_of
from keras_bert_impl.utils.errors import InputError, listed

_LOG = logging.getLogger(__name__)
# Keys in files of annotation tools, normalized by `plain`.
_STARTS = tuple("start startoffset startchar begin beginoffset offset startidx from".split())
_ENDS = tuple("end endoffset endchar stop endidx to".split())
_TYPES = (
    "label", "labels", "entity", "type", "tag", "entitytype", "entitygroup", "category", "class",
    "name", "hypertextlabels",
)  # fmt: skip
_MENTIONS = ("text", "value", "word", "mention", "surface")


class Marked(NamedTuple):
    """An entity in a file: type, character offsets and, optionally, text."""

    type: str
    start: int
    end: int
    text: str | None = None


# What may happen to entities and to texts, for the warnings of `Alignment`.
EXTENDED = "entities do not start and end at word boundaries and were extended"
OVERLAPPING = "entities overlap a longer entity and were dropped"
REPEATED = "texts were annotated more than once. The first annotation is used"


class Alignment:
    """Counts entities, and lists the entities and texts that could not be read as they are."""

    def __init__(self, source: str):
        self.source, self.total = source, 0
        self.places: dict[str, list[str]] = collections.defaultdict(list)

    def report(self) -> None:
        for problem, places in self.places.items():
            total = f" of {self.total}" if problem in (EXTENDED, OVERLAPPING) else ""
            first_places = ", ".join(places[:3]) + (", ..." if len(places) > 3 else "")
            _LOG.warning("%s: %d%s %s: %s", self.source, len(places), total, problem, first_places)


def labels_of_entities(
    words: Words, entities: Iterable[Marked], alignment: Alignment, where: str
) -> list[str]:
    spans: list[Span] = []
    is_taken = np.zeros(len(words.starts), bool)
    marks = {_convert_offsets(words.text, entity)[:3] for entity in entities}
    for kind, start, end in sorted(marks, key=lambda mark: (mark[1] - mark[2], mark)):
        alignment.total += 1
        excerpt = f"{words.text[start:end]!r:.40} ({where})"
        first = int(np.searchsorted(words.ends, start, side="right"))
        last = int(np.searchsorted(words.starts, end, side="left"))
        if first >= last or is_taken[first:last].any():
            alignment.places[OVERLAPPING].append(excerpt)
            continue
        spans.append(Span(kind, first, last))
        is_taken[first:last] = True
        if (words.starts[first], words.ends[last - 1]) != (start, end):
            alignment.places[EXTENDED].append(excerpt)
    return labels_of(spans, len(words.starts))


def _convert_offsets(text, entity):
    """Converts the offsets of an entity to code point offsets, without white space at the ends."""
    kind, start, end, mention = entity
    if mention and text[start:end].split() != mention.split():
        start, end = _find_offsets(text, mention, start, end)
    if not 0 <= start < end <= len(text):
        raise InputError(f"entity {kind!r:.40} from {start} to {end} is outside of the text.")
    part = text[start:end]
    if not part.strip():
        raise InputError(f"entity {kind!r:.40} from {start} to {end} contains only white space.")
    start += len(part) - len(part.lstrip())
    return Marked(kind, start, end - (len(part) - len(part.rstrip())))


def _find_offsets(text, mention, start, end):
    """Converts inclusive ends and offsets of UTF-16 code units to code point offsets."""
    if text[start : end + 1] == mention:  # the end is inclusive
        return start, end + 1
    if 0 <= start < end <= 2 * len(text):
        first, last = np.searchsorted(_compute_utf16_offsets(text), (start, end)).tolist()
        if text[first:last].split() == mention.split():
            return first, last
    raise InputError(
        f"characters {start} to {end} are {text[start:end]!r:.40}, not {mention!r:.40}; the offsets "
        "belong to another text."
    )


@functools.lru_cache(maxsize=1)
def _compute_utf16_offsets(text):
    """Returns the UTF-16 offset of each character, int64 [characters + 1]."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "uint32")
    return np.append(0, np.cumsum(1 + (codes > 0xFFFF)))


# === Formats of annotation tools ===


def entities_of(value: Any) -> list[Marked]:
    """Returns the entities in a cell.

    Args:
        value: list of [start, end, type], or of dicts such as {"start": 0, "end": 5, "label": "X"};
            or a dict {type: [[start, end], ...]} or {type: {text: [[start, last], ...]}}.
    """
    if isinstance(value, dict):
        if isinstance(value.get("entities"), list):
            return entities_of(value["entities"])
        return list(_read_entities_by_type(value))
    if not isinstance(value, list):
        raise InputError(f"entities must be a list. Received: {value!r:.60}")
    return [entity for annotation in value for entity in _read_entities(annotation)]


def _read_entities(annotation):
    if isinstance(annotation, (list, tuple)) and len(annotation) >= 3:
        numbers = [part for part in annotation if _is_number(part)]
        kinds = [part for part in annotation if isinstance(part, str) and not _is_number(part)]
        if len(numbers) >= 2 and (kinds or None in annotation):
            return [_mark_entity(next(iter(kinds), None), int(numbers[0]), int(numbers[1]))]
    if isinstance(annotation, dict):
        fields = {plain(key): value for key, value in annotation.items()}
        points = fields.get("points")
        if isinstance(points, list) and points and isinstance(points[0], dict):
            fields |= {plain(key): value for key, value in points[0].items()}
        start, end, kinds, mention = (
            next((fields[name] for name in names if fields.get(name) is not None), None)
            for names in (_STARTS, _ENDS, _TYPES, _MENTIONS)
        )
        if end is None and _is_number(start) and _is_number(fields.get("length")):
            end = int(start) + int(fields["length"])
        has_label_key = bool(fields.keys() & {*_TYPES})
        if _is_number(start) and _is_number(end) and (kinds or has_label_key):
            mention = mention if isinstance(mention, str) and mention != kinds else None
            kinds = kinds if isinstance(kinds, list) and kinds else [kinds or None]
            if all(isinstance(kind, (str, int)) or kind is None for kind in kinds):
                return [_mark_entity(kind, int(start), int(end), mention) for kind in kinds]
        raise InputError(
            f"an entity requires a start, an end and a label. Received: {listed(annotation)}"
        )
    raise InputError(
        f"an entity must be [start, end, label] or a dict. Received: {annotation!r:.60}"
    )


def _read_entities_by_type(value):
    """Yields the entities of {"PER": [[0, 5]]} or {"PER": {"Alice": [[0, 4]]}}."""
    for kind, spans_of_type in value.items():
        by_text = (
            spans_of_type.items() if isinstance(spans_of_type, dict) else [(None, spans_of_type)]
        )
        for mention, spans in by_text:
            for span in spans if isinstance(spans, list) else [spans]:
                places = span[:2] if isinstance(span, (list, tuple)) else []
                if len(places) < 2 or not all(map(_is_number, places)):
                    raise InputError(f"an entity must be [start, end]. Received: {span!r:.60}")
                yield _mark_entity(kind, *map(int, places), mention)


def _mark_entity(kind, start, end, mention=None):
    kind = "" if kind is None else str(kind).strip()
    if not kind:
        raise SkippedRowError(f"the entity from {start} to {end} has no label.")
    return Marked(kind, start, end, mention)


def _is_number(value):
    is_int = isinstance(value, int) and not isinstance(value, bool)
    is_whole = isinstance(value, float) and value.is_integer()
    is_text = isinstance(value, str) and value.strip().isdecimal() and len(value) < 100
    return is_int or is_whole or is_text
