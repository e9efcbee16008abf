#!/usr/bin/env python
"""Trains question answering in both systems on the same batches, and compares the runs.

    python tools/bench/same_batches.py --model MINILM --data DATA --system peer --out peer
    python tools/bench/same_batches.py --model MINILM --data DATA --system ours --out ours
    python tools/bench/same_batches.py --compare ours peer

Both systems start from the same weights, including the head, and use the same rows in the same
order and the learning rates of `finetuning_peer.py`. Only the implementations of the model, loss
and optimizer, and the dropout masks, differ. The peer's code runs both trained models, so the
predictions differ only because of the weights.
"""

import argparse
import dataclasses
import json
import random
import shutil
from pathlib import Path

import numpy as np
from finetuning_tasks import TASKS
from safetensors.numpy import load_file

_TASK = TASKS["squad"]
_WEIGHTS = "model.safetensors"


def train_peer(start, batches, total, arguments):
    """Trains the peer and writes its weights; returns the losses of all steps as a list of float.

    Args:
        start: `Path`, the initial model.
        batches: list of results from `finetuning_peer.collate`.
        total: int, number of steps in the learning-rate schedule.
        arguments: parsed command-line arguments.
    """
    import finetuning_peer
    import torch
    import transformers

    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    rates = dict.fromkeys(
        ("hidden_dropout_prob", "attention_probs_dropout_prob"), arguments.dropout
    )
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(start, **rates)
    losses = []
    model.register_forward_hook(lambda *call: losses.append(call[-1].loss.item()))
    finetuning_peer.train_on(model, batches, total, _TASK.learning_rate, arguments.dtype)
    model.save_pretrained(arguments.out)
    return losses


def train_ours(start, batches, total, arguments):
    """Same as `train_peer`, but with this package."""
    import keras
    import tensorflow as tf

    from keras_bert_impl import QuestionAnswerer
    from keras_bert_impl.training.optimizers.adamw import default_optimizer

    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    losses = []

    class Losses(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs):
            losses.append(float(logs["loss"]))
            self.model.reset_metrics()  # logs are means since the metrics were last reset

    def features():
        for batch in batches:
            ids, segments, mask, *places = (
                batch[name].numpy().astype("int32")
                for name in (
                    "input_ids",
                    "token_type_ids",
                    "attention_mask",
                    "start_positions",
                    "end_positions",
                )
            )
            row = {"token_ids": ids, "segment_ids": segments, "padding_mask": mask}
            yield row, np.stack(places, axis=1)

    tokens = tf.TensorSpec([None, None], tf.int32)
    names = ("token_ids", "segment_ids", "padding_mask")
    signature = dict.fromkeys(names, tokens), tf.TensorSpec([None, 2], tf.int32)
    policy = {"bfloat16": "mixed_bfloat16"}.get(arguments.dtype, arguments.dtype)
    model = QuestionAnswerer.from_pretrained(
        start,
        dtype=policy,
        max_length=_TASK.max_length,
        # 0.1 is the model's dropout rate
        dropout=None if arguments.dropout == 0.1 else arguments.dropout,
    )
    optimizer = default_optimizer(total, _TASK.learning_rate)
    model.compile(optimizer, metrics=[], seed=arguments.seed)
    data = tf.data.Dataset.from_generator(features, output_signature=signature)
    model.fit(data.repeat(), steps_per_epoch=len(batches), verbose=0, callbacks=[Losses()])
    model.save_pretrained(arguments.out)
    return losses


def scores_of_questions(examples, texts):
    """Returns two lists with the exact match (1 or 0) and the F1 of each question."""
    from keras_bert_impl.data.scores.squad import squad_v1_scores

    exact, f1 = [], []
    for place, text in enumerate(texts):
        single = _take_questions(examples, slice(place, place + 1))
        scores = squad_v1_scores(single, {single.ids[0]: text})
        exact.append(scores["exact_match"] / 100)
        f1.append(scores["f1"] / 100)
    return exact, f1


def _take_questions(examples, rows):
    names = ("ids", "questions", "contexts", "answers", "titles")
    return dataclasses.replace(examples, **{name: getattr(examples, name)[rows] for name in names})


def run(arguments):
    """Trains one system; writes the weights, the losses, and the scores of each question."""
    import finetuning_peer
    import torch
    import transformers

    train, dev = _TASK._replace(train=arguments.train).read(arguments.data)
    kind = finetuning_peer.Questions(train)
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
    rows = kind.encode(train, tokenizer, _TASK.max_length, True)
    numbers = finetuning_peer.batches(rows, random.Random(arguments.order))
    batches = [
        finetuning_peer.collate([rows[number] for number in batch])
        for batch in numbers[: arguments.steps]
    ]
    torch.manual_seed(arguments.head)
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(arguments.model)
    start = arguments.out / "start"
    model.save_pretrained(start)
    tokenizer.save_pretrained(start)
    shutil.copy(arguments.model / "vocab.txt", start)
    train_system = {"ours": train_ours, "peer": train_peer}[arguments.system]
    losses = train_system(start, batches, len(numbers), arguments)
    dev = _take_questions(dev, slice(None, None, arguments.every))
    rows = kind.encode(dev, tokenizer, _TASK.max_length, False)
    trained = transformers.AutoModelForQuestionAnswering.from_pretrained(arguments.out)
    outputs = finetuning_peer.predict(trained, rows, arguments.dtype)
    texts = [text for _, text, _ in kind.best_answers(dev, rows, outputs)]
    exact, f1 = scores_of_questions(dev, texts)
    results = {"losses": losses, "exact_match": exact, "f1": f1}
    (arguments.out / "results.json").write_text(json.dumps(results) + "\n")
    print(
        f"{len(losses)} steps, mean loss {np.mean(losses):.4f}; {len(exact)} questions, "
        f"{100 * np.mean(exact):.2f} EM, {100 * np.mean(f1):.2f} F1"
    )


def compare(first, second):
    """Prints the differences between two runs, with standard errors of paired differences."""
    results = [json.loads((path / "results.json").read_text()) for path in (first, second)]
    for name, factor in (("losses", 1), ("exact_match", 100), ("f1", 100)):
        ours, peer = (factor * np.array(result[name]) for result in results)
        difference = ours - peer
        error = difference.std(ddof=1) / len(difference) ** 0.5
        print(
            f"{name}: {ours.mean():.4f} and {peer.mean():.4f}, difference {difference.mean():+.4f} "
            f"± {error:.4f}, greatest {abs(difference).max():.4f}"
        )
    start, *ends = (load_file(path / _WEIGHTS) for path in (first / "start", first, second))
    ways = [
        np.concatenate([(end[name] - start[name]).ravel() for name in sorted(start)])
        for end in ends
    ]
    lengths = [np.linalg.norm(way) for way in ways]
    print(
        f"distance from the initial weights: {lengths[0]:.4f} and {lengths[1]:.4f}; distance "
        f"between the trained weights: {np.linalg.norm(ways[0] - ways[1]):.4f}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--compare", nargs=2, type=Path, help="compare two folders without training"
    )
    parser.add_argument("--model", type=Path, help="model directory in the format of transformers")
    parser.add_argument("--data", type=Path, help="data folder")
    parser.add_argument("--train", default=_TASK.train, help="file in the data folder")
    parser.add_argument("--system", choices=["ours", "peer"])
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1, help="of dropout")
    parser.add_argument("--head", type=int, default=1, help="seed of the head")
    parser.add_argument("--order", type=int, default=1, help="seed of the batches")
    parser.add_argument("--steps", type=int, help="number of steps; default: one epoch")
    parser.add_argument("--every", type=int, default=5, help="score every n-th question")
    parser.add_argument("--out", type=Path, help="a folder")
    arguments = parser.parse_args()
    if arguments.compare:
        compare(*arguments.compare)
    else:
        run(arguments)


if __name__ == "__main__":
    main()
