"""LiteRT files: operators, precisions, and rejected models."""

import pytest

from keras_bert_impl.serving import litert
from keras_bert_impl.serving.litert import export_litert
from keras_bert_impl.utils.errors import InputError
from tests.serving.litert.operators import check_builtin, operators
from tests.tasks import helpers


def test_operators_are_builtin_ones(tmp_path):
    export_litert(helpers.encoder(), tmp_path / "served")
    check_builtin(tmp_path / "served")
    counts = operators(tmp_path / "served")
    # Query, key, value, output, two feed-forward layers, and the pooler.
    assert counts["FULLY_CONNECTED"] == 7 and counts["GELU"] == 1 and counts["SOFTMAX"] == 1
    assert counts["BATCH_MATMUL"] == 2


@pytest.mark.slow
def test_precisions(tmp_path):
    model = helpers.encoder(hidden_dim=64, intermediate_dim=256, num_layers=2)
    reports = {
        precision: export_litert(model, tmp_path / precision, precision)
        for precision in ("fp32", "fp16", "int8")
    }
    sizes = [report.bytes for report in reports.values()]
    # Matrices of 400 kB shrink to a half or a quarter; 1-dimensional weights and the graph do not.
    assert sizes[1] < 0.65 * sizes[0] and sizes[2] < 0.45 * sizes[0]
    assert reports["fp32"].difference <= 1e-5  # float32, as in `network/test_runtimes.py`
    assert 1e-6 < reports["fp16"].difference < 5e-3 < reports["int8"].difference < 0.2


def test_what_is_refused(tmp_path, monkeypatch):
    model = helpers.classifier()
    with pytest.raises(InputError, match="does not use calibration texts"):
        export_litert(model, tmp_path / "served", "int8", calibration=["a"])
    monkeypatch.setattr(litert, "_LARGE", 1000)
    with pytest.raises(InputError, match="larger than 2 GiB, the limit of a LiteRT file"):
        export_litert(model, tmp_path / "served")
    assert not (tmp_path / "served").exists()
