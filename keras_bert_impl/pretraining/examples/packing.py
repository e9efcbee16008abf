"""Packing of several examples into one row to reduce padding."""

import numpy as np


def pack_rows(lengths, row_length, max_examples_per_row):
    """Packs by best-fit decreasing: longest example first, each into the fullest row with room.

    Args:
        lengths: list of int. Tokens of each example, at most `row_length`.
        row_length: int. Tokens of a row.
        max_examples_per_row: int. 1 disables packing.

    Returns:
        List of rows, each a list of indices into `lengths`. Deterministic.

    Example:
        from keras_bert_impl.pretraining.examples.packing import pack_rows
        pack_rows([5, 3, 8, 2], row_length=8, max_examples_per_row=4)  # [[2], [0, 1], [3]]
    """
    rows = []
    open_rows = [[] for _ in range(row_length + 1)]  # by the number of free tokens
    occupied = 0  # bit f is set if open_rows[f] is not empty: the tightest fit is one bit scan
    for index in np.argsort(np.negative(lengths), kind="stable").tolist():
        length = lengths[index]
        fitting = occupied >> length << length
        if fitting:
            free = (fitting & -fitting).bit_length() - 1
            row = open_rows[free].pop()
            if not open_rows[free]:
                occupied ^= 1 << free
        else:
            free, row = row_length, []
            rows.append(row)
        row.append(index)
        free -= length
        if free and len(row) < max_examples_per_row:
            open_rows[free].append(row)
            occupied |= 1 << free
    return rows
