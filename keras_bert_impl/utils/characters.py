"""Classes of characters: white space, characters inside words, and single-character words."""

import functools
import re
import unicodedata

import numpy as np

SPACE, INSIDE, ALONE = range(3)  # classes of characters

# Ranges of ideographs, which BERT splits into single-character words.
_IDEOGRAPHS = (
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf"
    "\U0002f800-\U0002fa1f"
)


@functools.cache
def word_pattern():
    """Returns the regular expression of a word; see `tasks.inputs.words.find_words`."""
    return re.compile(f"[{_list_lone_characters()}]|[^\\s{_list_lone_characters()}]+")


@functools.cache
def character_kinds():
    """Returns an int32 array with `SPACE`, `INSIDE` or `ALONE` for each code point."""
    every = "".join(map(chr, range(0x110000)))
    kinds = np.full(len(every), INSIDE, "int32")
    for kind, pattern in ((SPACE, r"\s"), (ALONE, f"[{_list_lone_characters()}]")):
        kinds[[ord(character) for character in re.findall(pattern, every)]] = kind
    return kinds


@functools.cache
def _list_lone_characters():
    """Returns the characters that are words by themselves, escaped for a regex `[...]`."""
    ascii_ = [chr(code) for code in range(33, 127) if not chr(code).isalnum()]
    non_ascii = [chr(code) for code in range(128, 0x110000)]
    marks = ascii_ + [c for c in non_ascii if unicodedata.category(c).startswith("P")]
    return re.escape("".join(marks)) + _IDEOGRAPHS
