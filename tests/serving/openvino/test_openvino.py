"""OpenVINO files: they compute what Keras does, and are refused if not."""


import numpy as np
import openvino
import pytest

from keras_bert_impl.cli.main import main
from keras_bert_impl.serving.openvino import export_openvino
from keras_bert_impl.serving.openvino.session import Session
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
TEXTS = ["a good film", "what a dull plot", "bad", "the plot is awful"]


def check_agreement(made, folder):
    found = {}
    for name, model in made.items():
        export_openvino(model, folder / name)
        config = getattr(model, "encoder", model).config
        found[name] = difference_from_keras(Session(folder / name / "model.xml", config), model)
    assert {name: value for name, value in found.items() if not value <= TOLERANCE} == {}


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """(an encoder of 512 positions, a session of its file)."""
    model = helpers.encoder(max_length=512)
    directory = tmp_path_factory.mktemp("long") / "served"
    export_openvino(model, directory)
    return model, Session(directory / "model.xml", model.config)


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("length", [1, 7, 64, 512])
def test_any_batch_and_length(long, batch, length):
    model, session = long
    given = random_features(model.config, [length, *[max(1, length // 2)] * (batch - 1)])
    assert difference_from_keras(session, model, given) <= TOLERANCE


@pytest.mark.parametrize("kind", ["albert", "modernbert"])
def test_architecture_agrees_with_keras(kind, tmp_path):
    check_agreement({"encoder": encoder(kind)}, tmp_path)


@pytest.mark.slow
def test_heads_of_bert_agree_with_keras(tmp_path):
    check_agreement(models("bert"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(ARCHITECTURES)[1:])
def test_heads_of_others_agree_with_keras(kind, tmp_path):
    check_agreement(models(kind, FEW_HEADS), tmp_path)


def test_precisions(tmp_path):
    model = helpers.encoder(hidden_dim=64, intermediate_dim=256, num_layers=2)
    reports, sizes = {}, {}
    for precision in ("fp32", "fp16", "int8"):
        reports[precision] = export_openvino(model, tmp_path / precision, precision)
        sizes[precision] = (tmp_path / precision / "model.bin").stat().st_size
    # A quarter and a half of 400 kB of matrices; vectors stay, and scales come.
    assert sizes["fp16"] < 0.51 * sizes["fp32"] and sizes["int8"] < 0.35 * sizes["fp32"]
    assert reports["fp32"].difference <= TOLERANCE
    assert 1e-6 < reports["fp16"].difference < 5e-3 < reports["int8"].difference < 0.2


def test_scales_from_texts(tmp_path):
    (model,) = models("bert", ["classifier"]).values()
    report = export_openvino(model, tmp_path / "served", "int8", calibration=TEXTS)
    read = openvino.Core().read_model(tmp_path / "served/model.xml")
    kinds = [operation.get_type_name() for operation in read.get_ops()]
    # What is multiplied by the 14 matrices; queries, keys and values are of the same states.
    assert kinds.count("FakeQuantize") >= 10
    assert 1e-4 < report.difference < 0.2


# === The command ===


@pytest.mark.slow
def test_command_writes_what_serves_without_the_model(tmp_path, capsys):
    model = helpers.classifier()
    command = export_command(model, tmp_path, "openvino")
    assert main([*command, "--out", str(tmp_path / "none"), "--max-drop", "-1"]) == 2
    said = capsys.readouterr().err.strip().split("\n")
    assert "drops from" in said[-1] and not (tmp_path / "none").exists()

    assert main([*command, "--out", str(tmp_path / "out"), "--max-drop", "0"]) == 0
    assert "wrote the OpenVINO model" in capsys.readouterr().err
    received = probabilities_of_docs("openvino", tmp_path / "out")
    expected = model.predict(TEXTS_OF_DOCS, verbose=0)
    np.testing.assert_allclose(received, expected, atol=TOLERANCE)
