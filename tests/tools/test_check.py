"""tools/bench/check.py and run.sh: bounds are held against the right ratios, commands exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "tools" / "bench"


@pytest.fixture(scope="module")
def check(bench):
    return bench("check")


def reports(*rates):
    """Reports of a system with these rates, in tokens per second of processor time."""
    return [{"tokens": 10 * rate, "cpu_seconds": 10.0} for rate in rates]


def test_ratios_are_taken_within_a_round(check):
    ours, peer = reports(100, 50), reports(50, 100)
    assert check.times_as_fast(ours, peer, "tokens") == [2.0, 0.5]


@pytest.mark.parametrize("rate, status", [(150, 0), (119, 1)])
def test_a_ratio_below_its_bound_is_named(check, monkeypatch, capsys, rate, status):
    measured = {"ours": reports(rate, rate, rate), "peer": reports(100, 100, 100)}
    monkeypatch.setattr(check, "_run", lambda *arguments: measured)
    single_check = check.Check(
        "work", "script {model}", lambda report: report, "tokens", {"peer": 1.2}
    )
    monkeypatch.setattr(check, "CHECKS", [single_check])
    assert check.main(["--model=m", "--text=t"]) == status
    assert ("FELL" in capsys.readouterr().out) == bool(status)


def test_every_command_of_both_has_known_options(check):
    ran = subprocess.run(
        ["bash", BENCH / "run.sh", ".", ".", "out"],
        env=os.environ | {"DRY_RUN": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    commands = [line.removeprefix("python tools/bench/") for line in ran.stdout.splitlines()]
    assert len(commands) == 10
    commands += [measurement.command + " --json file" for measurement in check.CHECKS]
    for script in {command.split()[0] for command in commands}:
        options = {
            option
            for command in commands
            if command.split()[0] == script
            for option in re.findall(r" (--[a-z-]+)", command)
        }
        help_text = subprocess.run(
            [sys.executable, BENCH / script, "--help"], capture_output=True, text=True, check=True
        ).stdout
        assert {option for option in options if f"{option} " not in help_text} == set(), script


def test_an_unknown_benchmark_is_named():
    ran = subprocess.run(
        ["bash", BENCH / "run.sh", ".", ".", "out", "training"], capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("no benchmark training; there is: ")
