"""Packing of several examples into one row to reduce padding."""

from collections.abc import Sequence

import numpy as np


def pack_rows(
    lengths: Sequence[int], row_length: int, max_examples_per_row: int
) -> list[list[int]]:
    """Packs by best-fit decreasing: longest example first, each into the fullest row with room."""
    rows: list[list[int]] = []
    open_rows: list[list[list[int]]] = [
        [] for _ in range(row_length + 1)
    ]  # by the number of free tokens
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
