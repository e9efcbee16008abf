"""Readers show their progress when a file takes long to read."""

import time

import pytest

from keras_bert_impl.tasks.data.examples import usable


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.01, []),
        (0.25, ["reading: 40 rows, 0:00:10, 4/s", "reading: 50 rows, 0:00:12, 4/s"]),
    ],
)
def test_only_long_reading_is_shown(seconds, shown, monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def rows():
        for row in range(50):
            now[0] += seconds
            yield row

    assert usable(str, rows(), None) == [str(row) for row in range(50)]
    assert capsys.readouterr().err.splitlines() == shown
