"""Words of texts and their alignment with subwords."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keras_bert_impl.data.tables.user_input import not_a_text, values
from keras_bert_impl.utils.characters import word_pattern
from keras_bert_impl.utils.errors import InputError

if TYPE_CHECKING:
    from keras_bert_impl.tokenizers import Tokenizer


_COMMON_WORDS = 5_000  # as in Lester et al. 2021, section 3.2


class Words(NamedTuple):
    """A text and its words.

    Attributes:
        starts, ends: int64 [words]. Character offsets of each word in the text.
    """

    text: str
    starts: np.ndarray
    ends: np.ndarray


def find_words(text: str) -> Words:
    """Splits a text at white space; punctuation characters and ideographs are words.

    Source: the basic tokenizer in BERT's published code.
    """
    spans = [match.span() for match in word_pattern().finditer(text)]
    return Words(text, *np.array(spans, "int64").reshape(-1, 2).T)


def single_token_words(tokenizer: Tokenizer) -> dict[int, str]:
    """Returns {token id: word} for all words that are a single token and contain a letter."""
    written = {}
    for number, token in enumerate(tokenizer.vocabulary):
        word = token.lstrip("Ġ▁").removesuffix("</w>")  # markers of word starts and ends
        if any(map(str.isalpha, word)) and find_words(word).ends[0] == len(word):
            written[number] = word
    # Tokens are left out if the tokenizer splits their text.
    rows = tokenizer.tokenize([f" {word}" for word in written.values()]).to_list()
    return {n: word for (n, word), row in zip(written.items(), rows) if row == [n]}


def common_words(tokenizer: Tokenizer) -> list[int]:
    words = [n for n, word in single_token_words(tokenizer).items() if len(word) > 1]
    return words[:_COMMON_WORDS]  # vocabularies list common words first


def join_words(words: list[str]) -> Words:
    lengths = np.array([len(word) for word in words], "int64")
    ends = np.cumsum(lengths + 1) - 1
    return Words(" ".join(words), ends - lengths, ends)


def as_words(texts: Any) -> list[Words]:
    if isinstance(texts, (str, bytes)):
        texts = [texts]
    if isinstance(texts, Words):
        raise InputError(f"expected a list. Received: {texts!r:.60}")
    if not isinstance(texts, tuple):
        texts = values(texts)
    return [_convert_to_words(text, position) for position, text in enumerate(texts)]


def _convert_to_words(text, position):
    if isinstance(text, Words):
        return text
    text = _decode_text(text)
    if isinstance(text, str):
        return find_words(text)
    if not isinstance(text, (list, tuple, np.ndarray)):
        raise InputError(f"text {position} {not_a_text(text)}")
    words = [_decode_text(word) for word in text]
    for word in words:
        if not isinstance(word, str):
            raise InputError(f"text {position}: a word {not_a_text(word)}")
    return join_words(words)


def _decode_text(text):
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


@dataclasses.dataclass(frozen=True)
class TokenAlignment:
    """Alignment of tokens with words, over all texts.

    Attributes:
        words: int64 [tokens]. Index of the word that contains the token; -1 outside of words.
        firsts: int64 [words]. Index of the first token of each word; -1 if no token contains the
            word. If a token contains several words, these words have the same first token.
        owns: bool [words]. Whether the index of the word occurs in `words`.
        word_splits: int64 [texts + 1]. The words of text i start at `word_splits[i]`.
    """

    words: np.ndarray
    firsts: np.ndarray
    owns: np.ndarray
    word_splits: np.ndarray

    @property
    def is_first(self) -> np.ndarray:
        """bool [tokens]. Whether the token is the first of its word."""
        return (self.words >= 0) & (self.words != np.append(-1, self.words[:-1]))


def align_tokens(sentences: list[Words], tokenized: Any) -> TokenAlignment:
    # Texts are concatenated, so that one search covers all of them.
    bases = _compute_splits([len(sentence.text) + 1 for sentence in sentences])
    word_splits = _compute_splits([len(sentence.starts) for sentence in sentences])
    shifts = np.repeat(bases[:-1], np.diff(word_splits))
    nothing = np.zeros(0, "int64")
    starts, ends = (
        np.concatenate([nothing, *(sentence[i] for sentence in sentences)]) + shifts for i in (1, 2)
    )
    shifts = np.repeat(bases[:-1], np.diff(tokenized.text_splits))
    token_starts, token_ends = tokenized.token_starts + shifts, tokenized.token_ends + shifts

    last = token_ends - 1  # [tokens], position of the last character
    words = np.searchsorted(starts, last, side="right") - 1
    within = (words >= 0) & (token_ends > token_starts)
    # Added tokens may contain the white space after the word.
    within[within] = token_starts[within] < ends[words[within]]
    words = np.where(within, words, -1)

    firsts = np.full(len(starts), -1, "int64")
    tokens = np.flatnonzero(within)[::-1]
    firsts[words[tokens]] = tokens  # tokens are in reverse order: the first one is kept
    owns = firsts >= 0
    # Words without a separate token use the token that contains their last character.
    holders = np.searchsorted(token_ends, ends - 1, side="right")
    has_holder = ~owns & (ends > starts) & (holders < len(token_ends))
    has_holder[has_holder] = token_starts[holders[has_holder]] < ends[has_holder]
    return TokenAlignment(words, np.where(has_holder, holders, firsts), owns, word_splits)


def _compute_splits(lengths):
    return np.cumsum([0, *lengths], dtype="int64")
