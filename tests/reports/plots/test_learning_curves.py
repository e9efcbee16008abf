"""Learning curves: the file, the plotted data, and invalid input."""

import json
import re
import struct
import sys

import numpy as np
import pytest

from keras_bert_impl.reports.plots import learning_curves
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.version import install_command

REPORTS = [
    {"step": 10, "mlm_loss": 5.0, "learning_rate": 1e-3},
    {"step": 20, "mlm_loss": 4.0, "learning_rate": 5e-4},
    {"step": 20, "val_mlm_loss": 4.5, "val_nsp_accuracy": 0.75, "note": "text", "done": True},
]


def png_size(path):
    """(width, height) in pixels."""
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", head[16:24])


def test_every_metric_has_axes_with_its_data(tmp_path):
    log = tmp_path / "metrics.jsonl"
    log.write_text("".join(json.dumps(report) + "\n" for report in REPORTS) + "\n")
    path = tmp_path / "curves.png"
    figure = learning_curves(log, path, "A run", baselines={"mlm_loss": ("unigram", 6.5)})
    axes = {axis.get_title(): axis for axis in figure.axes}
    assert list(axes) == ["MLM loss", "Learning rate", "NSP accuracy"]
    training, held_out, baseline = axes["MLM loss"].lines
    np.testing.assert_array_equal(training.get_xydata(), [[10, 5.0], [20, 4.0]])
    np.testing.assert_array_equal(held_out.get_xydata(), [[20, 4.5]])
    assert set(baseline.get_ydata()) == {6.5}
    legend = [text.get_text() for text in axes["MLM loss"].get_legend().get_texts()]
    assert legend == ["training", "held out", "unigram"]
    assert axes["MLM loss"].get_xlabel() == "optimizer steps"
    assert axes["MLM loss"].get_ylabel() == "loss (nats)"
    # 1.0 + 3 · 4.4 by 0.6 + 3.3 inches at 120 dpi; rounding may lose one dot.
    assert png_size(path) == pytest.approx((1704, 468), abs=1)


def test_only_the_named_metrics_are_drawn(tmp_path):
    figure = learning_curves(REPORTS, tmp_path / "curves.png", names=["nsp_accuracy", "absent"])
    assert [axis.get_title() for axis in figure.axes] == ["NSP accuracy"]


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"step": 1, "loss": 2.0}\n{"step": 2, "lo', r"metrics\.jsonl:2: not valid JSON"),
        ("[1, 2]\n", r"metrics\.jsonl:1: a report must be an object"),
        ("", "no line has a step"),
        ('{"loss": 2.0}\n', "no line has a step"),
    ],
)
def test_broken_logs_are_named(tmp_path, text, message):
    log = tmp_path / "metrics.jsonl"
    log.write_text(text)
    with pytest.raises(InputError, match=message):
        learning_curves(log, tmp_path / "curves.png")
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_missing_log_is_named(tmp_path):
    with pytest.raises(InputError, match="gone.jsonl cannot be read"):
        learning_curves(tmp_path / "gone.jsonl", tmp_path / "curves.png")


def test_missing_matplotlib_error_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=re.escape(install_command("plots"))):
        learning_curves(REPORTS, tmp_path / "curves.png")
