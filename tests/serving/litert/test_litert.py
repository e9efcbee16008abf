"""LiteRT files: they compute what Keras does, with builtin operators, and are refused if not."""

import collections

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from keras_bert_impl.cli.main import main
from keras_bert_impl.errors import InputError
from keras_bert_impl.serving.litert import export, export_litert
from keras_bert_impl.serving.litert.session import Session
from tests.helpers import random_features
from tests.serving.network_models import (
    ARCHITECTURES,
    TEXTS_OF_DOCS,
    difference_from_keras,
    encoder,
    export_command,
    models,
    probabilities_of_docs,
)
from tests.tasks import helpers

# Both compute in float32 and differ in the order of their sums, over values of the order of 1.
TOLERANCE = 1e-5
FEW_HEADS = ("encoder", "classifier", "masked")
_NAMES = {number: name for name, number in vars(schema.BuiltinOperator).items()}


def operators(directory):
    """How often each operator is in a file."""
    model = schema.ModelT.InitFromPackedBuf((directory / "model.tflite").read_bytes(), 0)
    codes = [
        _NAMES[max(code.builtinCode, code.deprecatedBuiltinCode)] for code in model.operatorCodes
    ]
    (graph,) = model.subgraphs
    return collections.Counter(codes[operator.opcodeIndex] for operator in graph.operators)


def check_agreement(made, folder):
    found = {}
    for name, model in made.items():
        export_litert(model, folder / name)
        assert not {"CUSTOM", "DELEGATE"} & set(operators(folder / name))
        config = getattr(model, "encoder", model).config
        found[name] = difference_from_keras(Session(folder / name / "model.tflite", config), model)
    assert {name: value for name, value in found.items() if not value <= TOLERANCE} == {}


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """(an encoder of 512 positions, the directory of its file)."""
    model = helpers.encoder(max_length=512)
    directory = tmp_path_factory.mktemp("long") / "served"
    export_litert(model, directory)
    return model, directory


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("length", [1, 7, 64, 512])
def test_any_batch_and_length(long, batch, length):
    model, directory = long
    given = random_features(model.config, [length, *[max(1, length // 2)] * (batch - 1)])
    session = Session(directory / "model.tflite", model.config)
    assert difference_from_keras(session, model, given) <= TOLERANCE
    # And again in another shape, as a session goes on.
    given = random_features(model.config, [3, 2])
    assert difference_from_keras(session, model, given) <= TOLERANCE


def test_operators_are_builtin_ones(long):
    found = operators(long[1])
    # Query, key, value, output, two of the feed-forward part, and the pooler.
    assert found["FULLY_CONNECTED"] == 7 and found["GELU"] == 1 and found["SOFTMAX"] == 1
    assert found["BATCH_MATMUL"] == 2 and "CUSTOM" not in found


def test_modernbert_agrees_with_keras(tmp_path):
    check_agreement({"encoder": encoder("modernbert")}, tmp_path)


@pytest.mark.slow
def test_heads_of_bert_agree_with_keras(tmp_path):
    check_agreement(models("bert"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(ARCHITECTURES)[1:])
def test_heads_of_others_agree_with_keras(kind, tmp_path):
    check_agreement(models(kind, FEW_HEADS), tmp_path)


@pytest.mark.slow
def test_precisions(tmp_path):
    model = helpers.encoder(hidden_dim=64, intermediate_dim=256, num_layers=2)
    reports = {one: export_litert(model, tmp_path / one, one) for one in ("fp32", "fp16", "int8")}
    sizes = [report.bytes for report in reports.values()]
    # A quarter and a half of 400 kB of matrices; 1-dimensional weights and the graph stay.
    assert sizes[1] < 0.65 * sizes[0] and sizes[2] < 0.45 * sizes[0]
    assert reports["fp32"].difference <= TOLERANCE
    assert 1e-6 < reports["fp16"].difference < 5e-3 < reports["int8"].difference < 0.2


def test_what_is_refused(tmp_path, monkeypatch):
    model = helpers.classifier()
    with pytest.raises(InputError, match="leave out --calibrate"):
        export_litert(model, tmp_path / "served", "int8", calibration=["a"])
    monkeypatch.setattr(export, "_LARGE", 1000)
    with pytest.raises(InputError, match="more than a LiteRT file holds"):
        export_litert(model, tmp_path / "served")
    assert not (tmp_path / "served").exists()


# === The command ===


@pytest.mark.slow
def test_command_writes_what_serves_without_the_model(tmp_path, capsys):
    model = helpers.classifier()
    command = export_command(model, tmp_path, "litert")
    assert main([*command, "--out", str(tmp_path / "none"), "--max-drop", "-1"]) == 2
    said = capsys.readouterr().err.strip().split("\n")
    assert "drops from" in said[-1] and not (tmp_path / "none").exists()

    assert main([*command, "--out", str(tmp_path / "out"), "--max-drop", "0"]) == 0
    assert "wrote the LiteRT model" in capsys.readouterr().err
    received = probabilities_of_docs("ai_edge_litert", tmp_path / "out")
    expected = model.predict(TEXTS_OF_DOCS, verbose=0)
    np.testing.assert_allclose(received, expected, atol=TOLERANCE)
