"""Token ids of many texts, tokenizing each distinct word once."""

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_bert_impl.pretraining.examples.row_layout import concatenated_spans
from keras_bert_impl.tokenizers import Tokenizer

_AT_ONCE = 1 << 18  # characters
_PLAIN, _ALONE = 1, 2  # kinds of bytes; all others are 0
_WHITE_SPACE = r"[\s\v\x1c-\x1f\x{85}\p{Z}]"  # what `str.split` splits at


class WordTokens:
    """Tokenizes texts, each distinct word only once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._kinds = _kinds_of_bytes(tokenizer.word_breaks)
        self._words = pa.array([], pa.large_string())  # distinct words of the last texts
        self._parts = np.zeros(0, np.int64)  # per word: parts separated by whitespace
        self._lengths = np.zeros(0, np.int64)  # per word, in tokens
        self._ids = np.zeros(0, np.int32)  # of all words, concatenated

    def __call__(self, paragraphs: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray, int]:
        """Tokenizes texts without line breaks.

        Returns:
            (ids, lengths, num_words): int32 [tokens], the ids of all texts; int64 [texts], the
            number of tokens of each; int, the number of words separated by any whitespace.
        """
        if not self.tokenizer.word_breaks:
            texts = [
                f" {text}" if at else text for own in paragraphs for at, text in enumerate(own)
            ]
            num_words = sum(len(text.split()) for text in texts)
            return *_tokenized(texts, self._tokenize), num_words
        words, first_words, num_joined = self._cut([*itertools.chain.from_iterable(paragraphs)])
        words = words.dictionary_encode()
        self._learn(words.dictionary)
        places = words.indices.to_numpy().astype(np.intp)
        lengths = self._lengths[places]
        starts = (np.cumsum(self._lengths) - self._lengths)[places]
        return (
            concatenated_spans(self._ids, starts, lengths),
            np.add.reduceat(lengths, first_words),
            int(self._parts[places].sum() - num_joined),
        )

    def _tokenize(self, texts):
        ragged = self.tokenizer.tokenize(texts)
        return ragged.flat_values.numpy(), ragged.row_lengths().numpy()

    def _cut(self, texts):
        """Cuts texts before spaces, and beside word breaks where both sides are ASCII.

        Returns:
            (words, first_words, num_joined): string array of words, each with its space; int64
            [texts], the index of the first word of each text; int, the number of words without a
            space, which continue a word that was cut.
        """
        data = b"\n".join([b"", *map(str.encode, texts)])
        characters = np.frombuffer(data, np.uint8)
        begins = (characters == ord(" ")) | (characters == ord("\n"))
        num_spaces = np.count_nonzero(begins)
        kinds = np.frombuffer(data.translate(self._kinds), np.uint8)
        begins[1:] |= kinds[1:] * kinds[:-1] >= _ALONE
        starts = np.flatnonzero(begins)
        first_words = np.flatnonzero(characters[starts] == ord("\n"))
        # An Arrow array also stores its words contiguously, so that nothing is copied.
        buffers = map(pa.py_buffer, (np.append(starts, len(data)), data.replace(b"\n", b" ")))
        words = pa.Array.from_buffers(pa.large_string(), len(starts), [None, *buffers])
        return words, first_words, len(starts) - num_spaces

    def _learn(self, words):
        """Caches the entries of these distinct words and drops those of earlier words."""
        places = pc.index_in(words, self._words).fill_null(-1).to_numpy().astype(np.int64)
        is_new = places < 0
        places[is_new] = len(self._words) + np.arange(np.count_nonzero(is_new))
        new = pc.ascii_ltrim(words.filter(pa.array(is_new)), " ")
        ids, lengths = _tokenized(new.to_pylist(), self.tokenizer.tokenize_words)
        ids, lengths = np.append(self._ids, ids), np.append(self._lengths, lengths)
        starts = (np.cumsum(lengths) - lengths)[places]
        self._words = words
        self._parts = np.append(self._parts, _number_of_parts(new))[places]
        self._lengths = lengths[places]
        self._ids = concatenated_spans(ids, starts, self._lengths)


def _tokenized(texts, tokenize):
    """Returns (ids of all texts int32 [tokens], number of ids of each text int64 [texts])."""
    ids, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    batch = np.cumsum([len(text) for text in texts]) // _AT_ONCE
    bounds = [0, *(1 + np.flatnonzero(np.diff(batch))), len(texts)]
    for start, end in itertools.pairwise(bounds if texts else ()):
        some_ids, some_lengths = tokenize(texts[start:end])
        ids.append(some_ids)
        lengths.append(some_lengths)
    return np.concatenate(ids), np.concatenate(lengths)


def _kinds_of_bytes(word_breaks):
    """Returns a table (bytes [256]) of the kind of each byte, for `bytes.translate`."""
    kinds = bytearray(256)
    for byte in range(33, 127):  # ASCII without whitespace and control characters
        kinds[byte] = _ALONE if chr(byte) in word_breaks else _PLAIN
    return bytes(kinds)


def _number_of_parts(words):
    """Returns the number of whitespace-separated parts of each word (int64 array)."""
    parts = (pc.binary_length(words).to_numpy() > 0).astype(np.int64)
    for place in np.flatnonzero(pc.match_substring_regex(words, _WHITE_SPACE).to_numpy(False)):
        parts[place] = len(words[place].as_py().split())
    return parts
