"""Code point properties for Moses' rules as FlauBERT uses them.

The table comes from `tools/make_moses_table.py`. An entry is a uint8 of flags, named below; equal
blocks of BLOCK entries are stored once.
"""

from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.unicode.table import BLOCK, CodePointTable

SPACE = 1  # white space, same as Python's `str.isspace`
REMOVED = 2  # category C: control, format, private and unassigned characters
WORD = 4  # Moses' letters and digits; other characters are separated
LETTER = 8  # Moses' letters
NUMBER = 16  # Moses' numbers
LOWER = 32  # Moses' lowercase letters
DIGIT = 64  # category Nd, same as Python's `\d`
JOINS = 128  # may join the character before it, or be reordered, in Unicode normalization (NFC)

_FILE = Path(__file__).with_name("table.npz")


class MosesTable(CodePointTable):
    """Looks up the flags of code points in the graph."""

    def __init__(self) -> None:
        with np.load(_FILE, allow_pickle=False) as stored:
            super().__init__(stored["index"].astype(np.int32) * BLOCK, stored["blocks"])


def has(flags: tf.Tensor, wanted: int) -> tf.Tensor:
    """Returns whether one of the wanted flags is set, bool."""
    return tf.not_equal(tf.bitwise.bitwise_and(flags, wanted), 0)
