"""Runs the same tests on JAX in a separate process, since a process has one backend."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARITY = "tests/checkpoints/interop/test_parity.py"
ENCODER = "tests/models/test_encoder.py"
FUSED = "tests/layers/test_fused_attention.py", "tests/layers/test_packed_rows.py"


def run_on_jax(*tests, **environment):
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env=os.environ | {"KERAS_BACKEND": "jax"} | environment,
        capture_output=True,
        text=True,
    )
    # Exit status 0: tests were collected and all passed.
    assert result.returncode == 0, result.stdout[-5000:]


@pytest.mark.slow
def test_a_layer():
    run_on_jax("tests/layers/test_rotary.py", "tests/layers/test_dropout.py::test_compiled")


@pytest.mark.slow
def test_longformer():
    run_on_jax(
        "tests/layers/test_longformer.py",
        "tests/layers/test_segment_mask.py",
        "tests/checkpoints/interop/test_longformer.py",
    )


@pytest.mark.slow
def test_fused_attention_and_loss():
    files = "tests/layers/test_vocabulary_loss.py", "tests/pretraining/test_factored_logits.py"
    devices = "--xla_force_host_platform_device_count=2"
    run_on_jax(*FUSED, *files, XLA_FLAGS=devices)


@pytest.mark.slow
def test_everything():
    run_on_jax(
        "tests/layers",
        *(f"--ignore={path}" for path in (*FUSED, "tests/layers/test_cross_entropy.py")),
        ENCODER,
        PARITY,
        "tests/checkpoints/interop/test_directory.py",
    )
