"""`keras-bert serve --feedback`: labels for answers, as rows to train on, and their scores."""

import json
import os

import pytest

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.serving.saved_model import export_version
from keras_bert_impl.serving.server import feedback
from keras_bert_impl.tasks import read_table
from tests.serving.families import SPEECH, tagger
from tests.serving.server.servers import running
from tests.tasks.helpers import classifier

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


def label(client, request_id, value, **more):
    request = {"request_id": request_id, "label": value} | more
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
        found = read_table(path, "body", label="mood", dates="time", encoding=encoding)
        assert dict(zip(found.texts, found.labels)) == dict(zip(TEXTS, labels))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert {row["prediction"] for row in rows} <= {"negative", "positive"}
    assert all(row["version"] == 1 and row["request_id"] == answer["request_id"] for row in rows)
    assert [row["correct"] for row in rows] == [row["prediction"] == row["mood"] for row in rows]


def test_metrics_are_those_of_scikit_learn_on_the_last_labels(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(feedback, "_WINDOW", 4)
    path = tmp_path / "feedback.jsonl"
    labels = ["positive", "negative", "positive", "positive", "negative"]
    with running(folder / "reviews", feedback=path) as client:
        assert client.metric('keras_bert_feedback_rows{version="1"}') == 0
        _, answer = client.predict({"inputs": TEXTS})
        for row, one in enumerate(labels):
            label(client, answer["request_id"], one, row=row)
        predicted = [one.decode() for one in map(str.encode, answer["outputs"]["label"])]
        measured = scores(client)
    expected = (
        4,
        metrics.accuracy_score(labels[1:], predicted[1:]),
        metrics.f1_score(labels[1:], predicted[1:], average="macro"),
    )
    assert measured == pytest.approx(expected)
    with path.open("a") as file:
        file.write('{"torn')
    with running(folder / "reviews", feedback=path) as client:  # after a restart
        assert scores(client) == pytest.approx(expected)


def scores(client):
    names = ("rows", "accuracy", "macro_f1")
    return tuple(client.metric(f'keras_bert_feedback_{name}{{version="1"}}') for name in names)


def test_errors_say_what_is_wrong(client, path):
    _, one = client.predict({"instances": ["joy"]})
    _, two = client.predict({"instances": ["joy", "dull"]})
    name = one["request_id"]
    wrong = [
        ((name, "good"), 400, "Label 'good' is not one of 'negative', 'positive'."),
        ((name, ["positive"]), 400, "'label' must be one label."),
        ((name, None), 400, "Label None is not one of"),
        (("0" * 32, "positive"), 404, "is unknown. The server stores the last 100000 responses"),
        ((7, "positive"), 400, "'request_id' must be a string, not 7"),
        ((two["request_id"], "positive"), 400, "'row' must be from 0 to 1. Received: None"),
    ]
    for arguments, status, message in wrong:
        found, answer = label(client, *arguments)
        assert found == status and message in answer["error"]
    assert label(client, name, "positive", row=1)[0] == 400
    assert label(client, name, "positive", more=1)[0] == 400
    for body in (b"", b"[]", b'{"label": "positive"}', b"{"):
        assert client.predict(body, method="feedback")[0] == 400
    assert not path.exists()
    assert label(client, name, "positive")[0] == 200
    status, answer = label(client, name, "negative")
    assert status == 409 and f"Row 0 of {name} already has a label." == answer["error"]
    other = client.send("POST", "/v1/models/other:feedback", b"{}")
    assert other[0] == 404 and "this server has the model reviews" in other[2]


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
    monkeypatch.setattr(feedback, "_MOST_TEXT", 20)
    names = [client.predict({"instances": ["a good film"]})[1]["request_id"] for _ in range(2)]
    assert [label(client, name, "positive")[0] for name in names] == [404, 200]


def test_pairs_and_several_labels(folder, tmp_path):
    topics = ["film", "plot", "joy"]
    model = classifier(labels=topics, problem_type="multi_label_classification")
    run = folder / "several"
    run.mkdir()
    columns = {"text": "a", "pair": "b", "label": "film, plot,joy"}
    for number, one in enumerate((columns | {"label": "topics"}, columns)):
        (run / "data.json").write_text(json.dumps({"read_with": one}))
        path, name = tmp_path / f"{number}.jsonl", f"topics-{number}"
        export_version(model.signatures(), folder / name, run=run)
        with running(folder / name, feedback=path) as client:
            request = {"signature_name": "pairs", "instances": [{"first": "joy", "second": "dull"}]}
            _, answer = client.predict(request)
            assert label(client, answer["request_id"], "joy")[0] == 400
            assert label(client, answer["request_id"], ["joy", "film"])[0] == 200
            _, answer = client.predict(request)
            assert label(client, answer["request_id"], [])[0] == 200
        found = read_table(path, "a", "b", label="topics" if number == 0 else topics)
        assert found.texts == [("joy", "dull")] * 2 and found.labels == [["film", "joy"], []]


def test_what_cannot_store_feedback(folder, reviews, tmp_path):
    status, answer = label(reviews, "0", "positive")
    assert status == 501 and "Start it with --feedback FILE" in answer["error"]
    export_version(tagger(labels=SPEECH).signatures(), folder / "tagger")
    with pytest.raises(InputError, match="supports only text classifiers"):
        with running(folder / "tagger", feedback=tmp_path / "a.jsonl"):
            pass
    (folder / "run" / "data.json").write_text('{"read_with": {"text": "time", "label": "a"}}')
    export_version(classifier().signatures(), folder / "clash", run=folder / "run")
    with pytest.raises(InputError, match="may not have columns 'time'"):
        with running(folder / "clash", feedback=tmp_path / "a.jsonl"):
            pass
