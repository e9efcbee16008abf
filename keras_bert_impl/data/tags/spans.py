"""Entity labels, label schemes, and conversion between labels and spans."""

import collections
import dataclasses
import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import OneOf, check

OUTSIDE = ("O", "o")
# Labels of subwords and special tokens in published files; never part of an entity.
_NO_WORDS = ("X", "[CLS]", "[SEP]", "[PAD]", "<PAD>", "<pad>")
# Spellings of "O" in other tools and tables, in lower case.
_NONE = ("", "0", "_", "-", "none", "null", "nan", "nil", "n/a", "out", "outside", "other")
# Letters for begin, inside, end and single.
LETTERS = {
    "IOB1": "BI",
    "IOB2": "BI",
    "BIOES": "BIES",
    "BILOU": "BILU",
    "BMES": "BMES",
    "BMEWO": "BMEW",
}
_CANONICAL = {**dict(zip("BIES", "BIES")), "L": "E", "M": "I", "U": "S", "W": "S"}
_STYLES = [
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"(?P<letter>[BIESLUMW])(-(?P<type>.+))?",
        r"(?P<letter>[BIESLUMW])(_(?P<type>.+))?",
        r"(?P<letter>[biesulmw])([-_](?P<type>.+))?",
        r"(?P<type>.+)[-_](?P<letter>[BIESLUMW])",
        r"(?P<type>.+)[-_](?P<letter>[biesulmw])",
    )
]
# Other separators, brackets, and prefixes that are words: B:PER, <B-PER>, (B)PER, BEGIN-PER, PER.B,
# BPER. Types may look like this, too, so these notations are used only if a type has the labels of
# one entity. The search for a type at the beginning is bounded, because it takes quadratic time.
_RARE_STYLES = [
    re.compile(pattern, re.DOTALL)
    for letter in (
        "[BIESLUMW]|BEG|BEGIN|INSIDE|IN|END|LAST|MID|MIDDLE|SINGLE|UNIT",
        "[biesulmw]|beg|begin|inside|in|end|last|mid|middle|single|unit",
        "Beg|Begin|Inside|In|End|Last|Mid|Middle|Single|Unit",
    )
    for pattern in (
        rf"(?P<open>[<([{{])?(?P<letter>{letter})[\W_]+(?P<type>.+?)(?(open)[]>)}}]?)",
        rf"(?P<type>.{{1,200}}?)[\W_]{{1,9}}(?P<letter>{letter})[)\]]?",
        rf"(?P<letter>{letter})(?P<type>[^\W_].+)",
    )
]


@dataclasses.dataclass(frozen=True)
class EntityLabels:
    """A set of entity labels.

    Attributes:
        parts: {label: (prefix, type)}. The prefix is `"O"` outside of entities, else `"B"`, `"I"`,
            `"E"` or `"S"`. Letters of other schemes are converted. The type is `"_"` for labels
            without a type, such as `"B"`.
        written: {label: upper-case letter in the label}; {} if the labels have no letters.
    """

    parts: dict[str, tuple[str, str]]
    written: dict[str, str]

    @property
    def letters(self) -> set[str]:
        return set(self.written.values())


def read_labels(labels: Iterable[str], scheme: str | None = None) -> EntityLabels | None:
    return _read(frozenset(labels), LETTERS.get(scheme or "", ""))


@functools.lru_cache(maxsize=256)
def _read(labels, scheme_letters):
    out = {label: ("O", "") for label in labels & {*OUTSIDE, *_NO_WORDS}}
    inside = labels - set(out)
    if not inside:
        return None
    for style in (*_STYLES, *_RARE_STYLES):
        matches = {label: style.fullmatch(label) for label in inside}
        if not all(matches.values()):
            continue
        written = {label: match["letter"][0].upper() for label, match in matches.items()}
        letters = set(written.values())
        has_types = all(match["type"] for match in matches.values())
        is_given = style in _STYLES and letters <= set(scheme_letters)
        if is_given or _is_scheme(letters, style, has_types, matches.values()):
            parts = {
                label: (_CANONICAL[written[label]], match["type"] or "_")
                for label, match in matches.items()
            }
            return EntityLabels(out | parts, written)
    if labels & set(OUTSIDE) and not _find_prefixed(inside):
        return EntityLabels(out | {label: ("I", label) for label in inside}, {})
    return None


def _is_scheme(letters, style, has_types, matches):
    if not any(letters <= set(scheme_letters) for scheme_letters in LETTERS.values()):
        return False
    if style in _RARE_STYLES:
        return _has_whole_entities(style, matches)
    # In rare notations, other letters may be part of a type.
    is_usual = style is _STYLES[0] and (has_types or letters <= set("BIESLU"))
    return is_usual or bool(letters & set("BIM"))


def _has_whole_entities(style, matches):
    """Returns whether a type has the labels of one entity: B, and I or the label of its end."""
    letters = collections.defaultdict(set)
    for match in matches:
        letters[match["type"]].add(match["letter"][0].upper())
    # Without a separator, other letters are the first letter of a type, as in "BOOK" and "LOOK".
    after = set("IEL") if r"[\W_]" in style.pattern else {"I"}
    return any("B" in type_letters and type_letters & after for type_letters in letters.values())


def _find_prefixed(inside):
    """Returns the labels with a prefix in the notation that most labels have, or []."""
    best = []
    for style in (*_STYLES, *_RARE_STYLES):
        matches = [match for label in inside if (match := style.fullmatch(label))]
        is_likely = (
            _has_whole_entities(style, matches) and 2 * len(matches) >= len(inside)
            if style in _RARE_STYLES
            else any(match["letter"] in "BIbi" for match in matches)
        )
        if is_likely and len(matches) > len(best):
            best = [match[0] for match in matches]
    return best


def misfits(labels: Iterable[str]) -> list[str]:
    """Returns the sorted labels whose format differs from most entity labels."""
    labels = set(labels)
    if read_labels(labels) is not None or not labels & set(OUTSIDE):
        return []
    inside = labels - {*OUTSIDE, *_NO_WORDS}
    matched = _find_prefixed(inside)
    return sorted(inside - set(matched)) if matched else []


def possible_prefixes(labels: Iterable[str]) -> list[str]:
    """Returns the labels that are read as types but may have a prefix, such as `"B:PER"`."""
    labels = set(labels) - {*OUTSIDE, *_NO_WORDS}
    scheme = read_labels(labels | {"O"})
    if scheme is None or scheme.letters or len(labels) < 2:
        return []
    for style in _RARE_STYLES[:2]:
        matches = [style.fullmatch(label) for label in labels]
        if all(matches) and {match["letter"] for match in matches} & {"B", "I"}:
            return sorted(labels)
    return []


def means_none(label: str) -> bool:
    return label.lower() in _NONE


def outside_candidates(labels: Iterable[str]) -> list[str]:
    """Returns the sorted labels that may mark words outside of entities instead of `"O"`."""
    labels = set(labels)
    if labels & set(OUTSIDE):
        return []
    names = labels - set(_NO_WORDS)
    matched = set(_find_prefixed(names))
    candidates = {x for x in names - matched if not any(style.fullmatch(x) for style in _STYLES)}
    candidates |= set(filter(means_none, names))
    entity_labels = read_labels((names - candidates) | {"O"}) if names - candidates else None
    return sorted(candidates) if entity_labels is not None and "B" in entity_labels.letters else []


def outside_number(labels: list[str]) -> int:
    """Returns the index of the label for words outside of entities. Default: 0."""
    return next((number for number, label in enumerate(labels) if label in OUTSIDE), 0)


SCHEMES = (*LETTERS, "IO")
Scheme = Annotated[str, OneOf(*SCHEMES)]


class Span(NamedTuple):
    """An entity in a sentence, as a range of words.

    Attributes:
        type: entity type, such as `"PER"`; `"_"` for labels without a type, such as `"B"`.
        start: index of the first word.
        end: index of the last word plus 1.
    """

    type: str
    start: int
    end: int


def detect_scheme(labels: Iterable[str]) -> str | None:
    entity_labels = read_labels(labels)
    if entity_labels is None:
        return None
    if not entity_labels.letters:
        return "IO"
    if entity_labels.letters - set("BI"):
        return next(s for s, letters in LETTERS.items() if entity_labels.letters <= set(letters))
    begun = {type_ for prefix, type_ in entity_labels.parts.values() if prefix == "B"}
    inside = {type_ for prefix, type_ in entity_labels.parts.values() if prefix == "I"}
    return "IOB1" if inside - begun else "IOB2"


def spans_of(
    labels: Sequence[str],
    scheme: str | None = None,
    parts: dict[str, tuple[str, str]] | None = None,
) -> list[Span]:
    """Extracts the entities from the labels of a sentence.

    If `scheme` is None, uses the rules of `conlleval`; else the rules of the strict mode of
    `seqeval`.
    """
    check("scheme", scheme, Scheme | None)
    parts = _split_labels(labels, scheme, parts)
    spans: list[Span] = []
    start = None
    for place, (before, word) in enumerate(zip([("O", ""), *parts], [*parts, ("O", "")])):
        begins = _is_start(before, word)
        if start is not None and (begins or word[0] == "O"):
            spans.append(Span(before[1], start, place))
            start = None
        if begins:
            start = place
    if scheme is None:
        return spans
    strict = (_STRICT[scheme](span, parts) for span in spans)
    return [span for span in strict if span is not None]


def invalid_spans(
    sentences: list[list[str]], labels: Iterable[str]
) -> tuple[str | None, list[tuple[int, int]]]:
    """Finds entities that do not follow the label scheme, such as `I` at the start in IOB2.

    Returns:
        The scheme, and the position of each invalid entity as a (sentence, word) tuple. IOB1 and
        IOB2 have the same labels, so the scheme with fewer invalid entities is returned.
    """
    scheme = detect_scheme(labels)
    if scheme is None:
        return None, []
    parts = read_labels(labels).parts
    schemes = ("IOB2", "IOB1") if scheme in ("IOB1", "IOB2") else (scheme,)
    places_by_scheme: dict[str, list[tuple[int, int]]] = {candidate: [] for candidate in schemes}

    @functools.cache
    def invalid(labels, candidate):
        valid = set(spans_of(labels, candidate, parts))
        return [span.start for span in spans_of(labels, parts=parts) if span not in valid]

    for number, start, labels in runs_of(sentences, parts):
        for candidate, places in places_by_scheme.items():
            places += [(number, start + place) for place in invalid(labels, candidate)]
    return min(places_by_scheme.items(), key=lambda item: len(item[1]))


def runs_of(
    sentences: Iterable[list[str]], parts: dict[str, tuple[str, str]]
) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yields (sentence, first word, labels) of consecutive words in entities.

    The same labels occur often, so their spans can be computed once for a whole data set.
    """
    outside = {label for label, (prefix, _) in parts.items() if prefix == "O"}
    for number, row in enumerate(sentences):
        if outside.issuperset(row):
            continue
        start = 0
        for is_outside, group in itertools.groupby(row, outside.__contains__):
            run = tuple(group)
            if not is_outside:
                yield number, start, run
            start += len(run)


def labels_of(spans: Iterable[Span], length: int, scheme: str = "IOB2") -> list[str]:
    """Converts the entities of a sentence to word labels."""
    check("scheme", scheme, Scheme)
    labels, end, last_type = ["O"] * length, 0, None
    for span in sorted(spans, key=lambda span: span.start):
        if not end <= span.start < span.end <= length:
            raise InputError(f"{span} overlaps another entity or exceeds the {length} words.")
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
    """Converts the labels of a sentence to another scheme. Invalid entities are kept."""
    return labels_of(spans_of(labels), len(labels), scheme)


def entity_scores(
    true_labels: list[list[str]],
    predicted: list[list[str]],
    scheme: str | None = None,
    labels: Iterable[str] = (),
) -> dict[str, Any]:
    """Computes precision, recall and F1 of entities. Words and types must match."""
    # Correct, predicted and true entities by type.
    counts: list[Counter] = [Counter(), Counter(), Counter()]
    every = {*labels, *(x for rows in (true_labels, predicted) for row in rows for x in row)}
    entity_labels = read_labels(every, scheme)
    parts = None if entity_labels is None else entity_labels.parts
    if len(true_labels) != len(predicted):
        raise InputError(f"{len(true_labels)} sentences, but predictions for {len(predicted)}.")
    for number, (true, guess) in enumerate(zip(true_labels, predicted)):
        if len(true) != len(guess):
            raise InputError(f"sentence {number}: {len(true)} labels, but {len(guess)} predicted.")
        true_spans, guess_spans = (set(spans_of(labels, scheme, parts)) for labels in (true, guess))
        for counter, spans in zip(counts, (true_spans & guess_spans, guess_spans, true_spans)):
            counter.update(span.type for span in spans)
    types = {
        name: _compute_scores(*(counter[name] for counter in counts))
        for name in sorted(set(counts[1]) | set(counts[2]))
    }
    scores = _compute_scores(*(counter.total() for counter in counts))
    for name in ("precision", "recall", "f1"):
        values = [score[name] for score in types.values()]
        scores[f"macro_{name}"] = sum(values) / len(values) if values else 0.0
    del scores["support"]
    return {**scores, "types": types}


def _compute_scores(correct, predicted, support):
    precision = correct / predicted if predicted else 0.0
    recall = correct / support if support else 0.0
    f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
    return {"precision": precision, "recall": recall, "f1": f1, "support": support}


def _split_labels(labels, scheme, parts):
    """Splits each label into (prefix, type)."""
    entity_labels = read_labels(labels, scheme)
    if parts is None:
        parts = entity_labels.parts if entity_labels else {label: ("O", "") for label in OUTSIDE}
    for label in labels:
        if label not in parts:
            label = next(iter(misfits({*labels, "O"})), label)
            raise InputError(
                f"label {label!r} is neither 'O' nor like 'B-PER'. Sentences in which every word is "
                "in an entity need the labels of the data set: parts=read_labels(labels).parts."
            )
    if scheme is not None and entity_labels:
        for label, letter in entity_labels.written.items():
            if letter not in LETTERS.get(scheme, ""):
                raise InputError(f"label {label!r} is not valid in {scheme}.")
    return [parts[label] for label in labels]


def _is_start(before, word):
    """Returns whether a word starts an entity, given (prefix, type) of two consecutive words."""
    if word[0] in "OBS":
        return word[0] != "O"
    return before[0] in "OES" or before[1] != word[1]


def _validate_iob1(span, parts):
    # In IOB1, B is only valid for a word directly after an entity of the same type.
    if parts[span.start][0] == "I":
        return span
    if not span.start or parts[span.start - 1][1] != span.type:
        shortened = span._replace(start=span.start + 1)  # leave out the word with B
        return shortened if shortened.start < shortened.end else None
    after = parts[span.end] if span.end < len(parts) else ("O", "")
    is_cut = span.end == span.start + 1 and after[0] == "B" and after[1] != span.type
    return None if is_cut else span


def _validate_iob2(span, parts):
    return span if parts[span.start][0] == "B" else None


def _validate_bioes(span, parts):
    prefixes = "".join(prefix for prefix, _ in parts[span.start : span.end])
    return span if re.fullmatch("S|BI*E", prefixes) else None


_STRICT = {"IOB1": _validate_iob1, "IOB2": _validate_iob2, "IO": lambda span, _: span}
_STRICT |= dict.fromkeys(("BIOES", "BILOU", "BMES", "BMEWO"), _validate_bioes)
