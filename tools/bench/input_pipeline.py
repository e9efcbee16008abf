"""Measures input pipelines: this package, KerasHub, tokenizers and transformers.

    PYTHONPATH=. python tools/bench/input_pipeline.py --text wiki.txt --tokenizer vocabulary/

It has three parts: tokenization of lines, masked batches of 32 rows of 128 tokens, and records from
raw text. Padding is not counted.
"""

import argparse
import dataclasses
import json
import os
import sys
import tempfile

import harness
from pipelines import PARTS, Source


def main(arguments=None):
    """Runs the benchmark and prints a Markdown table for each part, or runs a worker."""
    options = _parse(arguments)
    if options.worker:
        part, system, source = json.loads(options.worker)
        harness.serve(PARTS[part][system](Source(**source)))
        return
    measured = {}
    for part in options.parts:
        with tempfile.TemporaryDirectory() as directory:
            commands = {
                system: _build_command(options, part, system, os.path.join(directory, str(number)))
                for number, system in enumerate(PARTS[part])
                if options.systems is None or system in options.systems
            }
            reports = harness.measure(commands, options.rounds, options.threads)
        measured[part] = reports
        print(f"{part}: {options.threads} threads, {options.rounds} rounds\n")
        print(harness.table(reports, "tokens", baseline=next(iter(commands))), "\n")
    harness.save(measured, options.json)


def _parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", required=True, help="corpus, in a format that `prepare` reads")
    parser.add_argument(
        "--tokenizer", required=True, help="output folder of `keras-bert vocab` for lowercase text"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--systems", nargs="+", help="default: all systems")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", help="JSON file to write with all measurements")
    parser.add_argument("--worker", metavar="JSON", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _build_command(options, part, system, directory):
    source = Source(options.text, options.tokenizer, directory)
    work = json.dumps([part, system, dataclasses.asdict(source)])
    return [sys.executable, __file__, "--text=", "--tokenizer=", f"--worker={work}"]


if __name__ == "__main__":
    main()
