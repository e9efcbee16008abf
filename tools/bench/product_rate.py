"""Compares the processor time of pre-training with the processor time of matrix products.

    PYTHONPATH=. python tools/bench/product_rate.py --text wiki.txt --tokenizer vocabulary/

Training steps with the first layers of BERT-base alternate with matrix products that have the shape
of its feed-forward layers, in bfloat16 and in one process. A step is counted as three times the
matrix products of the forward pass, without padding.
"""

import argparse
import dataclasses
import tempfile
import time
from pathlib import Path

import harness
import tensorflow as tf
from batches import load_batches, make_batches
from systems import SYSTEMS

from keras_bert_impl import Encoder, EncoderConfig, Pretrainer, Tokenizer

_PRODUCTS = 200  # duration of a measurement


def main(arguments=None):
    """Prints the fraction for batches of 8 x 128 and 2 x 512 tokens."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", required=True, help="corpus, in a format that `prepare` reads")
    parser.add_argument("--tokenizer", required=True, help="folder of a tokenizer")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    size = Tokenizer.from_pretrained(options.tokenizer).vocabulary_size
    config = EncoderConfig.named("bert-base-uncased", vocabulary_size=size)
    config = dataclasses.replace(config, num_layers=options.layers)
    for rows, length in ((8, 128), (2, 512)):
        with tempfile.TemporaryDirectory() as directory:
            path = make_batches(
                options.text, options.tokenizer, Path(directory), rows, length, 4, pack=True
            )
            shares = [
                step / product for step, product in _measure_rates(config, path, options.rounds)
            ]
        print(f"{rows} x {length}: {harness.spread(shares, 2)}", flush=True)


def _measure_rates(config, path, rounds):
    """Yields (operations per CPU second of the steps, of the products) for each round."""
    features, _, weights, tokens = load_batches(path)
    pretrainer = Pretrainer(Encoder(config), ["masked_lm"])
    length = features["token_ids"].shape[-1]
    flops = 3 * tokens * pretrainer.flops(length, weights["masked_lm"].sum() / tokens)
    steps = SYSTEMS["ours"](config, "bfloat16", str(path))
    first, second = (1024, config.hidden_dim), (config.hidden_dim, config.intermediate_dim)
    inputs, kernel = (tf.cast(tf.random.normal(shape), "bfloat16") for shape in (first, second))
    of_products = 2 * _PRODUCTS * first[0] * second[0] * second[1]
    for work in (steps, lambda: _compute_products(inputs, kernel)):  # traces both functions
        work()
    for _ in range(rounds):
        yield (
            flops / _measure_seconds(steps),
            of_products / _measure_seconds(lambda: _compute_products(inputs, kernel)),
        )


@tf.function
def _compute_products(inputs, kernel):
    for _ in tf.range(_PRODUCTS):
        product = inputs @ kernel
        # each product needs the result of the previous product
        inputs += tf.cast(1e-9, inputs.dtype) * product[:1, :1]
    return product


def _measure_seconds(work):
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
