"""BERT's WordPiece tokenizer in the TensorFlow graph."""

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.added_tokens import found_tokens
from keras_bert_impl.tokenizers.files import in_order
from keras_bert_impl.tokenizers.graphs import core_operations_only
from keras_bert_impl.tokenizers.inputs import SegmentId, as_strings
from keras_bert_impl.tokenizers.tokenizer import Tokenizer
from keras_bert_impl.tokenizers.wordpiece import files, matching
from keras_bert_impl.tokenizers.wordpiece.words import (
    SPECIAL,
    SPECIAL_TOKENS,
    TEXT_END,
    WORD_BREAKS,
    Translation,
    WordSplitter,
    unreachable_word,
    word_of_token,
)
from keras_bert_impl.utils.first_guesses import known_arguments
from keras_bert_impl.utils.settings import check

_CLEANED = {" .": ".", " ?": "?", " !": "!", " ,": ",", " ' ": "'", " n't": "n't", " 'm": "'m"}
_CLEANED |= {" do not": " don't", " 's": "'s", " 've": "'ve", " 're": "'re"}


@keras.saving.register_keras_serializable("keras_bert_impl")
class WordPieceTokenizer(Tokenizer):
    """BERT's WordPiece tokenizer, with the same ids and offsets as `tokenizers`.

    The tokenizer works eagerly, in `tf.data`, in `tf.function` and in a SavedModel. A word is split
    into the longest matching tokens from left to right. A word that cannot be split, or has more
    than 100 characters, becomes [UNK]. Special tokens, such as [MASK], are also recognized in a
    text. Invalid UTF-8 is dropped. Source: Devlin et al. 2018 (arXiv:1810.04805), section 3. See
    docs/decisions/tokenizers.md for details.

    Args:
        vocabulary: The tokens in id order, or the path of a file with one token per line. [PAD],
            [UNK], [CLS], [SEP] and [MASK] are required. For a duplicate token, the last id is used.
        strip_accents: Whether accents are removed. Default: same as `lowercase`.
        split_on_cjk: Whether each Chinese character is a separate word.
        added_tokens: str, `AddedToken` or dicts of its fields: tokens matched as literal strings.
            Tokens missing from the vocabulary get the next ids. May also contain special tokens, to
            set how these are matched (see `AddedToken`).
        segment_of_second: The segment id of the second text of a pair, 0 or 1.

    Raises:
        InputError: The vocabulary is empty or lacks a special token.

    Example:
        tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"])
        tokenizer.tokenize(["AB a"])  # [[5, 6, 5]]
    """

    kind = "wordpiece"
    _read, _write = staticmethod(files.read), staticmethod(files.write)
    word_breaks = WORD_BREAKS
    later_settings = {"strip_accents": None, "split_on_cjk": True, "added_tokens": []}
    special_tokens = SPECIAL_TOKENS

    @known_arguments("WordPieceTokenizer")
    def __init__(
        self,
        vocabulary: Sequence[str] | dict[str, int] | str | Path,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_on_cjk: bool = True,
        added_tokens: Iterable[Any] = (),
        segment_of_second: int = 1,
    ) -> None:
        if isinstance(vocabulary, (str, Path)):
            vocabulary = files.read_vocabulary(vocabulary)
        vocabulary = in_order(vocabulary)
        files.check_vocabulary(vocabulary)
        self.lowercase = check("lowercase", lowercase, bool)
        self.strip_accents = check("strip_accents", strip_accents, bool | None)
        self.split_on_cjk = check("split_on_cjk", split_on_cjk, bool)
        self.segment_of_second = check("segment_of_second", segment_of_second, SegmentId)
        self._set_vocabulary(vocabulary, added_tokens)
        self._num_words = len(vocabulary)
        if self.added_tokens:  # Added tokens may contain spaces and punctuation.
            self.word_breaks = ""
        tokens = found_tokens(SPECIAL, self.added_tokens)
        self._split = WordSplitter(self.lowercase, self.strip_accents, self.split_on_cjk, tokens)
        self._translation = Translation(self._split.table)
        self._written = _list_reachable(
            self.vocabulary, self._num_words, [token.content for token in tokens]
        )
        self._matcher = matching.default(*self._written)

    def get_config(self) -> dict[str, Any]:
        # Words are never split into tokens that are only added tokens.
        return super().get_config() | {"vocabulary": self.vocabulary[: self._num_words]}

    def _is_word_start(self, token):
        return not token.startswith("##")

    def _join(self, tokens):
        # As in `decoders.WordPiece` of `tokenizers`, each token is cleaned up separately.
        tokens = [self._split.written.get(token, token) for token in tokens]
        return "".join(map(_clean, tokens[:1] + [_join_token(token) for token in tokens[1:]]))

    def words(self, texts: tf.Tensor) -> tf.Tensor:
        return self._split(texts).ordinary()

    def word_ids(self, words: tf.Tensor) -> tf.RaggedTensor:
        return self._matcher.ids_of(words)

    def _split_into_subwords(self, words):
        matcher = self._core_matcher if core_operations_only() else self._matcher
        return matcher(words)

    @functools.cached_property
    def _core_matcher(self):
        return matching.CoreMatcher(*self._written)

    def tokenize_words(self, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Converts words to token ids. Faster than `tokenize` if there are many distinct words.

        Args:
            words: texts without newlines.

        Returns:
            (ids, counts): int32 [tokens], the ids of all words; int64 [words], the number of tokens
            per word.
        """
        parts = None if self.added_tokens else self._translation(words)
        if parts is None:
            ragged = self._tokenize(as_strings(words))
            return ragged.flat_values.numpy(), ragged.row_lengths().numpy()
        tokens = self.word_ids(tf.constant(parts, tf.string))
        is_end = np.fromiter(map(TEXT_END.__eq__, parts), bool, len(parts))
        ends = tokens.row_splits.numpy()[:-1][is_end]  # Each text end becomes [UNK].
        lengths = np.diff(ends, prepend=-1) - 1
        return np.delete(tokens.flat_values.numpy(), ends), lengths


def _list_reachable(vocabulary, num_words, tokens):
    """Returns the vocabulary for the matcher, and the token id of each entry.

    Special, empty and duplicate tokens, and tokens that exist only as added tokens, must not become
    parts of ordinary words, and tokens longer than any word cannot. In the result, strings that never
    occur in a text replace these tokens.
    Two entries for each added token follow: the word that replaces the token in texts, and the
    first character of this word.
    """
    last = {token: position for position, token in enumerate(vocabulary) if token}
    written = [
        token
        if position < num_words and last.get(token) == position and len(token) <= files.LONGEST
        else unreachable_word(position)
        for position, token in enumerate(vocabulary)
    ]
    for number, token in enumerate(tokens[: len(SPECIAL_TOKENS)]):
        written[last[token]] = word_of_token(number)
    ids = [*range(len(vocabulary))]
    for number, token in [*enumerate(tokens)][len(SPECIAL_TOKENS) :]:
        word = word_of_token(number)
        written += [word, word[0]]
        ids += 2 * [last[token]]
    return written, np.array(ids, np.int32)


def _join_token(token):
    return token[2:] if token.startswith("##") else f" {token}"


def _clean(token):
    for before, after in _CLEANED.items():
        token = token.replace(before, after)
    return token
