"""Masked LM training and the encoder alone on an accelerator: this package on JAX, and PyTorch.

    PYTHONPATH=. python tools/bench/accelerator.py prepare --text wiki.txt --tokenizer vocabulary/ \\
        --out batches
    PYTHONPATH=. python tools/bench/accelerator.py run --batches batches
    PYTHONPATH=. python tools/bench/accelerator.py analyze --batches batches

`prepare` needs TensorFlow. `run` and `analyze` need JAX, Keras and safetensors; `run` also needs
PyTorch. All systems train on the same batches of packed rows in bfloat16. Padding is not counted.
Attention has no dropout, as in ModernBERT. `--systems ours-forward transformers-forward` measures
the encoder alone, without training.
"""

import argparse
import dataclasses
import json
import os
import sys
import tempfile
from pathlib import Path

import harness

# TFLOP/s in bfloat16 without sparsity, keyed by a part of the device name. Sources: the data sheets
# of NVIDIA's H200, H100, A100 and L4; cloud.google.com/tpu/docs for each TPU, per chip.
PEAKS = {
    "H200": 989,
    "H100 PCIe": 756,
    "H100": 989,
    "A100": 312,
    "L4": 121,
    "TPU v6": 918,
    "TPU v5p": 459,
    "TPU v5": 197,
    "TPU v4": 275,
}
SYSTEMS = ("ours", "pytorch", "transformers", "ours-forward", "transformers-forward")
_BATCH_SIZES = {128: 128, 512: 32, 2048: 8}  # sequence length -> rows in a batch of 16,384 tokens


def main(arguments=None):
    """Runs a command."""
    options = _parse(arguments)
    {"prepare": _prepare, "run": _run, "analyze": _print_analysis, "worker": _run_work}[
        options.command
    ](options)


def _parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    prepare = commands.add_parser("prepare", help="write batches of real text")
    prepare.add_argument("--text", required=True, help="corpus, in a format that `prepare` reads")
    prepare.add_argument("--tokenizer", required=True, help="folder of a tokenizer")
    prepare.add_argument("--out", required=True, type=Path, help="new folder")
    prepare.add_argument("--lengths", type=int, nargs="+", default=list(_BATCH_SIZES))
    prepare.add_argument("--batch-size", type=int, help="rows per batch; default: 16,384 tokens")
    prepare.add_argument("--steps", type=int, default=20, help="batches of each length")
    for name in ("run", "analyze"):
        command = commands.add_parser(name)
        command.add_argument("--batches", required=True, type=Path, help="folder of `prepare`")
        command.add_argument(
            "--models", nargs="+", default=["bert-base-uncased", "ModernBERT-base"]
        )
        command.add_argument("--layers", type=int, default=0, help="number of layers; 0: all")
        if name == "run":
            command.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS[:2])
            command.add_argument("--rounds", type=int, default=7)
            command.add_argument(
                "--peak-tflops", type=float, help="default: determined by the name of the device"
            )
    commands.add_parser("worker").add_argument("work", help="JSON")
    return parser.parse_args(arguments)


def _prepare(options):
    from batches import make_batches

    options.out.mkdir(parents=True)
    for length in options.lengths:
        rows = options.batch_size or _BATCH_SIZES.get(length, max(1, 16384 // length))
        with tempfile.TemporaryDirectory() as directory:
            path = make_batches(
                options.text,
                options.tokenizer,
                Path(directory),
                rows,
                length,
                options.steps,
                pack=True,
            )
            (options.out / f"{length}.npz").write_bytes(path.read_bytes())


def _list_works(options):
    """Yields (model name, path of batches, config) for each measurement, shortest rows first."""
    from keras_bert_impl import EncoderConfig

    paths = sorted(options.batches.glob("*.npz"), key=lambda path: int(path.stem))
    if not paths:
        sys.exit(f"{options.batches} has no batches: run `prepare` first.")
    for name in options.models:
        config = EncoderConfig.named(name)
        for path in paths:
            if int(path.stem) <= config.max_length:
                config = dataclasses.replace(config, attention_dropout=0.0, use_pooler=False)
                layers = options.layers or config.num_layers
                yield name, path, dataclasses.replace(config, num_layers=layers)


def _run(options):
    os.environ |= {"KERAS_BACKEND": "jax", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    head = "| model | tokens in a row | system | tokens/s | ratio | FLOP utilization | memory, GB |"
    print(f"{head}\n{'|---' * 7}|")
    for name, path, config in _list_works(options):
        commands = {
            system: [
                *(sys.executable, __file__, "worker"),
                json.dumps({"system": system, "config": config.to_dict(), "batches": str(path)}),
            ]
            for system in options.systems
        }
        reports = harness.measure(commands, options.rounds, os.cpu_count(), together=True)
        for cells in _format_rows(reports, options):
            print(f"| {' | '.join((name, path.stem, *cells))} |", flush=True)


def _format_rows(reports, options):
    """Yields the cells of each system: median, minimum and maximum of the rounds."""
    (baseline, *_) = reports.values()
    flops = next(report["flops"] for report in baseline)
    for system, rounds in reports.items():
        rates = [report["tokens"] / report["seconds"] for report in rounds]
        ratios = [
            rate * base["seconds"] / base["tokens"]
            for rate, base in zip(rates, baseline, strict=True)
        ]
        peak = options.peak_tflops or peak_of(rounds[-1]["device"])
        shares = [rate * flops / (peak * 1e12) for rate in rates] if peak else []
        memory = rounds[-1]["memory"] / 1e9
        yield (
            system,
            harness.spread(rates, 0),
            harness.spread(ratios, 2),
            harness.spread([100 * share for share in shares], 1) + " %" if shares else "unknown",
            f"{memory:.1f}" if memory else "unknown",
        )


def peak_of(device):
    """Returns the peak rate of a device in TFLOP/s, or None if its name is not in the table."""
    return next((peak for part, peak in PEAKS.items() if part in device), None)


def _run_work(options):
    import accelerator_systems

    work = json.loads(options.work)
    from keras_bert_impl import EncoderConfig

    config = EncoderConfig(**work["config"])
    system = getattr(accelerator_systems, work["system"].replace("-", "_"))
    harness.serve(system(config, work["batches"]))


def _print_analysis(options):
    """Prints XLA's analysis of the compiled steps, without running them."""
    os.environ["KERAS_BACKEND"] = "jax"
    from accelerator_systems import compiled_step

    print(
        "| model | tokens in a row | rows | TFLOP | GB accessed | arguments, GB | temporary, GB |"
    )
    print("|---" * 7 + "|")
    for name, path, config in _list_works(options):
        step, rows = compiled_step(config, path)
        cost, memory = step.cost_analysis(), step.memory_analysis()
        cost = cost[0] if isinstance(cost, list) else cost  # before JAX 0.5
        numbers = (
            f"{cost['flops'] / 1e12:.2f}",
            f"{cost['bytes accessed'] / 1e9:.0f}",
            f"{memory.argument_size_in_bytes / 1e9:.2f}",
            f"{memory.temp_size_in_bytes / 1e9:.2f}",
        )
        print(f"| {' | '.join((name, path.stem, str(rows), *numbers))} |", flush=True)


if __name__ == "__main__":
    main()
