"""`keras-bert serve --feedback`: labels for answers, as rows to train on, and their scores."""

import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from keras_bert_impl.serving.saved_model import export_version
from keras_bert_impl.serving.server import feedback
from keras_bert_impl.serving.server.wire import ApiError
from keras_bert_impl.tasks import read_table
from keras_bert_impl.utils.errors import InputError
from tests.serving.server.servers import running, wait_for
from tests.tasks.helpers import ROOT, classifier

metrics = pytest.importorskip("sklearn.metrics")
TEXTS = ["a good film", "awful plot, \u201cnot\u201d €", "the film", "joy", "dull"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Versions of a classifier whose training set had other column names."""
    folder = tmp_path_factory.mktemp("feedback")
    run = folder / "run"
    run.mkdir()
    read_with = {"text": "body", "label": "mood", "dev": "a.csv", "delimiter": ";"}
    (run / "data.json").write_text(json.dumps({"read_with": read_with}))
    export_version(classifier().signatures(), folder / "reviews", run=run)
    return folder


@pytest.fixture(scope="module")
def server(folder):
    with running(folder / "reviews", feedback=folder / "feedback.jsonl") as client:
        yield client


@pytest.fixture
def client(server, path):
    path.unlink(missing_ok=True)
    return server


@pytest.fixture
def path(folder):
    return folder / "feedback.jsonl"


def label(client, request_id, value, **fields):
    request = {"request_id": request_id, "label": value} | fields
    return client.predict(request, method="feedback")


def test_labels_are_rows_to_train_on(client, path):
    _, answer = client.predict({"instances": TEXTS})
    predicted = [row["label"] for row in answer["predictions"]]
    labels = ["positive", "negative", "positive", "positive", "negative"]
    for row in (1, 0, 4, 3, 2):
        status, response = label(client, answer["request_id"], labels[row], row=row)
        assert status == 200 and response["correct"] == (labels[row] == predicted[row])
    assert path.read_bytes().isascii()
    for encoding in (None, "cp1252"):
        table = read_table(path, "body", label="mood", dates="time", encoding=encoding)
        assert dict(zip(table.texts, table.labels)) == dict(zip(TEXTS, labels))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert {row["prediction"] for row in rows} <= {"negative", "positive"}
    assert all(row["version"] == 1 and row["request_id"] == answer["request_id"] for row in rows)
    assert [row["correct"] for row in rows] == [row["prediction"] == row["mood"] for row in rows]


def test_metrics_show_the_scores(client):
    names = [f'keras_bert_feedback_{name}{{version="1"}}' for name in ("rows", "accuracy")]
    rows, accuracy = map(client.metric, names)
    _, answer = client.predict({"instances": ["joy"]})
    right = answer["predictions"][0]["label"]
    assert label(client, answer["request_id"], right)[0] == 200
    expected = rows + 1, (rows * accuracy + 1) / (rows + 1)
    assert tuple(map(client.metric, names)) == pytest.approx(expected)


def test_errors_say_what_is_wrong(client, path):
    _, first = client.predict({"instances": ["joy"]})
    _, second = client.predict({"instances": ["joy", "dull"]})
    name = first["request_id"]
    wrong = [
        ((name, "good"), 400, "Label 'good' is not one of 'negative', 'positive'."),
        ((name, ["positive"]), 400, "'label' must be one label."),
        ((name, None), 400, "Label None is not one of"),
        (("0" * 32, "positive"), 404, "is unknown. The server stores the last 100000 responses"),
        ((7, "positive"), 400, "'request_id' must be a string, not 7"),
        ((second["request_id"], "positive"), 400, "'row' must be from 0 to 1. Received: None"),
    ]
    for arguments, status, message in wrong:
        received, answer = label(client, *arguments)
        assert received == status and message in answer["error"]
    assert label(client, name, "positive", row=1)[0] == 400
    assert label(client, name, "positive", more=1)[0] == 400
    for body in (b"", b"[]", b'{"label": "positive"}', b"{"):
        assert client.predict(body, method="feedback")[0] == 400
    assert not path.exists()
    assert label(client, name, "positive")[0] == 200
    status, answer = label(client, name, "negative")
    assert status == 409 and f"Row 0 of {name} already has a label." == answer["error"]
    for kind in ({}, {"Content-Type": "text/plain"}):  # as forms on web pages send
        body = json.dumps({"request_id": name, "label": "positive"})
        assert client.send("POST", f"{client.path}:feedback", body, kind)[0] == 415
    response = client.send("POST", "/v1/models/other:feedback", b"{}")
    assert response[0] == 404 and "this server has the model reviews" in response[2]


def test_other_answers_have_no_id(client):
    tokens = client.predict({"signature_name": "tokenize", "instances": ["joy"]})
    vectors = client.predict({"signature_name": "embed", "instances": ["joy"]})
    assert "request_id" not in tokens[1] and "request_id" not in vectors[1]


def test_the_file_is_limited_and_stays_whole(client, path, monkeypatch):
    _, answer = client.predict({"instances": TEXTS})
    assert label(client, answer["request_id"], "positive", row=0)[0] == 200
    before = path.read_bytes()
    monkeypatch.setattr(feedback, "_MOST_BYTES", len(before) + 10)
    status, error = label(client, answer["request_id"], "positive", row=1)
    assert status == 507 and "Move it away" in error["error"] and path.read_bytes() == before
    monkeypatch.undo()
    write = os.write
    monkeypatch.setattr(feedback.os, "write", lambda file, line: write(file, line[:20]))
    status, error = label(client, answer["request_id"], "positive", row=1)
    assert status == 500 and "the disk is full" in error["error"] and path.read_bytes() == before
    monkeypatch.undo()
    assert label(client, answer["request_id"], "positive", row=1)[0] == 200
    path.unlink()  # moved away
    assert label(client, answer["request_id"], "positive", row=2)[0] == 200
    assert len(path.read_text().splitlines()) == 1


def test_memory_is_limited(client, monkeypatch):
    monkeypatch.setattr(feedback, "_MOST_REQUESTS", 2)
    names = [client.predict({"instances": ["joy"]})[1]["request_id"] for _ in range(3)]
    assert [label(client, name, "positive")[0] for name in names] == [404, 200, 200]
    monkeypatch.setattr(feedback, "_MOST_TEXT", 20 + feedback._ROW_SIZE)
    names = [client.predict({"instances": ["a good film"]})[1]["request_id"] for _ in range(2)]
    assert [label(client, name, "positive")[0] for name in names] == [404, 200]


TOPICS = ["film", "plot", "joy"]


def test_pairs_and_several_labels(tmp_path):
    model = classifier(labels=TOPICS, problem_type="multi_label_classification")
    export_version(model.signatures(), tmp_path / "topics")
    path = tmp_path / "feedback.jsonl"
    with running(tmp_path / "topics", feedback=path) as client:
        request = {"signature_name": "pairs", "instances": [{"first": "joy", "second": "dull"}]}
        for value, status in (("joy", 400), (["joy", "film"], 200), ([], 200)):
            _, answer = client.predict(request)
            assert label(client, answer["request_id"], value)[0] == status
    table = read_table(path, "text", "pair", label="label")
    assert table.texts == [("joy", "dull")] * 2 and table.labels == [["film", "joy"], []]


def stand_in(outputs, labels=TOPICS, **columns):
    """A model with one signature, as the server loads it, and the signature."""
    signature = SimpleNamespace(inputs={"text": None}, outputs=set(outputs))
    signatures = {"serving_default": signature}
    decisions = {"labels": labels}
    model = SimpleNamespace(version=3, signatures=signatures, columns=columns, decisions=decisions)
    return model, signature


def test_scores_are_those_of_scikit_learn_on_the_last_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(feedback, "_WINDOW", 6)
    model, signature = stand_in(["label", "scores"], label="mood")
    path, reports = tmp_path / "feedback.jsonl", []
    store = feedback.Feedback(path, lambda *report: reports.append(report))
    labels = ["film", "film", "joy", "plot", "film", "joy", "plot", "plot"]
    predicted = ["joy", "film", "joy", "film", "film", "plot", "plot", "film"]
    texts, answers = (
        np.array([label.encode() for label in names], object) for names in (labels, predicted)
    )
    name = store.remember(model, signature, {"text": texts}, {"label": answers})
    for row, label in enumerate(labels):
        store.add(json.dumps({"request_id": name, "row": row, "label": label}).encode())
    both = labels[-6:], predicted[-6:]
    expected = metrics.accuracy_score(*both), metrics.f1_score(*both, average="macro")
    assert [report[1].rows for report in reports] == [1, 2, 3, 4, 5, 6, 6, 6]
    assert reports[-1][1] == pytest.approx((6, *expected))
    with path.open("a") as file:
        file.write('{"torn')
    again = feedback.Feedback(path, lambda *report: reports.append(report))  # after a restart
    again.start(model)
    assert reports[-1] == reports[-2] and len(reports) == 9
    name = again.remember(model, signature, {"text": texts[:1]}, {"label": answers[:1]})
    again.add(json.dumps({"request_id": name, "label": "film"}).encode())
    *_, torn, last = path.read_text().splitlines()
    assert torn == '{"torn' and json.loads(last)["mood"] == "film"


def test_a_column_per_label(tmp_path):
    model, signature = stand_in(["labels", "scores"], text="a", label="film, plot,joy")
    reports = []
    store = feedback.Feedback(tmp_path / "a.jsonl", lambda *report: reports.append(report))
    store.start(model)
    outputs = {"labels": np.array([[b"film", b"", b""]], object)}
    name = store.remember(model, signature, {"text": np.array([b"x"], object)}, outputs)
    store.add(json.dumps({"request_id": name, "label": ["joy", "film"]}).encode())
    table = read_table(tmp_path / "a.jsonl", "a", label=TOPICS)
    assert (table.texts, table.labels) == (["x"], [["film", "joy"]])
    assert reports == [(3, feedback.Scores(1, 0.0, 0.5))]  # F1 of film is 1, of joy 0
    again = feedback.Feedback(tmp_path / "a.jsonl", lambda *report: reports.append(report))
    again.start(model)
    assert reports[1:] == reports[:1]


def test_what_cannot_store_feedback(reviews, tmp_path):
    status, answer = label(reviews, "0", "positive")
    assert status == 501 and "Start it with --feedback FILE" in answer["error"]
    store = feedback.Feedback(tmp_path / "a.jsonl", print)
    for outputs in (["num_words", "labels", "label_ids", "scores"], ["scores"]):  # words, numbers
        with pytest.raises(ApiError, match="only for the export of one text classifier"):
            store.check(stand_in(outputs)[0])
    with pytest.raises(ApiError, match="'time'"):
        store.check(stand_in(["label", "scores"], text="time")[0])
    several, signature = stand_in(["label", "scores"])  # an export of several models
    several.decisions = {}
    with pytest.raises(ApiError, match="one text classifier"):
        store.check(several)
    answers = {"label": np.array([b"film"], object)}
    assert store.remember(several, signature, {"text": answers["label"]}, answers) is None
    assert not (tmp_path / "a.jsonl").exists()


def test_a_tagger_is_refused_before_it_is_loaded(exported, tmp_path, monkeypatch):
    folder = exported("entities")[1]
    with running(folder) as client:
        status, answer = label(client, "0", "positive")
        assert status == 501 and "--feedback" not in answer["error"]
        assert "supported only for the export of one text classifier" in answer["error"]
    monkeypatch.setattr("tensorflow.saved_model.load", None)
    with running(folder, feedback=tmp_path / "a.jsonl") as client:
        (line,) = client.lines
        assert "Leave out --feedback to serve this model" in line
        assert client.get("/readyz")[0] == 503


def test_the_file_must_be_writable_before_labels_arrive(tmp_path):
    model, _ = stand_in(["label", "scores"])
    feedback.Feedback(tmp_path / "new" / "a.jsonl", print).start(model)
    assert (tmp_path / "new" / "a.jsonl").read_bytes() == b""
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write .*file/a.jsonl: "):
        feedback.Feedback(tmp_path / "file" / "a.jsonl", print).start(model)


def test_two_servers_write_whole_lines(tmp_path):
    """Without a lock, a server takes a long line for a torn one while another server writes it."""
    code = """
import sys
from keras_bert_impl.serving.server.feedback import Feedback
store = Feedback(sys.argv[1], print)
for number in range(150):
    store._append({"text": "a" * (300_000 if number % 2 else 5)})
"""
    path = tmp_path / "a.jsonl"
    command = [sys.executable, "-c", code, str(path)]
    for process in [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]:
        assert process.wait(120) == 0
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(len(row["text"]) for row in rows) == [5] * 225 + [300_000] * 225


@pytest.mark.parametrize("columns", ['{"text": "other", "label": "mood"}', None])
def test_a_version_with_other_columns_is_refused(folder, tmp_path, columns):
    shutil.copytree(folder / "reviews", tmp_path / "reviews")
    with running(tmp_path / "reviews", poll_seconds=0.05, feedback=tmp_path / "a.jsonl") as client:
        new = tmp_path / "new"
        shutil.copytree(folder / "reviews/1", new)
        (new / "assets.extra/columns.json").unlink()
        if columns:
            (new / "assets.extra/columns.json").write_text(columns)
        new.rename(tmp_path / "reviews/2")
        wait_for(lambda: client.metric('keras_bert_failed_versions{model="reviews"}') == 1)
        assert "columns.json" in client.lines[-1] and "a new --feedback file" in client.lines[-1]
        assert label(client, client.predict({"instances": ["joy"]})[1]["request_id"], "positive")
        shutil.copy(
            folder / "reviews/1/assets.extra/columns.json", tmp_path / "reviews/2/assets.extra"
        )
        wait_for(lambda: client.server.versions.current.version == 2)
        assert client.metric('keras_bert_failed_versions{model="reviews"}') == 0


def test_edited_lines_are_not_scored(tmp_path):
    line = {"label": "film", "prediction": "film", "version": 3}
    changes = [
        {},
        {"version": float("inf")},
        {"label": 1},
        {"label": None},
        {"prediction": 0.5},
        {"version": "new"},
    ]
    rows = [json.dumps(line | change) for change in changes] + ["[" * 100_000]
    (tmp_path / "a.jsonl").write_text("\n".join([*rows, "[]", ""]))
    reports = []
    model, _ = stand_in(["label", "scores"])
    feedback.Feedback(tmp_path / "a.jsonl", lambda *report: reports.append(report)).start(model)
    assert reports == [(3, feedback.Scores(1, 1.0, 1.0))]


def test_labels_for_an_unloaded_version_are_stored(client, path):
    name = client.predict({"instances": ["joy"]}, "/versions/1")[1]["request_id"]
    request = {"request_id": name, "label": "positive"}
    assert client.predict(request, "/versions/7", method="feedback")[0] == 200
    assert json.loads(path.read_text())["version"] == 1
