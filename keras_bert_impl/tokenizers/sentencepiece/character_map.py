"""SentencePiece's normalization in the graph: replaces characters and tracks their origins.

A model has its own character map, a compiled trie. It is applied as in the `tokenizers` library: if
a character and its marks have less than six bytes in total, they are looked up as a whole, and the
result for their beginning replaces all of them; otherwise each character is looked up separately.
"""

import base64
import binascii
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tokenizers.unicode import utf8
from keras_bert_impl.tokenizers.unicode.places import after, before, chosen, numbers_of
from keras_bert_impl.tokenizers.unicode.table import (
    CODE_POINTS,
    CONTROL,
    JOINS,
    PREPENDS,
    CodePointTable,
    grapheme_table,
    in_blocks,
)

_SEQUENCE = 1 << 22  # from here on, rows of sequences; smaller entries are added to the character
_MAX_BYTES = 5  # of a character with its marks, beyond which each is looked up separately
_MAX_NODES = 1 << 15  # of a trie to this depth; that of nmt_nfkc has 8,568


def read_map(encoded: str) -> dict[str, str]:
    """Reads the replacements of characters and short sequences from a model's compiled map."""
    try:
        data = base64.b64decode(encoded, validate=True)
        return _keys_of(data) if data else {}
    except (binascii.Error, IndexError, TypeError, ValueError) as error:
        message = f"the character map (precompiled_charsmap) is damaged: {error}."
        raise InputError(message) from error


def _keys_of(data):
    """Traverses a double-array trie, all nodes of a depth at once."""
    size = int.from_bytes(data[:4], "little")
    if size % 4 or size > len(data) - 4:
        raise ValueError(f"a trie of {size} bytes in {len(data)}")
    units, texts = np.frombuffer(data[4 : 4 + size], "<u4").astype(np.int64), data[4 + size :]
    labels = units & 0x800000FF
    offsets = (units >> 10) << ((units & 0x200) >> 6)
    places, prefixes, found, visited = offsets[:1], [b""], {}, 0
    for _ in range(_MAX_BYTES):  # nothing longer is ever looked up
        children = places[:, np.newaxis] ^ np.arange(1, 256)  # [nodes, 255]
        exists = children < len(units)
        exists &= labels[np.where(exists, children, 0)] == np.arange(1, 256)
        rows, columns = np.nonzero(exists)
        children = children[rows, columns]
        prefixes = [prefixes[row] + bytes([byte + 1]) for row, byte in zip(rows, columns)]
        visited += len(children)
        if visited > _MAX_NODES:
            raise ValueError(f"its trie has more than {_MAX_NODES} nodes")
        places = children ^ offsets[children]
        for number in np.nonzero(units[children] & 0x100)[0]:
            start = units[places[number]] & 0x7FFFFFFF
            text = texts[start : texts.index(b"\0", start)]
            found[prefixes[number].decode()] = text.decode()
    return found


class CharacterTable:
    """Replacements of single characters, independent of context."""

    def __init__(self, changes: dict[str, str], others: Sequence[str] = ()) -> None:
        entries = np.zeros(CODE_POINTS, np.int32)
        rows: list[str] = []
        for character, text in changes.items():
            if len(text) == 1:
                entries[ord(character)] = ord(text) - ord(character)
            else:
                entries[ord(character)] = _SEQUENCE + len(rows)
                rows.append(text)
        self._table = CodePointTable(*in_blocks(entries))
        self.first_other = len(rows)
        rows.extend(others)
        self._codes = np.array([ord(c) for text in rows for c in text] + [0], np.int32)
        self._splits = np.cumsum([0, *map(len, rows), 0]).astype(np.int32)

    def replace(self, characters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Replaces int32 characters [n] by others; also returns the row for `put_in`, or -1."""
        entries = self._table.lookup(characters)
        is_sequence = entries >= _SEQUENCE
        row = tf.where(is_sequence, entries - _SEQUENCE, -1)
        return tf.where(is_sequence, characters, characters + entries), row

    def put_in(
        self,
        characters: tf.Tensor,
        row: tf.Tensor,
        covered: tf.Tensor | None = None,
        count: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Replaces characters by rows.

        Args:
            characters: int32 [n].
            row: int32 [n], the replacement of each character; -1 keeps it.
            covered: bool [n], characters to delete because another one's row replaces them too.
            count: int32 [n], the number of characters that each row replaces. Default: 1 each.

        Returns:
            (characters, source): int32 [m], and the index of each one's original character.
        """
        covered = tf.zeros_like(row, tf.bool) if covered is None else covered
        count = tf.ones_like(row) if count is None else count

        def put():
            start = tf.gather(self._splits, tf.maximum(row, 0))  # [n]
            size = tf.gather(self._splits, tf.maximum(row, 0) + 1) - start
            size = tf.where(covered, 0, tf.where(row >= 0, size, 1))
            source = numbers_of(size)  # [m]
            within = tf.range(tf.size(source)) - tf.gather(tf.cumsum(size, exclusive=True), source)
            is_new = tf.gather(row, source) >= 0
            new = tf.gather(self._codes, tf.where(is_new, tf.gather(start, source) + within, 0))
            new = tf.where(is_new, new, tf.gather(characters, source))
            # `tokenizers` spreads the new characters over those that they replace.
            return new, source + tf.minimum(within, tf.gather(count, source) - 1)

        unchanged = tf.reduce_all(row < 0) & ~tf.reduce_any(covered)
        return tf.cond(unchanged, lambda: (characters, tf.range(tf.size(row))), put)


class CharacterMap:
    """A model's normalization by the replacements from `read_map`."""

    def __init__(self, changes: dict[str, str]) -> None:
        single = {key: text for key, text in changes.items() if len(key) == 1}
        pairs = {
            key: text
            for key, text in changes.items()
            if len(key) == 2 and key[0] not in single and len(key.encode()) <= _MAX_BYTES
        }
        keys = np.array([ord(k[0]) * CODE_POINTS + ord(k[1]) for k in pairs], np.int64)
        order = np.argsort(keys)
        # A sentinel that no pair equals, so that a search never ends past the last entry.
        self._pairs = np.append(keys[order], np.iinfo(np.int64).max)
        self._table = CharacterTable(single, list(pairs.values()))
        self._pair_rows = np.append(order + self._table.first_other, -1).astype(np.int32)

    def __call__(self, characters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Normalizes texts.

        Args:
            characters: int32 [n]; codes beyond Unicode separate texts.

        Returns:
            (characters, source): int32 [m], and the index of each one's original character, as in
            `tokenizers`.
        """
        single, row = self._table.replace(characters)
        kind = grapheme_table().lookup(characters)
        previous = before(kind, CONTROL)
        joins = (kind == JOINS) & (previous != CONTROL)
        begins = ~(joins | ((previous == PREPENDS) & (kind != CONTROL)))

        def with_marks():
            changed = (single != characters) | (row >= 0)
            return self._look_up_marked(characters, row, changed, begins)

        def without():
            return row, tf.zeros_like(begins), tf.ones_like(row)

        row, covered, count = tf.cond(tf.reduce_all(begins), without, with_marks)
        single, source = self._table.put_in(single, row, covered, count)
        return single, _places_of_tokenizers(source, characters)

    def _look_up_marked(self, characters, row, changed, begins):
        """Lets the result for the beginning of a short grapheme replace all of it."""
        size = utf8.byte_lengths(characters)
        whole = tf.cumsum(tf.cast(begins, tf.int32)) - 1  # [n], index of the grapheme
        count = tf.gather(tf.math.segment_sum(tf.ones_like(size), whole), whole)
        short = tf.gather(tf.math.segment_sum(size, whole), whole) <= _MAX_BYTES
        following = tf.cast(after(characters, 0), tf.int64)
        keys = tf.cast(characters, tf.int64) * CODE_POINTS + following
        number = tf.searchsorted(self._pairs, keys)
        is_pair = tf.equal(tf.gather(self._pairs, number), keys) & ~changed
        is_short = begins & short & (count > 1)
        row = tf.where(is_short & is_pair, tf.gather(self._pair_rows, number), row)
        stands_for_all = is_short & (changed | is_pair)
        first = chosen(stands_for_all, begins)  # [graphemes]
        covered = tf.gather(first, whole) & ~begins
        return row, covered, tf.where(stands_for_all, count, 1)


def _places_of_tokenizers(source, characters):
    """Corrects origins near deleted characters, which `tokenizers` counts differently."""
    # The last of several replacements takes the position of a character deleted after it.
    is_repeated = source == before(source, -1)
    source += tf.cast(is_repeated & (after(source, 0) > source + 1), tf.int32)
    # `tokenizers` reports positions too low by the number of characters deleted at the start.
    is_edge = characters >= CODE_POINTS
    part = tf.cumsum(tf.cast(is_edge, tf.int32), exclusive=True)  # [n]
    start = tf.math.segment_min(tf.range(tf.size(part)), part)  # [parts]
    vanished = tf.math.segment_min(source, tf.gather(part, source)) - start
    shift = tf.gather(vanished, tf.gather(part, source))
    return source - tf.where(tf.gather(is_edge, source), 0, shift)
