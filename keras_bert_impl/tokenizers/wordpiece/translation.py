"""BERT's basic tokenization by `str.translate`: for a whole corpus of words, without a graph."""

import re

from keras_bert_impl.tokenizers.unicode.table import BREAK_AFTER, BREAK_BEFORE, DROPPED
from keras_bert_impl.tokenizers.wordpiece.words import (
    MAX_CHARACTERS,
    SPECIAL_TOKENS,
    TEXT_END,
    UNKNOWN_WORD,
)

_SPECIAL_TOKEN = re.compile("|".join(map(re.escape, SPECIAL_TOKENS)))


class Translation(dict):
    """What `WordSplitter` makes of texts, but for those that need a look at more than a character.

    A dict of code point to what stands in its place; a code point is looked up in the table when it
    is first met.

    Args:
        table: `UnicodeTable`.

    Example:
        Translation(UnicodeTable(True))(["Déjà vu!", "a"])
        # ["deja", "vu", "!", TEXT_END, "a", TEXT_END]
    """

    def __init__(self, table):
        super().__init__({ord("\n"): f" {TEXT_END} "})
        self._table = table
        self._marks = ""  # that were met and survive normalization

    def __call__(self, texts):
        """Splits texts into words.

        Args:
            texts: list of str, without line ends.

        Returns:
            list of str: the words of all texts, `TEXT_END` behind those of each; None where the
            texts hold special tokens or marks that may have to be put into canonical order.
        """
        text = "\n".join([*texts, ""])
        if _SPECIAL_TOKEN.search(text):
            return None
        text = text.translate(self)
        if self._marks and re.search(f"[{self._marks}]{{2}}", text):
            return None
        words = text.split()
        if max(map(len, words), default=0) > MAX_CHARACTERS:
            words = [word if len(word) <= MAX_CHARACTERS else UNKNOWN_WORD for word in words]
        return words

    def __missing__(self, code_point):
        text = ""
        for character, flags, rank in self._table.characters(code_point):
            if rank and not flags & DROPPED:
                self._marks += chr(character)
            text += " " if flags & BREAK_BEFORE else ""
            text += "" if flags & DROPPED else chr(character)
            text += " " if flags & BREAK_AFTER else ""
        self[code_point] = text
        return text
