"""Tokenizes texts in NumPy, with a cache of the tokens of each word."""

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

_AT_ONCE = 1 << 18  # Bytes of text per batch. The arrays of a batch fit into the cache of the CPU.
_SHORT, _FEW = 15, 4  # maximum bytes and tokens of a word in a table
_MOST_WORDS = 1 << 18  # maximum words in a table
# maximum number and bytes of the cached words that are too long for a table
_MOST_OTHERS, _LONGEST = 1 << 15, 64
_SAMPLE, _LONG = 64, 32  # number of texts to sample, and maximum average bytes per word
_END = b"\xff"  # marks the start of a text; UTF-8 does not contain this byte
_PLAIN, _ALONE, _BEGINS = 1, 2, 3  # byte classes; all other bytes are 0

_MASKS = np.zeros((_SHORT + 2, 2), "<u8")  # word length -> mask for 16 bytes
for _length in range(_SHORT + 1):
    _MASKS[_length] = np.frombuffer((b"\xff" * _length).ljust(16, b"\0"), "<u8")


class WordCache:
    """Tokenizes texts. The tokens of each distinct word are cached.

    Args:
        tokenize_words: Function that converts distinct words without newlines to (ids of all words,
            number of tokens of each word): int32 [tokens], int64 [words].
    """

    def __init__(
        self,
        tokenize_words: Callable[[list[str]], tuple[np.ndarray, np.ndarray]],
        word_breaks: str,
    ) -> None:
        self._tokenize_words = tokenize_words
        self._left, self._right = _build_byte_tables(word_breaks)
        self._table, self._full_table = _Table(), _Table()
        self._others: dict[bytes, bytes] = {}  # longer words, with their int32 ids plus 1 as bytes
        # lock of the tables, because NumPy reads them without the GIL
        self._lock = threading.Lock()

    def __call__(self, texts: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Returns (ids int32 [tokens], number of ids of each text int64 [texts])."""
        parts = [self._tokenize_batch(batch) for batch in _split_into_batches(texts)]
        if not parts:
            return np.zeros(0, np.int32), np.zeros(0, np.int64)
        ids, counts = map(np.concatenate, zip(*parts))
        return ids, counts

    def ragged(self, texts: Sequence[bytes]) -> tf.RaggedTensor:
        """Tokenizes texts to an int32 `tf.RaggedTensor` [texts, (tokens)] on the CPU."""
        ids, counts = self(texts)
        splits = np.append(0, np.cumsum(counts))
        with tf.device("CPU:0"):
            return tf.RaggedTensor.from_row_splits(
                tf.constant(ids), tf.constant(splits), validate=False
            )

    def _tokenize_batch(self, texts):
        data, starts, lengths, first_words = self._cut(texts)
        keys = _make_keys(data, starts, lengths)
        tokens, missing = self._find(keys)  # ids plus 1; 0 is padding
        places = np.flatnonzero(tokens)
        tokens = tokens.ravel()[places]
        splits = np.searchsorted(places, _FEW * first_words)
        if len(missing):
            words = _slice_bytes(data, starts[missing], lengths[missing])
            new_tokens, counts = self._look_up(words, keys[missing])
            before = np.searchsorted(places, _FEW * missing)
            tokens = np.insert(tokens, np.repeat(before, counts), new_tokens)
            num_new = np.append(0, np.cumsum(counts))
            splits += num_new[np.searchsorted(missing, first_words)]
        return tokens - np.int32(1), np.diff(splits, append=len(tokens))

    def _cut(self, texts):
        """Splits texts into words.

        Returns:
            (data, starts, lengths, first_words): bytes of all texts with padding; int64 [words],
            the start and length of each word, without the space before it; int64 [texts], the index
            of each text's first word.
        """
        data = b"".join([_END, _END.join(texts), bytes(16)])
        end = len(data) - 16
        begins = np.frombuffer(bytearray(data.translate(self._right)), np.uint8)
        begins[1:] += np.frombuffer(data.translate(self._left), np.uint8)[:-1]
        places = np.flatnonzero(begins[:end] >= _BEGINS)
        first = np.frombuffer(data, np.uint8)[places]
        is_text = first == _END[0]
        starts = places + (is_text | (first == ord(" ")))
        lengths = np.append(places[1:], end) - starts
        return data, starts, lengths, np.flatnonzero(is_text)

    def _find(self, keys):
        """Returns (tokens, int32 [words, _FEW]; indices of the words that are not cached)."""
        with self._lock:
            rows = self._table.find(keys)
            tokens = self._table.tokens.take(rows, axis=0)
            missing = np.flatnonzero(rows == 0)
            rows = self._full_table.find(keys[missing])
            again = missing[rows > 0]
            if len(again):
                _, first = np.unique(rows[rows > 0], return_index=True)
                tokens[again] = self._full_table.tokens[rows[rows > 0]]
                self._add(keys[again[first]], tokens[again[first]])
                missing = missing[rows == 0]
        return tokens, missing

    def _add(self, keys, tokens):
        if self._table.size + len(keys) > _MOST_WORDS:
            self._table, self._full_table = _Table(), self._table
        self._table.add(keys[:_MOST_WORDS], tokens[:_MOST_WORDS])

    def _look_up(self, words, keys):
        """Returns (tokens, counts) of the words that the tables lack. Caches the words."""
        long_words = self._others
        entries = [*map(long_words.get, words)]
        if None in entries:
            new = {word: at for at, word in enumerate(words) if entries[at] is None}
            fresh = self._cache_words(list(new), keys[[*new.values()]])
            pairs = zip(words, entries)  # An empty entry is valid: the word has no tokens.
            entries = [fresh[word] if entry is None else entry for word, entry in pairs]
        counts = np.fromiter(map(len, entries), np.int64, len(entries)) // 4
        return np.frombuffer(b"".join(entries), np.int32), counts

    def _cache_words(self, words, keys):
        """Tokenizes and caches distinct words; returns {word: tokens}."""
        texts = [word.decode("utf-8", "replace").replace("\n", " ") for word in words]
        ids, counts = self._tokenize_words(texts)
        ids, ends = ids + np.int32(1), np.cumsum(counts)
        entries = dict(zip(words, _slice_bytes(ids.tobytes(), 4 * (ends - counts), 4 * counts)))
        fits = (keys[:, 1] >> np.uint64(56) <= _SHORT) & (counts <= _FEW)
        tokens = np.zeros((np.count_nonzero(fits), _FEW), np.int32)
        tokens[np.arange(_FEW) < counts[fits, np.newaxis]] = ids[np.repeat(fits, counts)]
        with self._lock:
            keys = keys[fits]
            is_new = self._table.find(keys) == 0  # Another thread may have added the word.
            self._add(keys[is_new], tokens[is_new])
        if len(self._others) + len(words) > _MOST_OTHERS:
            self._others = {}
        for at in np.flatnonzero(~fits):
            if len(words[at]) <= _LONGEST:
                self._others[words[at]] = entries[words[at]]
        return entries


def suits(texts: Sequence[bytes]) -> bool:
    """Returns whether a `WordCache` is likely to be faster than the graph for these texts."""
    sample = b" ".join(texts[:_SAMPLE])
    has_words = len(sample) <= _LONG * (1 + sample.count(b" "))
    return has_words and not any(_END in text for text in texts)


class _Table:
    """Hash table of short words and their tokens, with open addressing."""

    def __init__(self) -> None:
        self.size = 1
        self.tokens = np.zeros((_MOST_WORDS + 1, _FEW), np.int32)
        self._keys = np.zeros((_MOST_WORDS + 1, 2), np.uint64)
        # Insertion order uses the CPU cache better than hash order.
        self._rows = np.zeros(2 * _MOST_WORDS, np.int32)  # slot of a hash -> row; 0 if free

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Returns the row of each key, or 0 if the key is not in the table: int32 [keys]."""
        places = self._hash_keys(keys)
        rows = self._rows.take(places)
        pending = np.flatnonzero(self._are_of_others(rows, keys))
        while len(pending):
            places[pending] = self._move_on(places[pending])
            rows[pending] = self._rows[places[pending]]
            pending = pending[self._are_of_others(rows[pending], keys[pending])]
        return rows

    def _are_of_others(self, rows, keys):
        stored_keys = self._keys.take(rows, axis=0)
        return (rows > 0) & ((stored_keys[:, 0] != keys[:, 0]) | (stored_keys[:, 1] != keys[:, 1]))

    def add(self, keys: np.ndarray, tokens: np.ndarray) -> None:
        """Adds distinct keys, uint64 [keys, 2], that the table does not contain."""
        rows = np.arange(self.size, self.size + len(keys), dtype=np.int32)
        self._keys[rows], self.tokens[rows] = keys, tokens
        self.size += len(keys)
        places = self._hash_keys(keys)
        while len(rows):
            is_free = self._rows[places] == 0
            self._rows[places[is_free]] = rows[is_free]
            is_pending = self._rows[places] != rows
            rows, places = rows[is_pending], self._move_on(places[is_pending])

    def _hash_keys(self, keys):
        # In a product, a bit affects only itself and higher bits. With the shifts and the sum,
        # every byte affects the slot.
        hashes = keys[:, 0] * np.uint64(0x9E3779B97F4A7C15)
        hashes = (hashes ^ (hashes >> np.uint64(32))) + keys[:, 1] * np.uint64(0x165667B19E3779F9)
        hashes ^= hashes >> np.uint64(29)
        hashes *= np.uint64(0xC2B2AE3D27D4EB4F)
        return (hashes >> np.uint64(32)).view(np.int64) & (len(self._rows) - 1)

    def _move_on(self, places):
        return (places + 1) & (len(self._rows) - 1)


def _split_into_batches(texts) -> Iterator[Sequence[bytes]]:
    numbers = np.cumsum([len(text) for text in texts]) // _AT_ONCE
    bounds = [0, *(1 + np.flatnonzero(np.diff(numbers))).tolist(), len(texts)]
    for start, end in itertools.pairwise(bounds if texts else ()):
        yield texts[start:end]


def _build_byte_tables(word_breaks):
    """Returns the tables `left_kinds` and `right_kinds` for `bytes.translate`.

    They find the starts of words: a byte begins a word if `left_kinds` of the previous byte plus
    `right_kinds` of the byte is at least _BEGINS.
    """
    left_kinds = bytearray(256)
    for byte in range(33, 127):  # printable ASCII characters
        left_kinds[byte] = _ALONE if chr(byte) in word_breaks else _PLAIN
    right_kinds = left_kinds.copy()
    right_kinds[ord(" ")] = right_kinds[_END[0]] = _BEGINS
    return bytes(left_kinds), bytes(right_kinds)


def _make_keys(data, starts, lengths):
    """Returns the key of each word, uint64 [words, 2]: the first 15 bytes, then the length."""
    lengths = np.minimum(lengths, _SHORT + 1)
    # the 16 bytes starting at each position
    pieces = np.ndarray(len(data) - 15, np.complex128, data, strides=1)
    keys = pieces[starts].view("<u8").reshape(-1, 2)
    keys &= _MASKS.take(lengths, axis=0)
    keys[:, 1] |= lengths.astype(np.uint64) << np.uint64(56)
    return keys


def _slice_bytes(data, starts, lengths):
    return [data[start : start + n] for start, n in zip(starts.tolist(), lengths.tolist())]
