"""OpenVINO files: shared layers, precisions, and calibration on texts."""

import os

import openvino
import pytest

from keras_bert_impl.serving.openvino import Session, export_openvino
from keras_bert_impl.utils.errors import InputError
from tests.serving.network_models import TOLERANCE, difference_from_keras, encoder, models
from tests.tasks import helpers

HAS_BF16 = "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
TEXTS = ["a good film", "what a dull plot", "bad", "the plot is awful"]


def test_shared_layers_agree_with_keras(tmp_path):
    model = encoder("albert")
    export_openvino(model, tmp_path / "served")
    session = Session(tmp_path / "served" / "model.xml", model.config)
    assert difference_from_keras(session, model) <= TOLERANCE


def test_precisions(tmp_path):
    model = helpers.encoder(hidden_dim=64, intermediate_dim=256, num_layers=2)
    reports, sizes = {}, {}
    for precision in ("fp32", "fp16", "int8"):
        reports[precision] = export_openvino(model, tmp_path / precision, precision)
        sizes[precision] = (tmp_path / precision / "model.bin").stat().st_size
    # Matrices of 400 kB shrink to a half or a quarter; vectors do not, and scales are added.
    assert sizes["fp16"] < 0.51 * sizes["fp32"] and sizes["int8"] < 0.35 * sizes["fp32"]
    assert reports["fp32"].difference <= TOLERANCE
    assert 1e-6 < reports["fp16"].difference < 5e-3
    # Each weight has a random error of up to half of 1/127: some 1 % of the sums, in each layer.
    assert 1e-3 < reports["int8"].difference < 0.1


@pytest.mark.skipif(not HAS_BF16, reason="this processor does not compute in bfloat16")
def test_bfloat16_is_compared_in_bfloat16(tmp_path):
    model = helpers.encoder(hidden_dim=64, intermediate_dim=256, num_layers=2)
    report = export_openvino(model, tmp_path / "served", "bf16")
    # Rounding to 8 bits is an error of up to 2 ** -9 in each of some ten operations in a row.
    assert 1e-4 < report.difference < 0.05
    assert '"INFERENCE_PRECISION_HINT": "bf16"' in (tmp_path / "served" / "README.md").read_text()
    weights = {"fp32": tmp_path / "exact", "bf16": tmp_path / "served"}
    export_openvino(model, weights["fp32"])
    exact, half = (path.joinpath("model.bin").read_bytes() for path in weights.values())
    assert exact == half


def test_refuses_bfloat16_of_a_processor_without_it(tmp_path, monkeypatch):
    def property_of(core, device, name):
        return ["FP32", "INT8"]

    monkeypatch.setattr(openvino.Core, "get_property", property_of)
    with pytest.raises(InputError, match="does not compute in bfloat16; use precision fp32"):
        export_openvino(helpers.encoder(), tmp_path / "served", "bf16")
    assert not (tmp_path / "served").exists()


def test_scales_from_texts(tmp_path, capfd):
    (model,) = models("bert", ["classifier"]).values()
    report = export_openvino(model, tmp_path / "served", "int8", calibration=TEXTS)
    read = openvino.Core().read_model(tmp_path / "served/model.xml")
    kinds = [operation.get_type_name() for operation in read.get_ops()]
    # Inputs of the 14 matrices; query, key and value share theirs.
    assert kinds.count("FakeQuantize") >= 10
    assert 1e-4 < report.difference < 0.2
    assert os.environ["NNCF_CI"]  # it reports nothing to its authors
    assert capfd.readouterr().out == ""
