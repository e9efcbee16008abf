"""Code point properties for Moses' rules as FlauBERT uses them.

The table comes from `tools/make_moses_table.py`. An entry is a uint8 of flags, named below; equal
blocks of BLOCK entries are stored once.
"""

from pathlib import Path

import numpy as np
import tensorflow as tf

SPACE = 1  # white space, same as Python's `str.isspace`
REMOVED = 2  # category C: control, format, private and unassigned characters
WORD = 4  # Moses' letters and digits; other characters are separated
LETTER = 8  # Moses' letters
NUMBER = 16  # Moses' numbers
LOWER = 32  # Moses' lowercase letters
DIGIT = 64  # category Nd, same as Python's `\d`
JOINS = 128  # may join the character before it, or be reordered, in Unicode normalization (NFC)
BLOCK = 128
CODE_POINTS = 0x110000

_FILE = Path(__file__).with_name("table.npz")


class MosesTable:
    """Looks up the flags of code points in the graph.

    Example:
        from keras_bert_impl.tokenizers.moses.table import MosesTable, SPACE
        MosesTable().lookup(tf.constant([0x20]))  # [SPACE]
    """

    def __init__(self):
        with np.load(_FILE, allow_pickle=False) as stored:
            self._index, self._blocks = stored["index"], stored["blocks"]

    def lookup(self, code_points):
        """Returns the flags of int32 code points [n]."""
        block = tf.gather(self._index, tf.bitwise.right_shift(code_points, 7))
        place = tf.bitwise.bitwise_and(code_points, BLOCK - 1)
        return tf.cast(tf.gather(self._blocks, BLOCK * tf.cast(block, tf.int32) + place), tf.int32)


def has(flags, wanted):
    """Returns whether one of the wanted flags is set, bool."""
    return tf.not_equal(tf.bitwise.bitwise_and(flags, wanted), 0)
