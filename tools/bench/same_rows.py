#!/usr/bin/env python
"""Compares the training rows of SQuAD in both systems of `finetuning.py`.

python tools/bench/same_rows.py --model MINILM --data DATA
"""

import argparse
import random
from pathlib import Path

import finetuning_peer
import numpy as np
import transformers
from finetuning_tasks import TASKS

from keras_bert_impl import QuestionAnswerer
from keras_bert_impl.data.batches import batching
from keras_bert_impl.training.optimizers.adamw import default_optimizer

_TASK = TASKS["squad"]


def our_rows(model, examples):
    """Returns (rows as in `finetuning_peer.Questions`, batches as lists of row numbers)."""
    texts = model.as_texts(examples.pairs)
    windows, (places,) = model.rows(texts, model.label_codec.encode(examples.answers, len(texts)))
    ids, splits = windows.token_ids.numpy(), windows.row_splits.numpy()
    rows = []
    for number, (start, end) in enumerate(places.tolist()):
        row_ids = ids[splits[number] : splits[number + 1]].tolist()
        second = int(windows.second_starts[number])
        rows.append(
            {
                "input_ids": row_ids,
                "token_type_ids": [0] * second + [1] * (len(row_ids) - second),
                "start_positions": start,
                "end_positions": end,
                "of": int(windows.texts[number]),
            }
        )
    numbers = np.arange(len(rows))
    count = batching.num_batches(windows, 32)
    data = batching.training_batches(windows, (numbers,), 32, seed=1).take(count)
    return rows, [batch.numpy().tolist() for _, batch in data]


def describe(rows, batches):
    """Describes the training rows of one system."""
    lengths = [len(row["input_ids"]) for row in rows]
    padded = sum(len(batch) * max(lengths[number] for number in batch) for batch in batches)
    without = sum(row["start_positions"] == 0 for row in rows)
    return (
        f"{len(rows)} windows, {without} without the answer, {sum(lengths)} tokens, {len(batches)} "
        f"steps, {min(map(len, batches))} rows in the smallest, {1 - sum(lengths) / padded:.2%} padding"
    )


def places(rows):
    """Returns a dict from (question, ids, segments) to the (start, end) positions of the answer."""
    return {
        (row["of"], tuple(row["input_ids"]), tuple(row["token_type_ids"])): (
            row["start_positions"],
            row["end_positions"],
        )
        for row in rows
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    arguments = parser.parse_args()
    train, _ = _TASK.read(arguments.data)
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
    peer = finetuning_peer.Questions(train).encode(train, tokenizer, _TASK.max_length, True)
    model = QuestionAnswerer.from_pretrained(
        arguments.model, max_length=_TASK.max_length, doc_stride=_TASK.doc_stride
    )
    ours, our_batches = our_rows(model, train)
    print("ours:", describe(ours, our_batches))
    print("peer:", describe(peer, finetuning_peer.batches(peer, random.Random(1))))
    ours, peer = places(ours), places(peer)
    both = ours.keys() & peer.keys()
    equal = sum(ours[row] == peer[row] for row in both)
    print(
        f"{len(both)} rows have the same ids and segments; {equal} of them have the same answer "
        "positions"
    )
    total = len(our_batches)
    warmup = int(0.1 * total)
    rate = default_optimizer(total, 1.0)._learning_rate
    factors = [
        (step + 1) / warmup if step < warmup else (total - step) / (total - warmup)
        for step in range(total)
    ]
    errors = [abs(float(rate(step)) / factor - 1) for step, factor in enumerate(factors)]
    print(f"maximum relative difference of learning rates: {max(errors):.1e}")


if __name__ == "__main__":
    main()
