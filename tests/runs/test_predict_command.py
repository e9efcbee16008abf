"""`keras-bert predict` on tables, lines and standard input, with a fast stand-in for the model."""

import gzip
import io
import json
import os
import tracemalloc
import zlib

import numpy as np
import pyarrow.parquet
import pytest

from keras_bert_impl.cli.main import main
from keras_bert_impl.tasks.text_classification.task import TextClassification
from tests.tasks.helpers import examples


class Model:
    """A fast stand-in for a classifier, with a different score for each text."""

    labels, problem_type = ["negative", "positive"], "single_label_classification"
    text_columns = ()

    def predict(self, texts, verbose):
        return np.array([[zlib.crc32(text.encode()) / 2**32, 0.5] for text in texts])

    def decide(self, scores):
        return scores.argmax(axis=1)


@pytest.fixture
def predicted(capsys, monkeypatch):
    """Returns a function that runs `predict` and returns its output or its error line."""
    monkeypatch.setattr("keras_bert_impl.runs.run.load_tuned", lambda *_: Model())
    task = lambda _: TextClassification  # noqa: E731
    monkeypatch.setattr("keras_bert_impl.tasks.registry.task_of_model", task)

    def run(path, *options):
        printed = [] if "--out" in options else ["--json"]
        model = ["--model", "bert-base-uncased"]
        status = main(["predict", *model, "--input", str(path), *printed, *options])
        out, error = capsys.readouterr()
        if status == 0:
            return [json.loads(line) for line in out.splitlines()]
        assert status == 2
        return error.strip().splitlines()[-1]

    return run


def test_predict_reads_tables_by_their_suffix(predicted, tmp_path):
    texts, labels = examples(count=4, seed=1)
    (tmp_path / "lines.txt").write_text("".join(f"{text}\n" for text in texts))
    expected = predicted(tmp_path / "lines.txt")
    rows = [{"review": text, "sentiment": label} for text, label in zip(texts, labels)]
    pyarrow.parquet.write_table(pyarrow.table({"review": texts}), tmp_path / "one.parquet")
    (tmp_path / "one.csv").write_text("review\n" + "".join(f"{text}\n" for text in texts))
    for name in ("one.parquet", "one.csv"):
        assert predicted(tmp_path / name) == expected
    semicolons = "review;sentiment\n" + "".join(f"{t};{n}\n" for t, n in zip(texts, labels))
    (tmp_path / "two.csv.gz").write_bytes(gzip.compress(semicolons.encode()))
    (tmp_path / "two.json").write_text(json.dumps(rows))
    (tmp_path / "two.txt").write_text(semicolons)
    for name, options in (("two.csv.gz", []), ("two.json", []), ("two.txt", ["--delimiter", ";"])):
        assert predicted(tmp_path / name, "--text", "review", *options) == expected
        error = predicted(tmp_path / name, *options)
        assert f"{name} is a table with the columns 'review', 'sentiment'" in error
        assert "--text COLUMN" in error


def test_standard_input_splits_lines_like_files(predicted, monkeypatch, tmp_path):
    content = "good\u2028film\nbad\x0bplot\x85joy\r\n\nawful".encode()
    (tmp_path / "a.txt").write_bytes(content)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    answers = predicted("-")
    assert len(answers) == 4 and answers == predicted(tmp_path / "a.txt")


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_predict_writes_tables_in_blocks(predicted, tmp_path, name):
    peaks = []
    for count in (2_000, 10_000):
        rows = [f"{number},{number} is a joy to the end of it\n" for number in range(count)]
        (tmp_path / "in.csv").write_text("key,text\n" + "".join(rows))
        del rows
        tracemalloc.start()
        options = ["--text", "text", "--out", str(tmp_path / name)]
        assert predicted(tmp_path / "in.csv", *options) == []
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 0.5e6  # 8,000 rows and their answers would take some 8 MB
    if name == "out.parquet":
        assert pyarrow.parquet.read_table(tmp_path / name).num_rows == 10_000
    else:
        assert (tmp_path / name).read_text().count("\n") == 10_000 + (name == "out.csv")


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.json", "a.parquet"])
def test_predict_reads_texts_in_blocks(predicted, tmp_path, monkeypatch, name):
    peaks = []
    for count in (2_000, 10_000):
        texts = [f"{number} is a joy to the end of it" for number in range(count)]
        if name == "a.parquet":
            pyarrow.parquet.write_table(pyarrow.table({"text": texts}), tmp_path / name)
        elif name == "a.json":
            (tmp_path / name).write_text(json.dumps([{"text": text} for text in texts]))
        else:
            (tmp_path / name).write_text("\n".join(["text", *texts]))
        del texts
        monkeypatch.setattr("sys.stdout", open(os.devnull, "w"))
        tracemalloc.start()
        assert predicted(tmp_path / name) == []
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # 8,000 texts and their answers would take some 6 MB. The .json file is one line of 0.5 MB.
    assert peaks[1] - peaks[0] < (2e6 if name == "a.json" else 0.5e6)
