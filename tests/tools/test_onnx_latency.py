"""The table of the ONNX latency benchmark."""

import importlib
import sys
from pathlib import Path

import pytest

BENCH = str(Path(__file__).resolve().parents[2] / "tools" / "bench")


@pytest.fixture
def bench():
    """The module of tools/bench, which is not a package."""
    sys.path.insert(0, BENCH)
    yield importlib.import_module("onnx_latency")
    sys.path.remove(BENCH)
    for name in ("onnx_latency", "harness"):
        del sys.modules[name]


def test_ratios_are_taken_within_a_round(bench):
    def reports(*milliseconds):
        return [
            {"seconds": ms / 100, "cpu_seconds": ms / 200, "batches": 10} for ms in milliseconds
        ]

    # The machine is two and four times as slow in the later rounds; the ratio stays 2.
    lines = list(bench._lines("1x8", {"ours": reports(1, 2, 4), "other": reports(2, 4, 8)}))
    assert lines[0].endswith("| 1.00 (1.00–1.00) |")
    assert lines[1] == "| 1x8 | other | 4.0 (2.0–8.0) | 2.0 (1.0–4.0) | 2.00 (2.00–2.00) |"
