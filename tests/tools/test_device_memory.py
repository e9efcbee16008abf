"""`tools/bench/device_memory.py`, in a process with JAX."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow  # half a minute
def test_state_is_divided_among_devices():
    command = [sys.executable, "tools/bench/device_memory.py"]
    command += ["--model", "bert_uncased_L-2_H-128_A-2", "--model-devices", "2"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^\| (.*) \| ([0-9.]+) \| ([0-9.]+) \|$", printed, re.MULTILINE)
    (_, weights, replicated), (_, _, sharded), (_, divided, _) = rows
    weights, replicated, sharded, divided = map(float, (weights, replicated, sharded, divided))
    assert abs(replicated - 2 * weights) < 0.2  # two moments of each weight; printed with one digit
    assert replicated / 8 <= sharded + 0.1 < 1.1 * replicated / 8  # some vectors are whole
    assert weights / 2 <= divided < 1.1 * weights / 2  # the head is whole
