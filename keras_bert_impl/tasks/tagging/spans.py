"""Entity spans of word labels; precision, recall and F1."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.tagging.entity_labels import LETTERS, OUTSIDE, read_labels

SCHEMES = (*LETTERS, "IO")


class Span(NamedTuple):
    """An entity in a sentence, in words.

    Attributes:
        type: such as `"PER"`; `"_"` if labels are bare prefixes.
        start, end: first word, and the word after the last.
    """

    type: str
    start: int
    end: int


def detect_scheme(labels: Iterable[str]) -> str | None:
    """Detects the scheme of a set of labels."""
    found = read_labels(labels)
    if found is None:
        return None
    if not found.letters:
        return "IO"
    if found.letters - set("BI"):
        return next(s for s, letters in LETTERS.items() if found.letters <= set(letters))
    begun = {type_ for prefix, type_ in found.parts.values() if prefix == "B"}
    inside = {type_ for prefix, type_ in found.parts.values() if prefix == "I"}
    return "IOB1" if inside - begun else "IOB2"


def spans_of(
    labels: list[str],
    scheme: str | None = None,
    parts: dict[str, tuple[str, str]] | None = None,
) -> list[Span]:
    """Returns the entities that the labels of a sentence mark, in order.

    Source: the rules of `conlleval`; with a scheme, the strict mode of `seqeval`.
    """
    _check_scheme(scheme, None)
    parts = _parts_of(labels, scheme, parts)
    spans: list[Span] = []
    start = None
    for place, (before, word) in enumerate(zip([("O", ""), *parts], [*parts, ("O", "")])):
        begins = _begins(before, word)
        if start is not None and (begins or word[0] == "O"):
            spans.append(Span(before[1], start, place))
            start = None
        if begins:
            start = place
    if scheme is None:
        return spans
    strict = (_STRICT[scheme](span, parts) for span in spans)
    return [span for span in strict if span is not None]


def labels_of(spans: Iterable[Span], length: int, scheme: str = "IOB2") -> list[str]:
    """Returns the labels of a sentence that mark the given entities."""
    _check_scheme(scheme)
    labels, end, last_type = ["O"] * length, 0, None
    for span in sorted(spans, key=lambda span: span.start):
        if not end <= span.start < span.end <= length:
            raise InputError(f"{span} overlaps another or exceeds the {length} words.")
        count = span.end - span.start
        if scheme == "IO":
            labels[span.start : span.end] = [span.type] * count
        else:
            begin, inside, *ends = tuple(LETTERS[scheme])
            prefixes = [begin] + [inside] * (count - 1)
            if ends:
                prefixes[-1] = ends[count == 1]
            elif scheme == "IOB1" and not (span.start == end and span.type == last_type):
                prefixes[0] = "I"
            suffix = "" if span.type == "_" else f"-{span.type}"
            labels[span.start : span.end] = [prefix + suffix for prefix in prefixes]
        end, last_type = span.end, span.type
    return labels


def convert_labels(labels: list[str], scheme: str) -> list[str]:
    """Converts the labels of a sentence to one of `SCHEMES`; entities of invalid sequences are kept."""
    return labels_of(spans_of(labels), len(labels), scheme)


def entity_scores(
    gold: list[list[str]],
    predicted: list[list[str]],
    scheme: str | None = None,
    labels: Iterable[str] = (),
) -> dict[str, Any]:
    """Computes precision, recall and F1 of entities, matched by words and type."""
    counts: list[Counter] = [Counter(), Counter(), Counter()]  # found, predicted, gold, by type
    every = {*labels, *(x for rows in (gold, predicted) for row in rows for x in row)}
    found = read_labels(every, scheme)
    parts = None if found is None else found.parts
    if len(gold) != len(predicted):
        raise InputError(f"{len(gold)} sentences, but predictions for {len(predicted)}.")
    for number, (true, guess) in enumerate(zip(gold, predicted)):
        if len(true) != len(guess):
            raise InputError(f"sentence {number}: {len(true)} labels, but {len(guess)} predicted.")
        wanted, given = (set(spans_of(labels, scheme, parts)) for labels in (true, guess))
        for counter, spans in zip(counts, (wanted & given, given, wanted)):
            counter.update(span.type for span in spans)
    types = {
        name: _scores(*(counter[name] for counter in counts))
        for name in sorted(set(counts[1]) | set(counts[2]))
    }
    scores = _scores(*(counter.total() for counter in counts))
    for name in ("precision", "recall", "f1"):
        values = [score[name] for score in types.values()]
        scores[f"macro_{name}"] = sum(values) / len(values) if values else 0.0
    del scores["support"]
    return {**scores, "types": types}


def _scores(found, predicted, gold):
    precision = found / predicted if predicted else 0.0
    recall = found / gold if gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if found else 0.0
    return {"precision": precision, "recall": recall, "f1": f1, "support": gold}


def _check_scheme(scheme, *also):
    if scheme not in (*SCHEMES, *also):
        raise InputError(f"scheme must be one of {', '.join(SCHEMES)}. Received: {scheme!r}")


def _parts_of(labels, scheme, parts):
    """Returns the (prefix, type) of each label of a sentence."""
    found = read_labels(labels, scheme)
    if parts is None:
        parts = found.parts if found else {label: ("O", "") for label in OUTSIDE}
    for label in labels:
        if label not in parts:
            raise InputError(f"label {label!r} is neither 'O' nor like 'B-PER'.")
    if scheme is not None and found:
        for label, letter in found.written.items():
            if letter not in LETTERS.get(scheme, ""):
                raise InputError(f"label {label!r} is not valid in {scheme}.")
    return [parts[label] for label in labels]


def _begins(before, word):
    """Returns whether a word starts an entity; it and the previous word are (prefix, type)."""
    if word[0] in "OBS":
        return word[0] != "O"
    return before[0] in "OES" or before[1] != word[1]


def _strict_iob1(span, parts):
    """In IOB1, a B is only allowed directly after an entity of the same type."""
    if parts[span.start][0] == "I":
        return span
    if not span.start or parts[span.start - 1][1] != span.type:
        rest = span._replace(start=span.start + 1)  # starts at the I after it
        return rest if rest.start < rest.end else None
    after = parts[span.end] if span.end < len(parts) else ("O", "")
    is_cut = span.end == span.start + 1 and after[0] == "B" and after[1] != span.type
    return None if is_cut else span


def _strict_iob2(span, parts):
    return span if parts[span.start][0] == "B" else None


def _strict_bioes(span, parts):
    prefixes = "".join(prefix for prefix, _ in parts[span.start : span.end])
    return span if re.fullmatch("S|BI*E", prefixes) else None


_STRICT = {"IOB1": _strict_iob1, "IOB2": _strict_iob2, "IO": lambda span, _: span}
_STRICT |= dict.fromkeys(("BIOES", "BILOU", "BMES", "BMEWO"), _strict_bioes)
