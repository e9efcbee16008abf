"""tools/bench/accelerator.py on a machine without TensorFlow; and PyTorch's part of it."""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from keras_bert_impl import Encoder, Pretrainer
from tests.helpers import MODERN, TINY

ROOT = Path(__file__).resolve().parents[2]
ROWS, LENGTH, PREDICTIONS = 4, 128, 10


def write_batches(path, vocabulary=40, steps=2):
    """Batches in the form of `batches.make_batches`; the last 20 tokens are padding."""
    draw = np.random.default_rng(0)
    shape = steps, ROWS, LENGTH
    places = np.broadcast_to(np.arange(LENGTH), shape)
    arrays = {
        "token_ids": draw.integers(1, vocabulary, shape),
        "segment_ids": np.zeros(shape),
        "position_ids": places,
        "example_ids": (1 + (places > 40)) * (places < LENGTH - 20),
        "masked_positions": draw.integers(1, LENGTH - 20, (steps, ROWS, PREDICTIONS)),
        "labels.masked_lm": draw.integers(1, vocabulary, (steps, ROWS, PREDICTIONS)),
    }
    weights = np.ones((steps, ROWS, PREDICTIONS), "float32")
    path.parent.mkdir(exist_ok=True)
    arrays = {name: array.astype("int32") for name, array in arrays.items()}
    np.savez(path, **arrays, **{"weights.masked_lm": weights})


@pytest.mark.parametrize(
    ("device", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("TPU v5 lite", 197),
        ("cpu", None),
    ],
)
def test_the_peak_is_found_by_the_name_of_the_device(bench, device, peak):
    assert bench("accelerator").peak_of(device) == peak


def test_utilization_counts_real_tokens(bench):
    report = {"tokens": 1000, "seconds": 2.0, "flops": 4e9, "device": "cpu", "memory": 3e9}
    peer = {"tokens": 1000, "seconds": 4.0, "device": "cpu", "memory": 0}
    options = argparse.Namespace(peak_tflops=8.0)
    ours, pytorch = bench("accelerator")._format_rows(
        {"ours": [report], "pytorch": [peer]}, options
    )
    # 500 tokens/s of 4e9 operations are 2 of 8 TFLOP/s.
    assert ours == ("ours", "500 (500–500)", "1.00 (1.00–1.00)", "25.0 (25.0–25.0) %", "3.0")
    assert pytorch[2:] == ("0.50 (0.50–0.50)", "12.5 (12.5–12.5) %", "unknown")


@pytest.mark.parametrize("config", [TINY, MODERN])
def test_pytorch_has_as_many_weights_and_separates_examples(bench, config):
    ours = Pretrainer(Encoder(config), ["masked_lm"])
    torch.manual_seed(0)
    model = bench("accelerator_pytorch").MaskedLM(config).eval()
    pooler = ours.encoder.pooler.count_params() if config.use_pooler else 0
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == ours.count_params() - pooler

    ids = torch.arange(12)[None] % 5
    examples = torch.tensor([[1] * 6 + [2] * 6])
    rows = {"segment_ids": ids * 0, "position_ids": ids, "example_ids": examples}
    masked = {"masked_positions": torch.tensor([[1, 2]]), "labels": torch.tensor([[3, -100]])}
    loss = model(ids, **rows, **masked)
    changed = torch.cat([ids[:, :6], ids[:, 6:] + 9], dim=1)  # of the other example
    assert loss.isfinite() and torch.equal(loss, model(changed, **rows, **masked))


@pytest.mark.slow
def test_runs_without_tensorflow(tmp_path):
    write_batches(tmp_path / "batches" / "128.npz")
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "tensorflow.py").write_text("raise ModuleNotFoundError('no TensorFlow here')\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(blocked), str(ROOT)])}

    def table(command, *options):
        program = [sys.executable, str(ROOT / "tools" / "bench" / "accelerator.py"), command]
        models = "--models", "bert_uncased_L-2_H-128_A-2", "--layers", "1"
        program += ["--batches", str(tmp_path / "batches"), *models, *options]
        process = subprocess.run(program, env=environment, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr[-3000:]
        return process.stdout.splitlines()[2:]

    (line,) = table("analyze")
    assert re.fullmatch(r"\| bert_uncased_L-2_H-128_A-2 \| 128 \| 4 (\| [\d.]+ ){4}\|", line)
    lines = table("run", "--rounds", "2", "--peak-tflops", "1")
    assert [line.split(" | ")[2] for line in lines] == ["ours", "pytorch"]
    assert all(re.search(r"\d \(\d.*\) %", line) for line in lines)
    systems = ["ours-forward", "transformers-forward"]
    lines = table("run", "--rounds", "1", "--peak-tflops", "1", "--systems", *systems)
    assert [line.split(" | ")[2] for line in lines] == systems
