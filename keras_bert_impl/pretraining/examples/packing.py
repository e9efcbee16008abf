"""Packing several examples into one row, so that little of a batch is padding."""

import numpy as np


def pack_rows(lengths, row_length, max_examples_per_row):
    """Best-fit decreasing: the longest example first, each into the fullest row that holds it.

    Args:
        lengths: list of int, the tokens of each example, at most `row_length`.
        row_length: int, tokens of a row.
        max_examples_per_row: int; 1 packs nothing.

    Returns:
        List of rows, each a list of indices into `lengths`. The same lengths give the same rows.

    Example:
        pack_rows([5, 3, 8, 2], row_length=8, max_examples_per_row=4)  # [[2], [0, 1], [3]]
    """
    rows = []
    open_rows = [[] for _ in range(row_length + 1)]  # by the number of free tokens
    occupied = 0  # bit f is set where open_rows[f] is not empty: the tightest fit is one bit scan
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
