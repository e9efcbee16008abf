"""Accuracy of served predictions by week, from labels stored by `keras-bert serve`."""

import collections
import datetime
from pathlib import Path
from typing import NamedTuple

from keras_bert_impl.data.scores.statistics import Interval, wilson
from keras_bert_impl.data.tables.table_rows import json_lines
from keras_bert_impl.serving.server.feedback import KEYS
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.lines import suffix_of


class Week(NamedTuple):
    """Accuracy of one model version in one week.

    Attributes:
        monday: first day of the week, in UTC.
        version: served version.
        rows: number of predictions with a label.
        accuracy: accuracy with a Wilson interval.
    """

    monday: datetime.date
    version: int
    rows: int
    accuracy: Interval


def by_week(path: str | Path) -> list[Week]:
    """Computes weekly accuracies from a file of `keras-bert serve --feedback`.

    Returns [] if the file is not a feedback file.
    """
    is_correct: dict[tuple, list[bool]] = collections.defaultdict(list)
    for number, read in json_lines(path) if suffix_of(path) == ".jsonl" else ():
        try:
            row = read()
            if not row.keys() >= set(KEYS):
                if is_correct:
                    raise InputError(
                        "the line is not from `keras-bert serve --feedback`. Pass a copy of the "
                        "file without this line."
                    )
                return []
            day = datetime.datetime.fromisoformat(row["time"]).date()
            monday = day - datetime.timedelta(days=day.weekday())
            is_correct[monday, int(row["version"])].append(row["correct"] is True)
        except (InputError, ValueError, TypeError, OverflowError) as error:
            raise InputError(f"{path}, line {number}: {error}") from error
    return [
        Week(monday, version, len(values), wilson(values))
        for (monday, version), values in sorted(is_correct.items())
    ]
