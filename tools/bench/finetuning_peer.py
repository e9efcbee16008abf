#!/usr/bin/env python
"""Fine-tunes with `transformers` in a plain PyTorch loop, for comparison in `finetuning.py`.

The model, tokenizer, loss, optimizer and loop use `transformers` and PyTorch. This package reads
the files and computes the metrics. Tests in `tests/tasks` check that the metrics equal the ones in
scikit-learn, seqeval and SQuAD.

    python tools/bench/finetuning_peer.py --model MINILM --data DATA --task mrpc --seed 1 \\
        --out scores.json
"""

import argparse
import json
import os
import random
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
import transformers
from finetuning_tasks import TASKS

from keras_bert_impl.data.scores import metrics
from keras_bert_impl.tasks import score_answers, score_choices, score_tags
from keras_bert_impl.tasks.question_answering.decode import Answer

_BATCH, _WEIGHT_DECAY, _WARMUP, _CLIP = 32, 0.01, 0.1, 1.0
_SORTED_TOGETHER = 16  # batches
# tokens of overlap, number of candidate starts and ends, maximum tokens in an answer
_OVERLAP, _BEST, _LONGEST_ANSWER = 128, 20, 30
_IGNORED = -100  # label ignored by the cross-entropy


class Texts:
    """Text and pair classification and regression."""

    def __init__(self, train):
        self.names = None if train.is_numeric else train.label_names
        self.settings = {"num_labels": 1 if self.names is None else len(self.names)}
        if self.names is None:
            self.settings["problem_type"] = "regression"

    model_class = transformers.AutoModelForSequenceClassification

    def encode(self, examples, tokenizer, max_length, learn):
        pairs = [text if isinstance(text, tuple) else (text,) for text in examples.texts]
        columns = [list(column) for column in zip(*pairs)]
        rows = tokenizer(*columns, truncation=True, max_length=max_length)
        labels = examples.labels
        if self.names is not None:
            labels = examples.class_numbers(self.names).tolist()
        names = ("input_ids", "token_type_ids", "labels")
        columns = zip(rows["input_ids"], rows["token_type_ids"], labels)
        return [dict(zip(names, row)) for row in columns]

    def score(self, examples, rows, outputs):
        logits = np.stack([output["logits"] for output in outputs])
        if self.names is None:
            gold, predicted = np.array(examples.labels), logits[:, 0]
        else:
            gold, predicted = examples.class_numbers(self.names), logits.argmax(axis=-1)
        return {name: metrics.METRICS[name](gold, predicted) for name in examples.metrics}


class Tags:
    """Word labels, learned at the first subword token of each word."""

    def __init__(self, train):
        self.names = train.label_names
        self.settings = {"num_labels": len(self.names)}

    model_class = transformers.AutoModelForTokenClassification

    def encode(self, examples, tokenizer, max_length, learn):
        rows = tokenizer(
            examples.texts, is_split_into_words=True, truncation=True, max_length=max_length
        )
        features = []
        for number, labels in enumerate(examples.class_numbers(self.names)):
            words = rows.word_ids(number)
            first = [w is not None and w != before for w, before in zip(words, [None, *words])]
            features.append(
                {
                    "input_ids": rows["input_ids"][number],
                    "token_type_ids": rows["token_type_ids"][number],
                    "labels": [int(labels[w]) if f else _IGNORED for w, f in zip(words, first)],
                    "first": first,
                }
            )
        return features

    def score(self, examples, rows, outputs):
        """Truncated words count as `O`, or as wrong if there is no label `O`."""
        predictions = []
        for words, row, output in zip(examples.texts, rows, outputs):
            numbers = output["logits"].argmax(axis=-1)[: len(row["first"])][row["first"]]
            labels = [self.names[number] for number in numbers]
            predictions.append(labels + ["O"] * (len(words) - len(labels)))
        return score_tags(examples, predictions)


class Choices:
    """Multiple choice of endings."""

    settings = {}
    model_class = transformers.AutoModelForMultipleChoice

    def __init__(self, train):
        pass

    def encode(self, examples, tokenizer, max_length, learn):
        features = []
        for (prompt, endings), label in zip(examples.texts, examples.labels):
            rows = tokenizer(
                [prompt] * len(endings), list(endings), truncation=True, max_length=max_length
            )
            features.append(
                {
                    "input_ids": rows["input_ids"],
                    "token_type_ids": rows["token_type_ids"],
                    "labels": label,
                }
            )
        return features

    def score(self, examples, rows, outputs):
        return score_choices(examples, [output["logits"] for output in outputs])


class Questions:
    """Question answering in overlapping windows of the context."""

    settings = {}
    model_class = transformers.AutoModelForQuestionAnswering

    def __init__(self, train):
        pass

    def encode(self, examples, tokenizer, max_length, learn):
        windows = tokenizer(
            examples.questions,
            examples.contexts,
            truncation="only_second",
            max_length=max_length,
            stride=_OVERLAP,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        features = []
        for window, number in enumerate(windows["overflow_to_sample_mapping"]):
            offsets = windows["offset_mapping"][window]
            in_context = [part == 1 for part in windows.sequence_ids(window)]
            row = {name: windows[name][window] for name in ("input_ids", "token_type_ids")}
            if learn:
                text, start = examples.answers[number][0]
                row |= self._find_targets(offsets, in_context, start, start + len(text))
            features.append(row | {"of": number, "offsets": offsets, "in_context": in_context})
        return features

    @staticmethod
    def _find_targets(offsets, in_context, start, end):
        """Returns the answer's first and last token, or 0 and 0 if it is not in the window."""
        places = [place for place, inside in enumerate(in_context) if inside]
        if offsets[places[0]][0] > start or offsets[places[-1]][1] < end:
            return {"start_positions": 0, "end_positions": 0}
        return {
            "start_positions": max(place for place in places if offsets[place][0] <= start),
            "end_positions": min(place for place in places if offsets[place][1] >= end),
        }

    def score(self, examples, rows, outputs):
        answers = [
            [Answer(text, start, start + len(text), 1.0, float(score), 0.0)]
            for score, text, start in self.best_answers(examples, rows, outputs)
        ]
        return score_answers(examples, answers)

    def best_answers(self, examples, rows, outputs):
        """Returns (score, text, first character) of the best answer to each question."""
        best = [(-np.inf, "", 0)] * len(examples)
        for row, output in zip(rows, outputs):
            score, start, end = self._choose_best_span(row, output)
            number = row["of"]
            if score > best[number][0]:
                first, last = row["offsets"][start][0], row["offsets"][end][1]
                best[number] = score, examples.contexts[number][first:last], first
        return best

    @staticmethod
    def _choose_best_span(row, output):
        outside = ~np.array(row["in_context"])
        starts, ends = (
            output[name][: len(outside)].copy() for name in ("start_logits", "end_logits")
        )
        starts[outside] = ends[outside] = -np.inf
        spans = [
            (starts[start] + ends[end], start, end)
            for start in np.argsort(-starts)[:_BEST]
            for end in np.argsort(-ends)[:_BEST]
            if start <= end < start + _LONGEST_ANSWER
        ]
        return max(spans, default=(-np.inf, 0, 0))


_KINDS = {"tagging": Tags, "choice": Choices, "squad": Questions}


def batches(rows, rng):
    """Returns lists of row numbers; the rows of a list have similar lengths."""
    order = list(range(len(rows)))
    rng.shuffle(order)
    groups = []
    for begin in range(0, len(order), _BATCH * _SORTED_TOGETHER):
        together = sorted(
            order[begin : begin + _BATCH * _SORTED_TOGETHER],
            key=lambda number: _measure_length(rows[number]),
        )
        groups += [together[i : i + _BATCH] for i in range(0, len(together), _BATCH)]
    rng.shuffle(groups)
    return groups


def _measure_length(row):
    ids = row["input_ids"]
    return max(map(len, ids)) if isinstance(ids[0], list) else len(ids)


def collate(rows):
    """Returns a dict of tensors `[batch, length]`, or `[batch, choices, length]` for choices."""
    length = max(map(_measure_length, rows))
    batch = {}
    for name in ("input_ids", "token_type_ids"):
        batch[name] = torch.tensor([_pad_values(row[name], length, 0) for row in rows])
    batch["attention_mask"] = torch.tensor(
        [_pad_values(_make_ones(row["input_ids"]), length, 0) for row in rows]
    )
    for name in ("labels", "start_positions", "end_positions"):
        if name in rows[0]:
            values = [row[name] for row in rows]
            if isinstance(values[0], list):
                values = [_pad_values(value, length, _IGNORED) for value in values]
            batch[name] = torch.tensor(values)
    return batch


def _make_ones(ids):
    return [_make_ones(row) for row in ids] if isinstance(ids[0], list) else [1] * len(ids)


def _pad_values(values, length, filling):
    if isinstance(values[0], list):
        return [_pad_values(row, length, filling) for row in values]
    return values + [filling] * (length - len(values))


def train(model, rows, task, rng, dtype):
    """Trains on rows for the epochs of a task."""
    total = -(-len(rows) // _BATCH) * task.epochs
    inputs = (
        collate([rows[number] for number in numbers])
        for _ in range(task.epochs)
        for numbers in batches(rows, rng)
    )
    train_on(model, inputs, total, task.learning_rate, dtype)


def train_on(model, batches, total, learning_rate, dtype):
    """Trains on `total` batches with AdamW, warm-up, linear decay and gradient clipping."""
    groups = [{"params": [], "weight_decay": _WEIGHT_DECAY}, {"params": [], "weight_decay": 0.0}]
    for name, parameter in model.named_parameters():
        groups[name.endswith(("bias", "LayerNorm.weight"))]["params"].append(parameter)
    optimizer = torch.optim.AdamW(groups, lr=learning_rate, eps=1e-8, fused=True)
    warmup = int(_WARMUP * total)

    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        return (total - step) / max(1, total - warmup)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    model.train()
    for batch in batches:
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)


def predict(model, rows, dtype):
    """Returns a dict with the logits of each row, as float32 arrays."""
    model.eval()
    order = sorted(range(len(rows)), key=lambda number: _measure_length(rows[number]))
    outputs = [None] * len(rows)
    for begin in range(0, len(order), 2 * _BATCH):
        numbers = order[begin : begin + 2 * _BATCH]
        batch = collate([rows[number] for number in numbers])
        batch.pop("labels", None)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            arrays = {name: value.float().numpy() for name, value in model(**batch).items()}
        for place, number in enumerate(numbers):
            outputs[number] = {name: values[place] for name, values in arrays.items()}
    return outputs


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    task = TASKS[arguments.task]
    examples, dev = task.read(arguments.data)
    kind = _KINDS.get(task.kind, Texts)(examples)
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)
    rows, dev_rows = (
        kind.encode(part, tokenizer, task.max_length, learn)
        for part, learn in ((examples, True), (dev, False))
    )
    model = kind.model_class.from_pretrained(arguments.model, **kind.settings)
    train(model, rows, task, random.Random(arguments.seed), arguments.dtype)
    scores = kind.score(dev, dev_rows, predict(model, dev_rows, arguments.dtype))
    arguments.out.write_text(json.dumps(scores, indent=2) + "\n")


if __name__ == "__main__":
    main()
