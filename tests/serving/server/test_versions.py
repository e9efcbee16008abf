"""Versions that appear, vanish and are broken while a server runs."""

import json
import os
import shutil
import threading
import types

import pytest
import tensorflow as tf

from keras_bert_impl.serving.saved_model import BATCH_SIZES, example_inputs, write_warmup
from keras_bert_impl.serving.server.model import WARMUP, read_warmup
from keras_bert_impl.serving.server.versions import Folder, Versions
from keras_bert_impl.serving.server.wire import ApiError
from keras_bert_impl.utils.errors import InputError
from tests.serving.server.servers import running, wait_for


@pytest.fixture
def folder(exported, tmp_path):
    """A folder of one version."""
    shutil.copytree(exported("single_label")[1] / "1", tmp_path / "reviews" / "1")
    return tmp_path / "reviews"


def add(folder, version):
    """Copies version 1 elsewhere and renames it, as exports do."""
    shutil.copytree(folder / "1", folder / ".new")
    os.rename(folder / ".new", folder / version)


def states(client):
    rows = json.loads(client.get(client.path)[1])["model_version_status"]
    return {row["version"]: (row["state"], row["status"]["error_code"]) for row in rows}


@pytest.mark.slow
def test_a_newer_version_takes_over_without_a_gap(folder):
    with running(folder, poll_seconds=0.1) as client:
        statuses, stop = [], threading.Event()

        def ask():
            while not stop.is_set():
                statuses.append(client.predict({"instances": ["good"]})[0])

        thread = threading.Thread(target=ask)
        thread.start()
        add(folder, "2")
        wait_for(lambda: states(client).get("2") == ("AVAILABLE", "OK"))
        stop.set()
        thread.join()
        assert set(statuses) == {200} and len(statuses) > 3
        assert states(client) == {"2": ("AVAILABLE", "OK"), "1": ("END", "OK")}
        assert client.predict({"instances": ["good"]}, "/versions/2")[0] == 200
        assert client.predict({"instances": ["good"]}, "/versions/1") == (
            404,
            {"error": "Servable not found for request: Specific(reviews, 1)"},
        )
        assert client.metric('keras_bert_model_version{model="reviews"}') == 2
        shutil.rmtree(folder / "2")  # back to the version before
        wait_for(lambda: states(client)["1"] == ("AVAILABLE", "OK"))
        assert client.predict({"instances": ["good"]}, "/versions/1")[0] == 200


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("columns", "[1]"),
        ("columns", "5"),
        ("labels", "{}"),
        ("labels", "[1]"),
        ("thresholds", "{"),
    ],
)
def test_a_version_with_damaged_descriptions_is_passed_over(folder, tmp_path, name, content):
    add(folder, "2")
    (folder / f"2/assets.extra/{name}.json").write_text(content)
    with running(folder, feedback=tmp_path / "labels.jsonl") as client:
        assert client.predict({"instances": ["good"]}, "/versions/1")[0] == 200
        assert states(client)["2"] == ("END", "DATA_LOSS")
        assert sum(f"{name}.json" in line for line in client.lines) == 1


@pytest.mark.parametrize("kind", ["weights", pytest.param("graph", marks=pytest.mark.slow)])
def test_a_broken_version_is_passed_over(folder, kind):
    add(folder, "2")
    graph, weights = folder / "2/saved_model.pb", folder / "2/variables"
    good = graph.read_bytes()
    if kind == "graph":
        graph.write_bytes(good[: len(good) // 2])
    else:
        shutil.rmtree(weights)
    with running(folder, poll_seconds=0.1) as client:
        assert client.predict({"instances": ["good"]}, "/versions/1")[0] == 200
        state, code = states(client)["2"]
        assert state == "END" and code != "OK"
        assert sum("version 2 cannot be loaded: " in line for line in client.lines) == 1
        assert kind == "graph" or any("variables" in line for line in client.lines)
        assert all("\n" not in line and len(line) < 600 for line in client.lines)
        if kind == "weights":  # a copy that is complete now
            shutil.copytree(folder / "1/variables", weights)
            wait_for(lambda: states(client)["2"] == ("AVAILABLE", "OK"))
            assert client.predict({"instances": ["good"]}, "/versions/2")[0] == 200


def test_warmup_requests_are_run(folder, exported):
    signatures, _ = exported("single_label")
    functions = {"ids": signatures.function("ids"), "pairs": signatures.function("pairs")}
    path = folder / "1" / WARMUP
    write_warmup(path, signatures, functions, "reviews")
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    requests = [read_warmup(record) for record in records]
    assert [name for name, _ in requests] == ["ids"] * 3 + ["pairs"] * 3
    for (name, arrays), size in zip(requests, BATCH_SIZES * 2):
        expected = example_inputs(signatures, functions[name], size)
        assert arrays.keys() == expected.keys()
        for key, array in expected.items():
            assert tf.reduce_all(tf.constant(arrays[key]) == tf.constant(array))
    with running(folder) as client:
        assert states(client)["1"] == ("AVAILABLE", "OK")
    path.write_bytes(path.read_bytes()[:-20])
    with running(folder) as client:
        assert states(client)["1"] == ("END", "DATA_LOSS")
        assert client.get("/readyz")[0] == 503
        assert client.predict({"instances": ["good"]})[0] == 404


def test_one_saved_model(folder):
    assert Folder(folder / "1").versions() == [(1, folder / "1")]
    assert Folder(folder / "1").name == "reviews"
    (folder / "1").rename(folder.parent / "plain")
    single = Folder(folder.parent / "plain", "films")
    assert single.name == "films" and single.versions() == [(1, folder.parent / "plain")]


@pytest.mark.parametrize("version", [1732700000000000000, 2**63 - 1])
def test_versions_are_64_bit_integers(folder, version):
    add(folder, str(version))
    assert Folder(folder).versions() == [(version, folder / str(version)), (1, folder / "1")]
    (folder / str(version)).rename(folder / str(2**63))
    with pytest.raises(InputError, match=f"at most {2**63 - 1}"):
        Folder(folder)


def test_folders_without_a_model(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        Folder(tmp_path / "none")
    with pytest.raises(InputError, match="contains no SavedModel"):
        Folder(tmp_path)
    (tmp_path / "1").mkdir()
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="contains no SavedModel"):
        Folder(tmp_path)
    with pytest.raises(InputError, match="is a file"):
        Folder(tmp_path / "config.json")


def written(folder, version, content):
    (folder / version).mkdir(parents=True)
    (folder / version / "saved_model.pb").write_text(content)


def versions_of(folder, report=lambda line: None):
    """Versions whose "models" have the content of their file; "bad" cannot be loaded."""

    def load(path, version):
        content = (path / "saved_model.pb").read_text()
        if content == "bad":
            raise ApiError("no graph", "DATA_LOSS")
        return types.SimpleNamespace(version=version, content=content)

    return Versions(Folder(folder), load, report)


def test_a_version_with_other_files_is_loaded_again(tmp_path):
    written(tmp_path, "1", "first")
    versions = versions_of(tmp_path)
    versions.load_newest()
    first = versions.current
    (tmp_path / "1" / "notes.txt").write_text("mine")
    versions.load_newest()
    assert versions.current is first
    for content, served in (
        ("second one", "second one"),
        ("bad", "second one"),
        ("third", "third"),
    ):
        shutil.rmtree(tmp_path / "1")
        versions.load_newest()  # deleted: goes on answering
        written(tmp_path, "1", content)
        versions.load_newest()
        assert versions.current.content == served
        assert [state["state"] for state in versions.status(versions.name, None)] == ["AVAILABLE"]


def test_the_watch_goes_on_when_nobody_reads_its_messages(tmp_path):
    def broken(line):
        raise BrokenPipeError

    written(tmp_path, "1", "first")
    versions = versions_of(tmp_path, broken)
    versions.load_newest()
    versions.watch(0.01)
    for version in ("2", "3"):
        written(tmp_path, version, version)
        wait_for(lambda: versions.current.content == version)
    assert versions.stop(5)


@pytest.mark.parametrize("name", ["a/b", "a:b"])
def test_rejects_names_that_no_url_has(tmp_path, name):
    written(tmp_path, "1", "first")
    with pytest.raises(InputError, match="must not contain / or :"):
        Folder(tmp_path, name)
