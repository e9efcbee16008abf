"""Common names for columns of words, labels and sentences."""

import re
from collections.abc import Iterable, Sequence

from keras_bert_impl.utils.errors import InputError, listed

# Names in order of preference.
WORDS = ("tokens", "words", "token", "word", "tokenizedtext", "form", "char", "character")
TEXTS = ("text", "sentence", "content", "document", "body", "raw", "utterance")
TAGS = (
    "nertags", "nertag", "tags", "tag", "nerlabels", "labels", "label", "bio", "iob", "spans",
    "entities", "ents", "ner", "wordlabels", "annotations", "annotation", "entity", "postags", "pos", "upos",
)  # fmt: skip
SENTENCES = (
    "sentence#", "sentenceid", "sentid", "sentenceidx", "sentenceno", "sentencenumber", "sentence",
)  # fmt: skip


def plain(name: str) -> str:
    """Returns a name in lower case without spaces, hyphens and underscores."""
    return re.sub(r"[\s_-]", "", name).lower()


def is_header(cells: Sequence[str]) -> bool:
    """Returns whether a row is a header with names for a column of words and a column of labels."""
    names = {plain(cell) for cell in cells}
    has_words, has_tags = bool(names & {*WORDS, *TEXTS}), bool(names & {*TAGS})
    return len(names) == len(cells) > 1 and has_words and has_tags


def find_name(names: Iterable[str], known: Sequence[str]) -> str | None:
    """Returns the name that comes first in `known`; None if no name is in `known`."""
    by_plain = {plain(name): name for name in reversed(list(names))}
    return next((by_plain[each] for each in known if each in by_plain), None)


def chosen_name(
    names: Sequence[str], asked: str | None, known: Sequence[str], what: str, option: str
) -> str:
    if asked is not None and re.fullmatch("-[0-9]{1,3}", asked) and len(names) >= -int(asked):
        asked = names[int(asked)]  # the number may be negative
    if asked is not None and asked not in names and "." not in asked:
        raise InputError(f"no column named {asked!r}. Found: {listed(names)}")
    name = find_name(names, known) if asked is None else asked
    if name is None:
        raise InputError(
            f"no column of {what} was recognized among {listed(names)}. Name the column with "
            f"{option}=... (--{option} COLUMN), or, if there is no header, pass its 0-based "
            "number."
        )
    return name
