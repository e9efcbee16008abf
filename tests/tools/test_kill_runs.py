"""tools/kill_runs.py: runs are killed, finish, and differences are detected."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_two_kills(tmp_path, monkeypatch):
    out = tmp_path / "out"
    command = [sys.executable, "tools/kill_runs.py", "--out", out, "--kills", "2", "--steps", "100"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(list(map(str, command)), cwd=ROOT, env=environment, check=True, timeout=900)
    lines = [json.loads(line) for line in (out / "kills.jsonl").read_text().splitlines()]
    kills = [line for line in lines if "moment" in line]
    assert len(kills) >= 2 and lines[-1]["equal"]
    assert not list(out.glob("killed-1-*[0-9]"))  # equal runs are deleted

    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from kill_runs import difference, everything_of

    whole = everything_of(out / "undisturbed-1")
    assert [line["step"] for line in whole["reports"]] == list(range(5, 101, 5))
    copy = shutil.copytree(out / "undisturbed-1", tmp_path / "copy")
    assert difference(whole, everything_of(copy)) == []
    path = copy / "model" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert difference(whole, everything_of(copy)) == ["model"]
    # One step earlier: weights, optimizer and step differ.
    for file in (copy / "checkpoints").glob("ckpt-20.*"):
        file.unlink()
    assert len(difference(whole, everything_of(copy))) > 20
