#!/usr/bin/env python
"""Estimates pre-training: memory per chip, and days and cost with 1 to 1,024 chips.

    python tools/tpu/plan.py memory --model bert-base-uncased --length 128 --rows 64
    python tools/tpu/plan.py days --model bert-base-uncased --steps 900000 --batch 256 --length 128 \
        --chip v4 --utilization 0.4 --price 3.22

`memory` compiles the step with XLA for this machine's processor, and prints the size of its buffers
without running it. It needs JAX (extra `jax`). `days` runs nothing.
"""

import os
from typing import NamedTuple

import commands

_GIB = 2**30


class Chip(NamedTuple):
    """Data from a chip's data sheet.

    Attributes:
        flops: peak bfloat16 FLOP per second.
        memory: in GiB.
        pod: largest number of connected chips.
        reduced: bytes per second of an all-reduce in a pod, for all chips together.
    """

    flops: float
    memory: float
    pod: int
    reduced: float


# cloud.google.com/tpu/docs/v3, /v4 and /v5e
CHIPS = {
    "v3": Chip(123e12, 32, 1024, 340e12),
    "v4": Chip(275e12, 32, 4096, 1.1e15),
    "v5e": Chip(197e12, 16, 256, 51.2e12),
}
_COUNTS = [1, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


class Job(NamedTuple):
    """A phase of a pre-training run, with a fixed batch size and row length."""

    model: str
    steps: int
    batch: int
    length: int
    predictions: int

    @property
    def step_flops(self) -> float:
        """FLOP of a step on all chips: three times the forward pass."""
        from keras_bert_impl import EncoderConfig
        from keras_bert_impl.training.runs.reports import encoder_flops, vocabulary_flops

        config = EncoderConfig.named(self.model)
        row = self.length * encoder_flops(config, self.length)
        row += self.predictions * vocabulary_flops(config)
        return 3 * self.batch * row

    @property
    def num_parameters(self) -> int:
        from keras_bert_impl import EncoderConfig

        return EncoderConfig.named(self.model).num_parameters()


def days(job: Job, chip: Chip, num_chips: int, utilization: float) -> tuple[float, float, float]:
    """Returns (arithmetic seconds per step, all-reduce seconds per step, days of the job).

    Gradients are summed in float32. Each chip sends `2 * (n - 1) / n` times their size, at its
    fraction of the pod's rate, and not in parallel with the arithmetic.
    """
    compute = job.step_flops / num_chips / (chip.flops * utilization)
    size = 4 * job.num_parameters
    reduced = 2 * (num_chips - 1) / num_chips * size / (chip.reduced / chip.pod)
    return compute, reduced, job.steps * (compute + reduced) / 86_400


def table_of_days(job: Job, chip: Chip, utilization: float, price: float | None) -> str:
    """Returns a Markdown table with one row for each number of chips."""
    money = " cost |" if price else ""
    lines = [
        f"| chips | rows a chip | arithmetic, ms | all-reduce, ms | tokens/s | days | chip hours |{money}",
        "|---|" + "---|" * (6 + bool(price)),
    ]
    for count in _COUNTS:
        if job.batch % count or count > chip.pod:
            continue
        compute, reduced, length = days(job, chip, count, utilization)
        rate = job.batch * job.length / (compute + reduced)
        hours = 24 * length * count
        cells = [count, job.batch // count, f"{1e3 * compute:,.1f}", f"{1e3 * reduced:.1f}"]
        cells += [f"{rate:,.0f}", f"{length:,.2f}", f"{hours:,.0f}"]
        cells += [f"{hours * price:,.0f}"] if price else []
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def memory(
    model: str, length: int, rows: int, predictions: int, dtype: str, remat: bool
) -> dict[str, int]:
    """Returns the size in bytes of a training step's buffers in XLA, and of the training state."""
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import jax.numpy as jnp
    import keras
    import numpy as np

    from keras_bert_impl import Encoder, EncoderConfig, Pretrainer
    from keras_bert_impl.layers.basic import dropout_seed, recomputation

    pretrainer = Pretrainer(Encoder(EncoderConfig.named(model), dtype=dtype), ["masked_lm"])
    ids = jax.ShapeDtypeStruct((rows, length), jnp.int32)
    slots = jax.ShapeDtypeStruct((rows, predictions), jnp.int32)
    features = {name: slots if "mask" in name else ids for name in pretrainer.input}
    weights = jax.ShapeDtypeStruct((rows, predictions), jnp.float32)
    fixed = [v.value for v in pretrainer.non_trainable_variables]

    def step(trained, features, labels, weights):
        def loss(trained):
            outputs, _ = pretrainer.stateless_call(trained, fixed, features, training=True)
            labeled = {"masked_lm": labels}, {"masked_lm": weights}
            totals = pretrainer.loss_totals(features, *labeled)
            return pretrainer.loss_share(features, labeled[0], outputs, labeled[1], totals)

        with dropout_seed(jnp.zeros(2, "uint32")), recomputation(remat):
            return jax.value_and_grad(loss)(trained)

    trained = [
        jax.ShapeDtypeStruct(v.shape, jnp.dtype(v.dtype)) for v in pretrainer.trainable_variables
    ]
    compiled = jax.jit(step).lower(trained, features, slots, weights).compile().memory_analysis()
    parameters = sum(int(np.prod(v.shape)) for v in pretrainer.trainable_variables)
    keras.backend.clear_session()
    return {
        "weights": 4 * parameters,
        "moments": 8 * parameters,
        "gradients": 4 * parameters,
        "activations": compiled.temp_size_in_bytes,
    }


def main(arguments: list[str] | None = None) -> None:
    """Prints a plan."""
    parser = commands.Parser(__doc__)
    count = commands.whole_number()
    parser.add_argument("what", choices=["memory", "days"])
    parser.add_argument("--model", required=True, help="a published name")
    parser.add_argument("--length", type=count, required=True, help="tokens per row")
    parser.add_argument("--predictions", type=count, help="masked tokens per row; default: 15 %%")
    parser.add_argument("--rows", type=count, help="memory: rows in the batch of a chip")
    parser.add_argument("--dtype", default="mixed_bfloat16", help="memory: Keras dtype policy")
    parser.add_argument("--remat", action="store_true", help="memory: recompute activations")
    parser.add_argument("--steps", type=count, help="days: number of steps")
    parser.add_argument("--batch", type=count, help="days: rows in the global batch")
    parser.add_argument("--chip", choices=CHIPS, default="v4", help="days: kind of chip")
    parser.add_argument(
        "--utilization",
        type=float,
        default=0.4,
        help="days: fraction of the peak FLOP per second that a step reaches",
    )
    parser.add_argument("--price", type=float, help="days: price of a chip per hour")
    options = parser.parse_args(arguments)
    for name in ("rows",) if options.what == "memory" else ("steps", "batch"):
        if getattr(options, name) is None:
            parser.error(f"{options.what} needs --{name}")
    if not 0 < options.utilization <= 1:
        parser.error(f"--utilization must be above 0 and at most 1, not {options.utilization}")
    if options.price is not None and not 0 < options.price < float("inf"):
        parser.error(f"--price must be a positive number, not {options.price}")
    from keras_bert_impl import EncoderConfig

    try:
        EncoderConfig.named(options.model)
    except ValueError as error:
        parser.error(f"argument --model: {error}")
    predictions = options.predictions or round(0.15 * options.length)
    if options.what == "days":
        job = Job(options.model, options.steps, options.batch, options.length, predictions)
        chip = CHIPS[options.chip]
        print(table_of_days(job, chip, options.utilization, options.price))
        return
    parts = memory(
        options.model, options.length, options.rows, predictions, options.dtype, options.remat
    )
    for name, size in (parts | {"sum": sum(parts.values())}).items():
        print(f"{name:12} {size / _GIB:7.2f} GiB")


if __name__ == "__main__":
    main()
