"""Lookup tables of code points for normalization in the graph.

The table comes from `tools/make_unicode_table.py`. An entry is an int32:

    bits 0-3    flags: BREAK_BEFORE, BREAK_AFTER, DROPPED, SEQUENCE
    bits 4-9    rank of the character in canonical order (0: it starts a new run of marks)
    bits 10-31  normalized code point; with SEQUENCE (one becomes several), the row of
                `sequences` ([rows, SLOTS] of entries, padded with DROPPED ones)

The flags are BREAK_BEFORE and BREAK_AFTER for punctuation and CJK characters; BREAK_BEFORE,
BREAK_AFTER and DROPPED for spaces; and DROPPED for accents. A character that BERT's text cleaning
removes has the flag DROPPED and CLEANED as its rank. In the file, bits 10-31 contain the normalized
code point minus the original code point, so that all unchanged letters have the same entry. The
entries are saved in blocks of BLOCK entries, and equal blocks are saved once.

The file also contains the character classes of byte-level BPE, the grapheme classes of
SentencePiece, ALBERT's normalization of each character, and tables for Unicode normalization form
C.
"""

import functools
from pathlib import Path

import numpy as np
import tensorflow as tf

BREAK_BEFORE, BREAK_AFTER, DROPPED, SEQUENCE = 1, 2, 4, 8
CLEANED = 63  # rank of removed characters; marks have lower ranks
SLOTS = 3  # maximum number of normalized characters per character (Hangul)
BLOCK = 128
LETTER, NUMBER, OTHER, SPACE, BOUNDARY = range(5)  # code point classes for byte-level BPE
PLAIN, JOINS, PREPENDS, CONTROL = range(4)  # how a code point joins its neighbors
# Entries for composition: the rank in canonical order and two flags. The first flag: the character
# may combine or swap with the preceding one. The second: it never occurs in composed text.
RANK, JOINS_BEFORE, CHANGES = 63, 64, 128
PAIR_SHIFT = 21  # number of bits of a code point
CODE_POINTS = 0x110000
NAMES = {  # (lowercase, strip accents) -> name of the table
    (False, False): "cased",
    (True, True): "uncased",
    (True, False): "lowercase",
    (False, True): "stripped",
}
CJK = (  # code point ranges that BERT treats as Chinese characters
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


def make_entry(value: int, flags: int, rank: int = 0) -> int:
    return (value << _VALUE_SHIFT) | (rank << _RANK_SHIFT) | flags


def value_of(entries: tf.Tensor) -> tf.Tensor:
    """Returns the normalized code points.

    With SEQUENCE, returns the rows for `UnicodeTable.sequence`.
    """
    return tf.bitwise.right_shift(entries, _VALUE_SHIFT)


def rank_of(entries: tf.Tensor) -> tf.Tensor:
    return tf.bitwise.bitwise_and(tf.bitwise.right_shift(entries, _RANK_SHIFT), _RANK_MASK)


def flags_of(entries: tf.Tensor, flags: int) -> tf.Tensor:
    return tf.bitwise.bitwise_and(entries, flags)


def shared_blocks(entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Removes duplicate blocks of entries. Returns (start of each block in `blocks`, `blocks`)."""
    numbers: dict[bytes, int] = {}
    rows = np.asarray(entries, np.int32).reshape(-1, BLOCK)
    index = [numbers.setdefault(row.tobytes(), len(numbers)) for row in rows]
    return np.array(index, np.int32) * BLOCK, np.frombuffer(b"".join(numbers), np.int32)


def read_folding() -> dict[str, str]:
    """Reads how ALBERT normalizes each character (NFKD, no combining marks, lowercase)."""
    with np.load(_FILE, allow_pickle=False) as stored:
        codes, texts, splits = (stored[f"folding_{name}"] for name in ("codes", "texts", "splits"))
    return {
        chr(code): "".join(map(chr, texts[start:end]))
        for code, start, end in zip(codes, splits[:-1], splits[1:])
    }


@functools.cache
def read_composition() -> dict[str, np.ndarray]:
    """Reads the decompositions of characters and the compositions of pairs, without Hangul.

    Returns:
        dict: `decomposed`, int32 [characters], the code points with a decomposition, ascending;
            `parts`, int32 [characters, 4], the decompositions, padded with -1; `pairs`, int64
            [pairs], (first << PAIR_SHIFT) + second, ascending; `composites`, int32 [pairs], the
            composition of each pair.
    """
    names = ("decomposed", "parts", "pairs", "composites")
    with np.load(_FILE, allow_pickle=False) as stored:
        return {name: stored[f"composition_{name}"] for name in names}


class CodePointTable:
    """Maps code points to int32 entries."""

    def __init__(self, index: np.ndarray, blocks: np.ndarray, beyond: int = 0) -> None:
        self._index = np.append(index, len(blocks)).astype(np.int32)
        self._blocks = np.append(blocks, np.full(BLOCK, beyond, blocks.dtype))

    def lookup(self, code_points: tf.Tensor) -> tf.Tensor:
        codes = tf.minimum(code_points, CODE_POINTS)
        block = tf.gather(self._index, tf.bitwise.right_shift(codes, 7))
        entries = tf.gather(self._blocks, block + tf.bitwise.bitwise_and(codes, BLOCK - 1))
        return tf.cast(entries, tf.int32)


def _load_blocks(name: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(_FILE, allow_pickle=False) as stored:
        return stored[f"{name}_index"].astype(np.int32) * BLOCK, stored[f"{name}_blocks"]


@functools.cache
def class_table() -> CodePointTable:
    """Table of character classes for byte-level BPE."""
    return CodePointTable(*_load_blocks("byte_level"), BOUNDARY)


@functools.cache
def word_table() -> CodePointTable:
    """Table with 1 for letters, digits, marks and connecting punctuation, else 0."""
    return CodePointTable(*_load_blocks("word"))


@functools.cache
def composition_table() -> CodePointTable:
    return CodePointTable(*_load_blocks("composition"))


@functools.cache
def grapheme_table() -> CodePointTable:
    """Table of grapheme classes: PLAIN, JOINS, PREPENDS or CONTROL."""
    return CodePointTable(*_load_blocks("grapheme"), CONTROL)


class UnicodeTable(CodePointTable):
    """Maps code points to entries for BERT's normalizer."""

    def __init__(
        self, lowercase: bool, strip_accents: bool | None = None, split_on_cjk: bool = True
    ) -> None:
        strip_accents = lowercase if strip_accents is None else strip_accents
        name = NAMES[bool(lowercase), bool(strip_accents)]
        index, blocks = _load_blocks(name)
        with np.load(_FILE, allow_pickle=False) as stored:
            self._sequences = stored[f"{name}_sequences"]
        if not split_on_cjk:
            entries = blocks.reshape(-1, BLOCK)[index // BLOCK].reshape(-1)
            for first, last in CJK:
                entries[first : last + 1] &= ~(BREAK_BEFORE | BREAK_AFTER)
            index, blocks = shared_blocks(entries)
        super().__init__(index, blocks)

    def lookup(self, code_points: tf.Tensor) -> tf.Tensor:
        return super().lookup(code_points) + tf.bitwise.left_shift(code_points, _VALUE_SHIFT)

    def characters(self, code_point: int) -> list[tuple[int, int, int]]:
        """Normalizes one code point.

        Returns (code point, flags, rank) of each resulting character.
        """
        entry = int(self._blocks[self._index[code_point // BLOCK] + code_point % BLOCK])
        entry += code_point << _VALUE_SHIFT
        row = self._sequences[entry >> _VALUE_SHIFT].tolist() if entry & SEQUENCE else [entry]
        flags = BREAK_BEFORE | BREAK_AFTER | DROPPED
        return [(e >> _VALUE_SHIFT, e & flags, e >> _RANK_SHIFT & _RANK_MASK) for e in row]

    def sequence(self, rows: tf.Tensor) -> tf.Tensor:  # [...] -> [..., SLOTS]
        return tf.gather(self._sequences, rows)
