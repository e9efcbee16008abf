"""Measures weights and optimizer state on 8 simulated JAX devices: docs/measurements/scaling.md.

    python tools/bench/device_memory.py [--model NAME] [--model-devices 4 2]

Trains a masked LM for one step with each layout, and counts the bytes of all arrays on the first
device. Gradients and activations are not counted.
"""

import argparse
import os

DEVICES = 8
os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"

# The backend must be set before Keras is imported.
import jax  # noqa: E402
import keras  # noqa: E402

from keras_bert_impl import (  # noqa: E402
    AdamW,
    Encoder,
    EncoderConfig,
    MaskedLM,
    WordPieceTokenizer,
    get_strategy,
)


def megabytes(variables):
    """Returns the size of the variables on the first device."""
    shards = [shard for variable in variables for shard in variable.value.addressable_shards]
    return sum(shard.data.nbytes for shard in shards if shard.device == jax.devices()[0]) / 1e6


def measure(config, model_devices, is_ours):
    """Trains for one step; returns the megabytes of the weights and of the optimizer state.

    Args:
        model_devices: number of devices that share one copy of the weights.
        is_ours: whether to use the optimizer of this package, with sharded state.
    """
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens += [f"w{number}" for number in range(config.vocabulary_size - len(tokens))]
    strategy = get_strategy("auto", model_devices)
    with strategy.scope():
        model = MaskedLM(Encoder(config), WordPieceTokenizer(tokens), max_length=16)
        model.compile(AdamW(1e-4) if is_ours else keras.optimizers.AdamW(1e-4))
    model.fit(["w1 w2 w3 w4 w5 w6"] * DEVICES, batch_size=DEVICES, verbose=0)
    return megabytes(model.variables), megabytes(model.optimizer.variables)


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="bert_uncased_L-4_H-256_A-4", help="published name")
    parser.add_argument("--model-devices", type=int, nargs="*", default=[4, 2], metavar="N")
    arguments = parser.parse_args()
    config = EncoderConfig.named(arguments.model)
    rows = [(f"{DEVICES}, state replicated", 1, False), (f"{DEVICES} (default)", 1, True)]
    for count in arguments.model_devices:
        rows.append(
            (f"{DEVICES // count} groups of {count} (`model_devices={count}`)", count, True)
        )
    print("| devices | weights | optimizer state |\n|---|---|---|")
    for name, *layout in rows:
        weights, state = measure(config, *layout)
        print(f"| {name} | {weights:.1f} | {state:.1f} |", flush=True)


if __name__ == "__main__":
    main()
