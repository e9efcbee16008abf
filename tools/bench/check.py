#!/usr/bin/env python
"""Quickly measures the main ratios in docs/measurements, and reports ratios below a bound.

    PYTHONPATH=. python tools/bench/check.py --model MINILM --text wiki.txt

It takes about two minutes on 2 cores. Short runs on a shared machine vary, so the bounds are loose:
the check detects a slowdown of 20%, but not of 5%. The ratios compare processor times within a
round. `run.sh` writes the tables.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import harness

HERE = Path(__file__).parent
_CHARACTERS = 1_000_000  # characters of the text


class Check(NamedTuple):
    """A benchmark, with the minimum ratio of our speed to the speed of each peer.

    Attributes:
        what: description of the work, for the table.
        command: script and arguments; `{model}` and `{text}` are filled in.
        reports: function from the benchmark's JSON to its `harness.measure` result.
        unit: name of the count in each report.
        least: dict from peers to minimum ratios.
        ours: name of the system that is compared with the peers.
    """

    what: str
    command: str
    reports: Callable[[dict], dict]
    unit: str
    least: dict[str, float]
    ours: str = "ours"


CHECKS = [
    Check(
        "step of pre-training, 2 layers of BERT-base, 8 x 128",
        "pretraining.py --text {text} --tokenizer {model} --layers 2 --steps 2 --rounds 3 "
        "--systems ours keras-hub transformers",
        lambda report: report,
        "tokens",
        {"keras-hub": 1.0, "transformers": 1.3},
    ),
    Check(
        "tokenization of lists",
        "input_pipeline.py --text {text} --tokenizer {model} --rounds 3 --parts tokenization "
        "--systems 'ours, lists' 'tokenizers, 1 thread'",
        lambda report: report["tokenization"],
        "tokens",
        {"tokenizers, 1 thread": 4.0},
        "ours, lists",
    ),
    Check(
        "texts to scores, MiniLM, 32 x 32",
        "serving.py --model {model} --text {text} --rounds 3 --seconds 0.5 --shapes 32x32 "
        "--systems ours pytorch",
        lambda report: report["32x32"],
        "batches",
        {"pytorch": 0.75},  # 0.9 on an Intel Xeon with AMX, 1.2 on an AMD EPYC
    ),
]


def main(arguments: list[str] | None = None) -> int:
    """Prints a table; returns 1 if a ratio is below its bound."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="model directory of a MiniLM")
    parser.add_argument("--text", type=Path, required=True, help="a file of running text")
    options = parser.parse_args(arguments)
    print("| work | peer | ours is times as fast | at least | |\n|---|---|---|---|---|")
    has_fallen = False
    for check in CHECKS:
        reports = check.reports(_run(check.command, options.model, options.text))
        for peer, least in check.least.items():
            ratios = times_as_fast(reports[check.ours], reports[peer], check.unit)
            fell = statistics.median(ratios) < least
            has_fallen |= fell
            cells = [check.what, peer, harness.spread(ratios, 2), str(least), "FELL" * fell]
            print(f"| {' | '.join(cells)} |", flush=True)
    return int(has_fallen)


def _run(command: str, model: str, text: Path) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path, beginning = Path(folder, "measured.json"), Path(folder, "text.txt")
        lines = text.read_text(encoding="utf-8")[:_CHARACTERS].splitlines()
        # without the tags of a Wikipedia dump
        plain = "\n".join(line for line in lines if line[:1] != "<")
        beginning.write_text(plain, encoding="utf-8")
        script, *arguments = shlex.split(command.format(model=model, text=beginning))
        subprocess.run(
            [sys.executable, str(HERE / script), *arguments, "--json", str(path)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return json.loads(path.read_text())


def times_as_fast(ours: list[dict], peer: list[dict], unit: str) -> list[float]:
    """Returns the ratio (peer / ours) of processor time per unit of work, for each round."""
    pairs = zip(ours, peer, strict=True)
    return [b["cpu_seconds"] / b[unit] / (a["cpu_seconds"] / a[unit]) for a, b in pairs]


if __name__ == "__main__":
    sys.exit(main())
