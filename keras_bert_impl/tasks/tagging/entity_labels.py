"""Parsing of entity labels in all common notations."""

import dataclasses
import functools
import re
from collections.abc import Iterable

OUTSIDE = ("O", "o")
# Used by published files and models for subwords and special tokens; never part of an entity.
_NO_WORDS = ("X", "[CLS]", "[SEP]", "[PAD]", "<PAD>", "<pad>")
# In lower case: what tools and tables write instead of "O".
_NONE = ("", "0", "_", "-", "none", "null", "nan", "nil", "n/a", "out", "outside", "other")
# Scheme -> letters for begin, inside, end and single-word entity.
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


@dataclasses.dataclass(frozen=True)
class EntityLabels:
    """A set of labels that mark entities.

    Attributes:
        parts: label -> (prefix, type). The prefix is normalized to `"B"`, `"I"`, `"E"`, `"S"`, or
            `"O"` for no entity. The type is `"_"` if labels are bare prefixes.
        written: label -> original prefix in upper case; omits labels that mark no entity; empty if
            labels are types.
    """

    parts: dict[str, tuple[str, str]]
    written: dict[str, str]

    @property
    def letters(self) -> set[str]:
        """Original prefixes."""
        return set(self.written.values())


def read_labels(labels: Iterable[str], scheme: str | None = None) -> EntityLabels | None:
    """Parses a set of entity labels."""
    return _read(frozenset(labels), LETTERS.get(scheme or "", ""))


@functools.lru_cache(maxsize=256)
def _read(labels, of_scheme):
    out = {label: ("O", "") for label in labels & {*OUTSIDE, *_NO_WORDS}}
    inside = labels - set(out)
    if not inside:
        return None
    for style in _STYLES:
        found = {label: style.fullmatch(label) for label in inside}
        if all(found.values()):
            written = {label: match["letter"].upper() for label, match in found.items()}
            has_types = all(match["type"] for match in found.values())
            if set(written.values()) <= set(of_scheme) or _is_scheme(
                set(written.values()), style, has_types
            ):
                parts = {
                    label: (_CANONICAL[written[label]], match["type"] or "_")
                    for label, match in found.items()
                }
                return EntityLabels(out | parts, written)
    if labels & set(OUTSIDE) and not any(map(_begins_or_goes_on, inside)):
        return EntityLabels(out | {label: ("I", label) for label in inside}, {})
    return None


def _is_scheme(letters, style, has_types):
    """Returns whether the letters fit one scheme."""
    if not any(letters <= set(of_scheme) for of_scheme in LETTERS.values()):
        return False
    # Types may start or end like one of the rarer prefix notations.
    is_usual = style is _STYLES[0] and (has_types or letters <= set("BIESLU"))
    return is_usual or bool(letters & set("BIM"))


def _begins_or_goes_on(label):
    """Returns whether a label has a B or I prefix, which a bare type hardly has."""
    found = (style.fullmatch(label) for style in _STYLES)
    return any(match and match["letter"] in "BIbi" for match in found)


def misfits(labels: Iterable[str]) -> list[str]:
    """Returns the labels that do not follow the notation of the other entity labels, sorted."""
    labels = set(labels)
    if read_labels(labels) is not None or not labels & set(OUTSIDE):
        return []
    inside = labels - {*OUTSIDE, *_NO_WORDS}
    matched = max(([x for x in inside if style.fullmatch(x)] for style in _STYLES), key=len)
    return sorted(inside - set(matched)) if matched else []


def means_none(label: str) -> bool:
    """Returns whether a label is what tools and tables write instead of `"O"`."""
    return label.lower() in _NONE


def outside_candidates(labels: Iterable[str]) -> list[str]:
    """Returns the labels that may mark words outside of entities, sorted."""
    labels = set(labels)
    if labels & set(OUTSIDE):
        return []
    names = labels - set(_NO_WORDS)
    others = {x for x in names if not any(style.fullmatch(x) for style in _STYLES)}
    others |= set(filter(means_none, names))
    rest = read_labels((names - others) | {"O"}) if names - others else None
    return sorted(others) if rest is not None and "B" in rest.letters else []


def outside_number(labels: list[str]) -> int:
    """Returns the number of the label for words outside of entities; 0 if there is none."""
    return next((number for number, label in enumerate(labels) if label in OUTSIDE), 0)
