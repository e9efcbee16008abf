"""BERT's basic tokenization with `str.translate`, without a graph, for the words of a corpus."""

import re

from keras_bert_impl.tokenizers.unicode.table import (
    BREAK_AFTER,
    BREAK_BEFORE,
    DROPPED,
    UnicodeTable,
)
from keras_bert_impl.tokenizers.wordpiece.words import (
    MAX_CHARACTERS,
    SPECIAL_TOKENS,
    TEXT_END,
    UNKNOWN_WORD,
)

_SPECIAL_TOKEN = re.compile("|".join(map(re.escape, SPECIAL_TOKENS)))


class Translation(dict):
    """`WordSplitter` as a translation table, for texts that need no look beyond one character."""

    def __init__(self, table: UnicodeTable) -> None:
        super().__init__({ord("\n"): f" {TEXT_END} "})
        self._table = table
        # Marks found so far that survive normalization; appending is safe in several threads.
        self._marks: list[str] = []

    def __call__(self, texts: list[str]) -> list[str] | None:
        """Splits texts without newlines into words."""
        text = "\n".join([*texts, ""])
        if _SPECIAL_TOKEN.search(text):
            return None
        text = text.translate(self)
        if self._marks and re.search(f"[{''.join(self._marks)}]{{2}}", text):
            return None
        words = text.split()
        if max(map(len, words), default=0) > MAX_CHARACTERS:
            words = [word if len(word) <= MAX_CHARACTERS else UNKNOWN_WORD for word in words]
        return words

    def __missing__(self, code_point):
        text = ""
        for character, flags, rank in self._table.characters(code_point):
            if rank and not flags & DROPPED:
                self._marks.append(chr(character))
            text += " " if flags & BREAK_BEFORE else ""
            text += "" if flags & DROPPED else chr(character)
            text += " " if flags & BREAK_AFTER else ""
        self[code_point] = text
        return text
