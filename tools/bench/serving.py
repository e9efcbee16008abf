"""Measures the latency from texts to scores: this package in every format, and other libraries.

    PYTHONPATH=. python tools/bench/serving.py --model DIR --text FILE --shapes 1x32 1x128 32x128

All systems of a run use the same weights and texts. They classify the texts, or compute embeddings
if their name begins with "embed". All times include tokenization. All texts have the same number of
tokens; for a shape such as 32xmixed, random lines of the file are drawn. Each system runs in a
separate process, one at a time, in a new random order in every round. On a shared machine, compare
the ratios, which are computed within a round, and the CPU times.
"""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

import harness
import numpy as np
import serving_systems

_BATCHES = 8  # number of different batches
_CALIBRATION = 128  # texts
_LONGEST = 512  # maximum number of tokens; longer texts in a mixed batch are truncated


def main(arguments=None):
    """Runs the benchmark and prints Markdown tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="model directory of a BERT, fine-tuned or not")
    parser.add_argument("--text", type=Path, help="text file")
    parser.add_argument(
        "--shapes",
        nargs="+",
        default=["1x32", "1x128", "1x384", "32x32", "32x128", "32x384", "32xmixed"],
        help="batch size x length including [CLS] and [SEP], or batch size x mixed",
    )
    parser.add_argument(
        "--systems",
        nargs="+",
        choices=serving_systems.SYSTEMS,
        default=[
            name
            for name in serving_systems.CLASSIFIERS
            if "compiled" not in name and name not in serving_systems.PEERS
        ],
        help="systems; the first is the denominator of the ratios",
    )
    parser.add_argument(
        "--peer-python",
        default=sys.executable,
        help=f"Python of an environment for {', '.join(serving_systems.PEERS)}, which need other "
        "packages",
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="approximate seconds for each system in a round"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", help="JSON file to write with all measurements")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        system, folder, shape = options.serve
        harness.serve(_prepare_work(system, Path(folder), shape, options.seconds, options.threads))
        return
    measured = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        texts = lines_of(options.text)[:_CALIBRATION]
        serving_systems.write_models(options.model, folder, options.systems, texts)
        for shape in options.shapes:
            batches = texts_of(options.text, folder / "pytorch", shape)
            (folder / f"{shape}.json").write_text(json.dumps(batches))
            commands = {
                name: [_choose_python(name, options), __file__, "--threads", str(options.threads)]
                + ["--seconds", str(options.seconds), "--serve", name, str(folder), shape]
                for name in options.systems
            }
            measured[shape] = harness.measure(commands, options.rounds, options.threads)
            print(table(shape, measured[shape]), flush=True)
    harness.save(measured, options.json)


def _choose_python(name, options):
    return options.peer_python if name in serving_systems.PEERS else sys.executable


def texts_of(path, directory, shape):
    """Returns batches of texts.

    Args:
        path: `Path` of a text.
        directory: `Path` with a `tokenizer.json`.
        shape: str, batch size x tokens per text, or batch size x "mixed" for lines of two or more
            words.

    Returns:
        list of lists of str; the same text is in several batches if there are not enough texts.
    """
    batch, length = shape.split("x", 1)
    lines = lines_of(path)
    if length == "mixed":
        drawn = random.Random(0).sample(lines, int(batch) * _BATCHES)
        return [drawn[first::_BATCHES] for first in range(_BATCHES)]
    return _cut_texts(lines, directory, int(batch), int(length), shape)


def lines_of(path):
    """Returns the lines with at least two words, without the tags of a Wikipedia dump."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line[:1] != "<" and " " in line]


def _cut_texts(lines, directory, batch, length, shape):
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_truncation()
    text = " ".join(" ".join(lines).split())[: batch * length * _BATCHES * 12]
    offsets, parts, start = tokenizer.encode(text, add_special_tokens=False).offsets, [], 0
    while len(parts) < batch * _BATCHES and start + length - 2 <= len(offsets):
        first, last = offsets[start], offsets[start + length - 3]
        part = text[first[0] : last[1]]
        # a text cut inside a word may have other subword tokens
        if len(tokenizer.encode(part).ids) == length:
            parts.append(part)
        start += length - 2
    if len(parts) < batch:
        raise SystemExit(f"too little text for {shape}.")
    return [[parts[(b * batch + i) % len(parts)] for i in range(batch)] for b in range(_BATCHES)]


def _prepare_work(system, folder, shape, seconds, threads):
    """Returns the function to be measured, which times batches for a given number of seconds."""
    import time

    batches = json.loads((folder / f"{shape}.json").read_text())
    length = _measure_length(shape, sum(batches, []), folder / "pytorch")
    run = serving_systems.SYSTEMS[system](folder, length, threads)

    def timed(count):
        times = []
        for number in range(count):
            begun = time.perf_counter()
            scores = run(batches[number % len(batches)])
            times.append(1e3 * (time.perf_counter() - begun))
        return times, np.asarray(scores)

    timed(3)  # warms up traces and memory arenas
    count = max(1, round(1e3 * seconds / np.median(timed(3)[0])))

    def work():
        times, scores = timed(count)
        return {"batches": count, "milliseconds": times, "score": float(scores.ravel()[0])}

    return work


def _measure_length(shape, texts, directory):
    """Returns the number of tokens per text, or of the longest text in a mixed batch."""
    import tokenizers

    length = shape.split("x", 1)[1]
    if length != "mixed":
        return int(length)
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.enable_truncation(_LONGEST)
    return max(len(row.ids) for row in tokenizer.encode_batch(texts))


def table(shape, reports):
    """Returns a Markdown table for a shape: percentiles over all rounds, ratios per round.

    Args:
        shape: str.
        reports: result of `harness.measure`, with `batches` and the `milliseconds` of each batch.
    """
    batch = int(shape.split("x")[0])
    lines = [
        f"| {shape} | p50, p95, p99, ms | texts/s | CPU ms of a batch | p50, ratio | CPU, ratio |",
        "|---|---|---|---|---|---|",
    ]

    def medians(name):
        return [float(np.median(report["milliseconds"])) for report in reports[name]]

    def processor(name):
        return [1e3 * report["cpu_seconds"] / report["batches"] for report in reports[name]]

    baseline = next(iter(reports))
    for name in reports:
        times = np.concatenate([report["milliseconds"] for report in reports[name]])
        cells = [", ".join(f"{time:.1f}" for time in np.percentile(times, [50, 95, 99]))]
        cells += [f"{1e3 * batch * len(times) / times.sum():,.1f}"]
        cells += [harness.spread(processor(name), 1)]
        for of in (medians, processor):
            ratios = [a / b for a, b in zip(of(name), of(baseline), strict=True)]
            cells.append(harness.spread(ratios, 2))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
