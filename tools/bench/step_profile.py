#!/usr/bin/env python
"""Measures the processor time of a fine-tuning step by part and operation, and of PyTorch.

    export OMP_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1
    PYTHONPATH=. python tools/bench/step_profile.py --model MINILM --dtype mixed_bfloat16

A classifier is trained on random tokens. The first table shows processor times of the step without
some of its parts, and of the whole step in transformers with PyTorch. The second table adds up the
operations in TensorFlow's profile (`tf.profiler`). The profile contains wall-clock times, which
equal processor times with one thread on an otherwise idle machine.
"""

import argparse
import collections
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_bert_impl.tasks import TextClassifier
from keras_bert_impl.training.optimizers.adamw import default_optimizer


def steps(model, dtype, rows, length):
    """Returns a dict from names to functions: a training step, and the step without some parts."""
    plain, without_dropout = (
        TextClassifier.from_pretrained(model, num_classes=2, dtype=dtype, dropout=dropout)
        for dropout in (None, 0.0)
    )
    random = np.random.default_rng(0)
    ids = random.integers(5, plain.tokenizer.vocabulary_size, (rows, length)).astype("int32")
    x = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": np.ones_like(ids)}
    batch = x, random.integers(0, 2, rows)
    inputs = {name: tf.constant(values) for name, values in x.items()}
    seed = tf.constant([1, 2])

    @tf.function(autograph=False)
    def gradients():
        examples = inputs, tf.constant(batch[1]), None
        return plain._compute_loss_and_gradients(
            examples, plain._compute_totals(*examples, training=True), seed
        )[1]

    @tf.function(autograph=False)
    def forward():
        return without_dropout(inputs, training=True)

    return {
        "whole step": _build_step(plain, batch),
        "without dropout": _build_step(without_dropout, batch),
        "without update and clipping": gradients,
        "forward only, without dropout": forward,
    }


def _build_step(model, batch):
    model.compile(default_optimizer(1000), jit_compile=False)
    data = tf.data.Dataset.from_tensors(batch).repeat()
    model.fit(data.take(1), verbose=0)
    batches = iter(data)
    model.make_train_function()
    return lambda: model.train_function(batches)


def pytorch_step(model, dtype, rows, length):
    """Returns the same step in transformers: SDPA attention, autocast, fused AdamW, clipping."""
    import torch
    import transformers

    network = transformers.AutoModelForSequenceClassification.from_pretrained(model).train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=5e-5, weight_decay=0.01, fused=True)
    random = np.random.default_rng(0)
    ids = torch.from_numpy(random.integers(5, network.config.vocab_size, (rows, length)))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    labels = torch.from_numpy(random.integers(0, 2, rows))

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "mixed_bfloat16"):
            loss = network(**batch, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def processor_milliseconds(functions, rounds):
    """Returns a dict from names to the milliseconds of each round. The functions alternate."""
    milliseconds = collections.defaultdict(list)
    for function in functions.values():
        function()
    for _ in range(rounds):
        for name, function in functions.items():
            started = time.process_time()
            function()
            milliseconds[name].append(1000 * (time.process_time() - started))
    return milliseconds


def operations(function, rounds):
    """Returns two Counters keyed by operation type: milliseconds per call, and number of calls."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    milliseconds, calls = collections.Counter(), collections.Counter()
    space = xplane_pb2.XSpace()
    with tempfile.TemporaryDirectory() as directory:
        with tf.profiler.experimental.Profile(directory):
            for _ in range(rounds):
                function()
        (path,) = Path(directory).rglob("*.xplane.pb")
        space.ParseFromString(path.read_bytes())
    for plane in space.planes:
        for event in (event for line in plane.lines for event in line.events):
            # The event of an operation is "name:Type". Other events are functions of the runtime.
            name, _, kind = plane.event_metadata[event.metadata_id].name.rpartition(":")
            if name and kind.isidentifier() and "::" not in f"{name}:" and "#" not in name:
                milliseconds[kind] += event.duration_ps / 1e9 / rounds
                calls[kind] += 1 / rounds
    return milliseconds, calls


def table_of_parts(milliseconds):
    """Returns a Markdown table with median, minimum and maximum."""
    lines = ["| part | milliseconds |", "|---|---|"]
    for name, values in milliseconds.items():
        cells = statistics.median(values), min(values), max(values)
        lines.append("| {} | {:.1f} ({:.1f}–{:.1f}) |".format(name, *cells))
    return "\n".join(lines)


def table_of_operations(milliseconds, calls, most=15):
    """Returns a Markdown table of the `most` slowest types of operations."""
    total = sum(milliseconds.values())
    lines = ["| operation | calls | milliseconds | share |", "|---|---|---|---|"]
    for kind, value in milliseconds.most_common(most):
        lines.append(f"| {kind} | {calls[kind]:.0f} | {value:.1f} | {value / total:.1%} |")
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, help="a model directory")
    parser.add_argument("--dtype", default="mixed_bfloat16", help="or float32")
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--lengths", type=int, nargs="+", default=[24, 96], help="tokens per row")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args(arguments)
    for length in options.lengths:
        step = options.model, options.dtype, options.rows, length
        functions = steps(*step)
        print(f"\n{options.rows} x {length}, {options.dtype}\n")
        systems = functions | {"whole step of PyTorch": pytorch_step(*step)}
        print(table_of_parts(processor_milliseconds(systems, options.rounds)))
        print(f"\n{table_of_operations(*operations(functions['whole step'], options.rounds))}")


if __name__ == "__main__":
    main()
