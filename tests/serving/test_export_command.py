"""`keras-bert export`: files, checks and errors, on a model that is not read again."""

import re

import pytest
import tensorflow as tf

from keras_bert_impl.cli.main import main
from keras_bert_impl.serving import check
from keras_bert_impl.utils.errors import InputError
from tests.tasks import helpers
from tests.tasks.helpers import classifier


@pytest.fixture
def signatures(monkeypatch):
    loaded = classifier().signatures()
    monkeypatch.setattr("keras_bert_impl.runs.evaluation.load_signatures", lambda *how: loaded)
    return loaded


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "--out is missing; write keras-bert export"),
        (["--out", "a", "--check", "b"], "pass --out to export, or --check DIR"),
        (["--out", "a", "--check", "--ids-only"], "--check compares outputs for strings"),
        (["--check"], "pass --out to export, or --check DIR"),
        (["--out", "a", "--max-drop", "1"], "--max-drop requires labeled examples"),
        (["--check", "a", "--xla", "1x8"], "--xla requires --out"),
        (["--check", "a", "--whole-batches"], "--whole-batches requires --out"),
        (["--check", "a", "--no-custom-ops"], "--no-custom-ops requires --out"),
        (["--out", "a", "--format", "onnx", "--no-custom-ops"], "requires --format saved_model"),
        (["--out", "a", "--format", "onnx", "--whole-batches"], "requires --format saved_model"),
    ],
)
def test_arguments_that_do_not_go_together(arguments, message, capsys):
    assert main(["export", "--model", "bert-base-uncased", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("difference, status", [(9e-6, 0), (2e-5, 1), (float("nan"), 1)])
def test_the_status_of_a_check(signatures, monkeypatch, tmp_path, capsys, difference, status):
    monkeypatch.setattr(check, "largest_difference", lambda *_, **__: difference)
    path = str(tmp_path)
    assert main(["export", "--model", "bert-base-uncased", "--check", path]) == status
    written = capsys.readouterr()
    assert written.out == f"largest difference from the model: {difference:.1e}\n"
    assert (f"{path} and the model have outputs that differ" in written.err) == bool(status)


@pytest.mark.parametrize("difference, status", [(0.02, 0), (0.2, 1), (float("inf"), 1)])
def test_a_check_in_bfloat16_allows_for_its_rounding(
    monkeypatch, tmp_path, capsys, difference, status
):
    half = classifier(dtype="mixed_bfloat16").signatures()
    monkeypatch.setattr("keras_bert_impl.runs.evaluation.load_signatures", lambda *how: half)
    monkeypatch.setattr(check, "largest_difference", lambda *_, **__: difference)
    assert main(["export", "--model", "bert-base-uncased", "--check", str(tmp_path)]) == status
    assert ("by more than 0.1" in capsys.readouterr().err) == bool(status)


def test_rejects_a_directory_without_a_saved_model(signatures, tmp_path, capsys):
    assert main(["export", "--model", "bert-base-uncased", "--check", str(tmp_path)]) == 2
    assert "it does not contain saved_model.pb" in capsys.readouterr().err


@pytest.mark.slow
def test_rejects_a_damaged_saved_model(signatures, tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"not one")
    with pytest.raises(InputError, match="cannot be run: "):
        check.largest_difference(signatures, tmp_path)


def test_differences():
    expected = [{"labels": ["a"], "scores": [[0.5, 0.25]], "count": 1}]
    row = {"labels": ["a", ""], "scores": [[0.5, 0.5], [0.0, 0.0]], "count": 1, "other": 3}
    assert check.difference_of_rows(expected, [row]) == 0.25
    for name, wrong in (("labels", ["b"]), ("count", 2), ("scores", [[float("nan")] * 2])):
        assert check.difference_of_rows(expected, [row | {name: wrong}]) == float("inf")
    assert check.difference_of_rows(expected, [row | {"scores": [[0.5]]}]) == float("inf")
    assert check.difference_of_rows([{"texts": ["\0"]}], [{"texts": ["\0", ""]}]) == 0
    assert check.difference_of_rows([{"texts": ["\0"]}], [{"texts": [""]}]) == float("inf")
    assert check.difference_of_rows([{"answer": "\0"}], [{"answer": "\0"}]) == 0
    assert check.difference_of_rows([{"answer": "\0"}], [{"answer": ""}]) == float("inf")


def test_scores_in_bfloat16_and_float32(tmp_path, capsys):
    model, rows, out = tmp_path / "model", tmp_path / "rows.csv", tmp_path / "reviews"
    classifier().save_pretrained(model)
    rows.write_text("text,label\nhello world,negative\nhello world,positive\n")
    command = ["export", "--model", model, "--out", out, "--dtype", "mixed_bfloat16"]
    command += ["--dev", rows, "--text", "text", "--label", "label", "--max-drop"]
    assert main([*map(str, command), "-1"]) == 2
    message = capsys.readouterr().err
    assert "the score drops from 50.00 to 50.00, by more than -1 points" in message
    assert not out.exists()
    assert main([*map(str, command), "0"]) == 0
    assert "score 50.00 in float32 and 50.00 as exported" in capsys.readouterr().err
    loaded = tf.saved_model.load(str(out / "1"))
    nodes = loaded.signatures["ids"].graph.as_graph_def().library.function
    types = {node.attr["T"].type for body in nodes for node in body.node_def if node.op == "MatMul"}
    assert tf.bfloat16.as_datatype_enum in types


def test_ids_only(signatures, tmp_path):
    command = [
        "export",
        "--model",
        "bert-base-uncased",
        "--out",
        str(tmp_path / "reviews"),
        "--ids-only",
    ]
    assert main(command) == 0
    served = tf.saved_model.load(str(tmp_path / "reviews" / "1")).signatures
    assert set(served) == {"serving_default", "ids", "hub_ids"}


def test_no_custom_operations(signatures, tmp_path):
    command = ["export", "--model", "bert-base-uncased", "--no-custom-ops"]
    assert main([*command, "--out", str(tmp_path / "reviews")]) == 0
    assert b"FastWordpiece" not in (tmp_path / "reviews" / "1" / "saved_model.pb").read_bytes()


def test_a_run_is_no_folder_for_exports(tmp_path, capsys):
    (tmp_path / "recipe.yaml").touch()
    assert main(["export", "--model", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "is a run; choose a different folder for the export." in capsys.readouterr().err


def test_neighbors_of_an_embedder_in_bfloat16(tmp_path, capsys):
    model, out = tmp_path / "model", tmp_path / "vectors"
    helpers.save_base(model)
    command = ["export", "--model", model, "--as", "embedder", "--out", out]
    assert main([*map(str, command), "--dtype", "mixed_bfloat16"]) == 0
    message = capsys.readouterr().err
    match = re.search(
        r"changes for ([\d.]+)% of 96 built-in English sentences, compared with", message
    )
    assert 0 <= float(match[1]) <= 100
    assert main([*map(str, command)]) == 0
    assert "nearest neighbor" not in capsys.readouterr().err
