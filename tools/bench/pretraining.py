"""Measures tokens per second of pre-training: this package, KerasHub and transformers (PyTorch).

    PYTHONPATH=. python tools/bench/pretraining.py --text wiki.txt --tokenizer vocabulary/

All systems train on the same batches of real text. Padding is not counted. A system with the suffix
`@padded` gets rows with a single example instead of packed rows.
"""

import argparse
import dataclasses
import json
import os
import sys
import tempfile
from pathlib import Path

import harness


def main(arguments=None):
    """Runs the benchmark and prints a Markdown table, or runs a worker."""
    options = _parse(arguments)
    if options.worker:
        _run_work(options)
        return
    with tempfile.TemporaryDirectory() as directory:
        reports = harness.measure(
            _prepare_commands(options, Path(directory)), options.rounds, options.threads
        )
    print(
        f"{options.model}, {options.layers or 'all'} layers, {options.precision}, "
        f"{options.batch_size} x {options.length}, {options.threads} threads, "
        f"{options.rounds} rounds of {options.steps} steps\n"
    )
    print(harness.table(reports, "tokens", baseline=options.systems[0]))
    harness.save(reports, options.json)
    losses = {name: round(rounds[-1]["loss"], 2) for name, rounds in reports.items()}
    print(f"\nlast losses: {losses}")


def _parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", required=True, help="corpus, in a format that `prepare` reads")
    parser.add_argument("--tokenizer", required=True, help="output folder of `keras-bert vocab`")
    parser.add_argument(
        "--systems",
        nargs="+",
        default=["ours", "ours-nsp", "keras-hub", "keras-hub-xla", "transformers"],
        metavar="SYSTEM",
        help="ours, ours-nsp, ours-xla, ours-2-replicas, ours-4-replicas, keras-hub, "
        "keras-hub-xla, transformers, transformers-compiled, each also with @padded; the first "
        "system is the denominator of the ratios",
    )
    parser.add_argument(
        "--model", default="bert-base-uncased", help="published name of the model configuration"
    )
    parser.add_argument("--layers", type=int, default=4, help="number of layers; 0: all")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--batch-size", type=int, default=8, help="rows of a batch")
    parser.add_argument("--length", type=int, default=128, help="tokens of a row")
    parser.add_argument("--steps", type=int, default=4, help="steps of a measurement")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", help="JSON file to write with all measurements")
    parser.add_argument("--worker", metavar="JSON", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _prepare_commands(options, directory):
    """Writes the batches of all systems. Returns the worker command of each system."""
    from batches import make_batches
    from systems import SYSTEMS

    from keras_bert_impl import EncoderConfig, Tokenizer

    vocabulary_size = Tokenizer.from_pretrained(options.tokenizer).vocabulary_size
    config = EncoderConfig.named(options.model, vocabulary_size=vocabulary_size)
    config = dataclasses.replace(config, num_layers=options.layers or config.num_layers)
    commands = {}
    for name in options.systems:
        system, _, rows = name.partition("@")
        if system not in SYSTEMS or rows not in ("", "padded"):
            sys.exit(
                f"unknown system {name!r}; choose from {', '.join(SYSTEMS)}, each also with "
                "@padded."
            )
        path = make_batches(
            options.text,
            options.tokenizer,
            directory,
            options.batch_size,
            options.length,
            options.steps,
            pack=not rows,
        )
        work = {"system": system, "config": config.to_dict(), "batches": str(path)}
        commands[name] = [
            *(sys.executable, __file__, "--text=", "--tokenizer="),
            f"--precision={options.precision}",
            f"--worker={json.dumps(work)}",
        ]
    return commands


def _run_work(options):
    from systems import SYSTEMS

    from keras_bert_impl import EncoderConfig

    work = json.loads(options.worker)
    config = EncoderConfig(**work["config"])
    harness.serve(SYSTEMS[work["system"]](config, options.precision, work["batches"]))


if __name__ == "__main__":
    main()
