"""What labels of words say of entities, in whatever form people write them."""

import dataclasses
import functools
import re

OUTSIDE = ("O", "o")
# Of published files and models, for pieces and special tokens; never of an entity.
_NO_WORDS = ("X", "[CLS]", "[SEP]", "[PAD]", "<PAD>", "<pad>")
# Scheme -> its letters for the begin, the inside and the end of an entity, and for one of one word.
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
        parts: dict of label -> (prefix, type). The prefix is `"B"`, `"I"`, `"E"`, `"S"`, or `"O"`
            for no entity, whatever the letters of the set are. The type is `"_"` where labels are
            prefixes alone.
        written: dict of label -> its prefix as it is written, in upper case; without labels that
            mark no entity, and empty where labels are types.
    """

    parts: dict
    written: dict

    @property
    def letters(self):
        """set of str, the prefixes as they are written."""
        return set(self.written.values())


def read_labels(labels):
    """Reads a set of labels as of entities.

    Read are, with `"O"` or `"o"` for no entity: prefixes before or after a type, with a hyphen or
    an underscore, in upper or lower case, of IOB, BIOES, BILOU, BMES and BMEWO; prefixes alone; and
    types alone beside an `"O"`, of which equal ones in a row are one entity. `"X"`, `"[CLS]"`,
    `"[SEP]"` and `"[PAD]"` among them mark no entity. All of a set are written in one way.

    Args:
        labels: iterable of str, all that may occur.

    Returns:
        `EntityLabels`; None where they mark no entities, as parts of speech.

    Example:
        read_labels(["O", "L-PER"]).parts  # {"O": ("O", ""), "L-PER": ("E", "PER")}
    """
    return _read(frozenset(labels))


@functools.lru_cache(maxsize=256)
def _read(labels):
    out = {label: ("O", "") for label in labels & {*OUTSIDE, *_NO_WORDS}}
    inside = labels - set(out)
    if not inside:
        return None
    for style in _STYLES:
        found = {label: style.fullmatch(label) for label in inside}
        if all(found.values()):
            written = {label: match["letter"].upper() for label, match in found.items()}
            if _is_scheme(set(written.values()), style):
                parts = {
                    label: (_CANONICAL[written[label]], match["type"] or "_")
                    for label, match in found.items()
                }
                return EntityLabels(out | parts, written)
    if labels & set(OUTSIDE) and not any(map(_begins_or_goes_on, inside)):
        return EntityLabels(out | {label: ("I", label) for label in inside}, {})
    return None


def _is_scheme(letters, style):
    """bool. Whether the letters are of one scheme."""
    if not any(letters <= set(of_scheme) for of_scheme in LETTERS.values()):
        return False
    # Types may begin or end like the rarer ways to write prefixes.
    return style is _STYLES[0] and letters <= set("BIESLU") or bool(letters & set("BIM"))


def _begins_or_goes_on(label):
    """bool. Whether it is written with a B or an I, which hardly a type is."""
    found = (style.fullmatch(label) for style in _STYLES)
    return any(match and match["letter"] in "BIbi" for match in found)


def misfits(labels):
    """The labels that are written in another way than those that mark entities beside an `"O"`.

    Args:
        labels: iterable of str.

    Returns:
        list of str, sorted; empty where all or none mark entities.
    """
    labels = set(labels)
    if read_labels(labels) is not None or not labels & set(OUTSIDE):
        return []
    inside = labels - {*OUTSIDE, *_NO_WORDS}
    matched = max(([x for x in inside if style.fullmatch(x)] for style in _STYLES), key=len)
    return sorted(inside - set(matched)) if matched else []


def outside_number(labels):
    """int. The number of the label of words that are of no entity; 0 where there is none."""
    return next((number for number, label in enumerate(labels) if label in OUTSIDE), 0)
