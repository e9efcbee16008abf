"""Lookup tables in the graph for BERT's normalization of every code point.

The table comes from `tools/make_unicode_table.py`. An entry is an int32:

    bits 0-3    flags: BREAK_BEFORE, BREAK_AFTER, DROPPED, SEQUENCE
    bits 4-9    rank of the character in canonical order (0: it starts a new run of marks)
    bits 10-31  normalized code point; with SEQUENCE, where one becomes several, the row of
                `sequences` ([rows, SLOTS] of entries, padded with DROPPED ones)

Punctuation and CJK have BREAK_BEFORE | BREAK_AFTER; a space has BREAK_BEFORE, BREAK_AFTER and
DROPPED; an accent has DROPPED; characters that cleaning removes before marks are ordered have
DROPPED and rank CLEANED. In the file, bits 10-31 are relative to the original code point, so that
unchanged letters share one entry, and equal blocks of BLOCK entries are stored once.

A second, simpler table holds the class of each code point for byte-level BPE. Two more serve
SentencePiece: how characters join into graphemes, and ALBERT's folding of each character.
"""

from pathlib import Path

import numpy as np
import tensorflow as tf

BREAK_BEFORE, BREAK_AFTER, DROPPED, SEQUENCE = 1, 2, 4, 8
CLEANED = 63  # a rank that no mark has
SLOTS = 3  # maximum number of normalized characters per character (Hangul)
BLOCK = 128
LETTER, NUMBER, OTHER, SPACE, BOUNDARY = range(5)  # code point classes for byte-level BPE
PLAIN, JOINS, PREPENDS, CONTROL = range(4)  # how a code point joins its neighbors
CODE_POINTS = 0x110000
NAMES = {  # (lowercase, strip accents) -> name of the table
    (False, False): "cased",
    (True, True): "uncased",
    (True, False): "lowercase",
    (False, True): "stripped",
}
CJK = (  # ranges that BERT treats as Chinese characters
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)

_FILE = Path(__file__).with_name("table.npz")
_RANK_SHIFT, _VALUE_SHIFT, _RANK_MASK = 4, 10, 63


def make_entry(value, flags, rank=0):
    """Packs an entry; see the layout above."""
    return (value << _VALUE_SHIFT) | (rank << _RANK_SHIFT) | flags


def value_of(entries):
    """Returns the normalized code point, or the row of `sequences`."""
    return tf.bitwise.right_shift(entries, _VALUE_SHIFT)


def rank_of(entries):
    """Returns the canonical order of marks, 0 for other characters."""
    return tf.bitwise.bitwise_and(tf.bitwise.right_shift(entries, _RANK_SHIFT), _RANK_MASK)


def flags_of(entries, flags):
    """Returns those of the given flags that are set."""
    return tf.bitwise.bitwise_and(entries, flags)


def in_blocks(entries):
    """Deduplicates blocks of BLOCK entries.

    Returns:
        (index, blocks), int32. entries[c] is at blocks[index[c // BLOCK] + c % BLOCK].
    """
    numbers = {}
    rows = np.asarray(entries, np.int32).reshape(-1, BLOCK)
    index = [numbers.setdefault(row.tobytes(), len(numbers)) for row in rows]
    return np.array(index, np.int32) * BLOCK, np.frombuffer(b"".join(numbers), np.int32)


def read_folding():
    """Reads ALBERT's folding (NFKD, no marks, lowercase) as a dict of character to str."""
    with np.load(_FILE, allow_pickle=False) as stored:
        codes, texts, splits = (stored[f"folding_{name}"] for name in ("codes", "texts", "splits"))
    return {
        chr(code): "".join(map(chr, texts[start:end]))
        for code, start, end in zip(codes, splits[:-1], splits[1:])
    }


class GraphemeTable:
    """How a code point joins its neighbors into a grapheme: PLAIN, JOINS, PREPENDS or CONTROL.

    Codes beyond Unicode are CONTROL: nothing joins them.
    """

    def __init__(self):
        with np.load(_FILE, allow_pickle=False) as stored:
            entries = stored["grapheme_blocks"].reshape(-1, BLOCK)[stored["grapheme_index"]]
        entries = np.append(entries.reshape(-1), np.full(BLOCK, CONTROL))
        self._index, self._blocks = in_blocks(entries)

    def lookup(self, code_points):
        """Returns the kinds of int32 code points [n]."""
        codes = tf.minimum(code_points, CODE_POINTS)
        block = tf.gather(self._index, tf.bitwise.right_shift(codes, 7))
        return tf.gather(self._blocks, block + tf.bitwise.bitwise_and(codes, BLOCK - 1))


class ClassTable:
    """The class of each code point for byte-level BPE.

    Codes beyond Unicode are BOUNDARY.
    """

    def __init__(self):
        with np.load(_FILE, allow_pickle=False) as stored:
            index, blocks = stored["byte_level_index"], stored["byte_level_blocks"]
        self._index = np.append(index.astype(np.int32) * BLOCK, np.int32(len(blocks)))
        self._blocks = np.append(blocks.astype(np.int32), np.full(BLOCK, BOUNDARY, np.int32))

    def lookup(self, code_points):
        """Returns the classes of int32 code points [n]."""
        block = tf.gather(self._index, tf.bitwise.right_shift(code_points, 7))
        return tf.gather(self._blocks, block + tf.bitwise.bitwise_and(code_points, BLOCK - 1))


class WordTable:
    """Which characters are part of a word: letters, digits, marks and connecting punctuation.

    Codes beyond Unicode are not.
    """

    def __init__(self):
        with np.load(_FILE, allow_pickle=False) as stored:
            entries = stored["word_blocks"].reshape(-1, BLOCK)[stored["word_index"]]
        entries = np.append(entries.reshape(-1), np.zeros(BLOCK, np.uint8))
        self._index, self._blocks = in_blocks(entries)

    def lookup(self, code_points):
        """Returns bool [n] for int32 code points [n]."""
        codes = tf.minimum(code_points, CODE_POINTS)
        block = tf.gather(self._index, tf.bitwise.right_shift(codes, 7))
        return tf.gather(self._blocks, block + tf.bitwise.bitwise_and(codes, BLOCK - 1)) > 0


class UnicodeTable:
    """The table for one setting of BERT's normalizer.

    Args:
        lowercase: bool.
        strip_accents: bool. Default None: same as `lowercase`.
        split_on_cjk: bool. Whether each Chinese character is a word. Default True.

    Example:
        from keras_bert_impl.tokenizers.unicode.table import UnicodeTable, value_of
        table = UnicodeTable(lowercase=True)
        value_of(table.lookup(tf.constant([0x41])))  # [0x61]
    """

    def __init__(self, lowercase, strip_accents=None, split_on_cjk=True):
        strip_accents = lowercase if strip_accents is None else strip_accents
        name = NAMES[bool(lowercase), bool(strip_accents)]
        with np.load(_FILE, allow_pickle=False) as stored:
            index, blocks = stored[f"{name}_index"], stored[f"{name}_blocks"]
            self._sequences = stored[f"{name}_sequences"]
        if split_on_cjk:
            self._index, self._blocks = index.astype(np.int32) * BLOCK, blocks
            return
        entries = blocks.reshape(-1, BLOCK)[index].reshape(-1)
        for first, last in CJK:
            entries[first : last + 1] &= ~(BREAK_BEFORE | BREAK_AFTER)
        self._index, self._blocks = in_blocks(entries)

    def lookup(self, code_points):
        """Returns the entries of int32 code points [n]."""
        block = tf.gather(self._index, tf.bitwise.right_shift(code_points, 7))
        entries = tf.gather(self._blocks, block + tf.bitwise.bitwise_and(code_points, BLOCK - 1))
        return entries + tf.bitwise.left_shift(code_points, _VALUE_SHIFT)

    def characters(self, code_point):
        """Normalizes one code point, without a graph: list of (code point, flags, rank), ints."""
        entry = int(self._blocks[self._index[code_point // BLOCK] + code_point % BLOCK])
        entry += code_point << _VALUE_SHIFT
        row = self._sequences[entry >> _VALUE_SHIFT].tolist() if entry & SEQUENCE else [entry]
        flags = BREAK_BEFORE | BREAK_AFTER | DROPPED
        return [(e >> _VALUE_SHIFT, e & flags, e >> _RANK_SHIFT & _RANK_MASK) for e in row]

    def sequence(self, rows):
        """Returns the entries in the given rows of `sequences`, [..., SLOTS]."""
        return tf.gather(self._sequences, rows)
