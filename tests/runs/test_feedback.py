"""Accuracy by week from the file of `keras-bert serve --feedback`."""

import datetime
import json

import pytest

from keras_bert_impl.runs.feedback import by_week
from keras_bert_impl.utils.errors import InputError
from tests.cli.test_drift import folder, run  # noqa: F401

stats = pytest.importorskip("scipy.stats")


def write(path, days, **changes):
    """Writes two labels a day from Monday, 2 November 2026; every third is wrong."""
    rows = []
    for number in range(2 * days):
        day = datetime.datetime(2026, 11, 2, tzinfo=datetime.UTC) + datetime.timedelta(number // 2)
        row = {"review": f"good film {number % 3}", "mood": "positive", "prediction": "positive"}
        row |= {"correct": number % 3 > 0, "version": 1 + (number >= 20), "request_id": "a"}
        rows.append(row | {"time": day.isoformat()} | changes)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_weeks_and_versions(tmp_path):
    weeks = by_week(write(tmp_path / "feedback.jsonl", days=15))
    assert [(str(week.monday), week.version, week.rows) for week in weeks] == [
        ("2026-11-02", 1, 14), ("2026-11-09", 1, 6), ("2026-11-09", 2, 8), ("2026-11-16", 2, 2),
    ]  # fmt: skip
    right = sum(number % 3 > 0 for number in range(14))
    assert weeks[0].accuracy.value == right / 14
    expected = stats.binomtest(right, 14).proportion_ci(method="wilson")
    assert weeks[0].accuracy[1:] == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_other_files_have_no_weeks(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "a.csv").write_text("text\na\n")
    assert by_week(tmp_path / "a.jsonl") == by_week(tmp_path / "a.csv") == []
    path = write(tmp_path / "feedback.jsonl", days=2)
    path.write_text(path.read_text() + '{"text": "a"}\n')
    with pytest.raises(InputError, match="line 5: the line is not from"):
        by_week(path)
    with pytest.raises(InputError, match="line 1: Invalid isoformat"):
        by_week(write(path, days=1, time="today"))
    path.write_text(write(path, days=1).read_text().replace('"version": 1', '"version": 1e999'))
    with pytest.raises(InputError, match="line 1: cannot convert float infinity"):
        by_week(path)


def test_drift_prints_the_weeks(folder, tmp_path, capsys):  # noqa: F811
    path = write(tmp_path / "feedback.jsonl", days=8)
    assert run(folder, "--served", path, "--text", "review") == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("")
    assert lines[at + 1].split() == ["week", "version", "labels", "accuracy", "low", "high"]
    assert lines[at + 2].split() == ["2026-11-02", "1", "14", "0.6429", "0.3876", "0.8366"]
    assert run(folder, "--served", path, "--text", "review", "--json") == 0
    weeks = json.loads(capsys.readouterr().out)["weeks"]
    assert [week["labels"] for week in weeks] == [14, 2] and weeks[0]["accuracy"] == 9 / 14
