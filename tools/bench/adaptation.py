#!/usr/bin/env python
"""Measures what domain adaptation adds: loss on held-out text, and the score of a task.

    keras-bert vocab GENERAL --size 8192 --out tokenizer
    keras-bert prepare GENERAL --tokenizer tokenizer --objective mlm --held-out 0.02 --out records
    keras-bert pretrain records --recipe cpu_small --total-steps 800 --seed 1 --out general
    python tools/bench/adaptation.py --model general/model --general OTHER --data DATA --out RUNS \\
        --results adaptation.jsonl
    python tools/bench/adaptation.py --results adaptation.jsonl

The model is adapted to text of a domain and then fine-tuned on a few labeled texts. It is compared
with the model itself, and with the model after the same number of steps on other general text.
`GENERAL` and `OTHER` are different articles of Wikipedia. Runs in the results file are skipped.
The last command prints the table.

| domain | unlabeled text | task |
|---|---|---|
| `medical` | answers of MedQuAD | 8 types of questions, from the answer, 16 answers of each |
| `banking` | texts of BANKING77 | 77 intents, 8 texts of each |
"""

import argparse
import csv
import json
import random
import statistics
from pathlib import Path

TEXTS = ("none", "general", "domain")  # that the model is adapted to
_ADAPTATION = {"adapt_batch_size": 16, "adapt_length": 128, "adapt_learning_rate": 1e-3}
_TUNING = {"epochs": 10, "learning_rate": 1e-3, "batch_size": 32, "max_length": 64}


def medical(data, seed):
    """Returns (unlabeled texts, labeled texts, test set); the last two are (texts, labels)."""
    lines = (data / "retrieval" / "medquad" / "pairs.jsonl").read_text("utf-8").splitlines()
    of_type = {}
    for row in map(json.loads, lines):
        of_type.setdefault(row["type"], set()).add(row["answer"])
    of_type = {
        name: random.Random(0).sample(sorted(of_type[name]), len(of_type[name])) for name in of_type
    }
    types = sorted(of_type, key=lambda name: -len(of_type[name]))[:8]
    test = [(text, name) for name in types for text in of_type[name][:50]]
    scored = {text for text, _ in test}
    unscored = {name: [text for text in of_type[name] if text not in scored] for name in of_type}
    labeled = _sample({name: unscored[name] for name in types}, 16, seed)
    return [text for texts in unscored.values() for text in texts], labeled, tuple(zip(*test))


def banking(data, seed):
    """Returns the same as `medical`."""
    rows = {}
    for split in ("train", "test"):
        with open(
            data / "few" / "banking77" / f"{split}.csv", encoding="utf-8", newline=""
        ) as file:
            rows[split] = [(row["text"], row["category"]) for row in csv.DictReader(file)]
    of_intent = {}
    for text, intent in rows["train"]:
        of_intent.setdefault(intent, []).append(text)
    unlabeled = [text for text, _ in rows["train"]]
    return unlabeled, _sample(of_intent, 8, seed), tuple(zip(*rows["test"][::2]))


def _sample(of_class, size, seed):
    draw = random.Random(seed)
    pairs = [(t, name) for name in sorted(of_class) for t in draw.sample(of_class[name], size)]
    return tuple(zip(*pairs))


DOMAINS = {"medical": medical, "banking": banking}


def measure(arguments, domain, text, seed):
    """Returns the scores of one run."""
    from keras_bert_impl import adapt, finetune
    from keras_bert_impl.pretraining import read_documents

    unlabeled, labeled, test = DOMAINS[domain](arguments.data, seed)
    model, losses = arguments.model, {}
    if text != "none":
        folder = arguments.out / f"{'general' if text == 'general' else domain}-{seed}"
        if text == "general":
            unlabeled = ("\n".join(d.paragraphs) for d in read_documents(arguments.general))
        model = adapt(
            model,
            iter(unlabeled),
            folder,
            adapt_steps=arguments.steps,
            seed=seed,
            verbose=0,
            **_ADAPTATION,
        )
        scores = json.loads((folder / "run" / "scores.json").read_text())
        losses = {"loss_before": scores["before/loss"], "loss": scores["loss"]}
    run = arguments.out / f"{domain}-{text}-{seed}-tuned"
    finetune(model, labeled, test, run, seed=seed, verbose=0, **_TUNING)
    return losses | {"accuracy": json.loads((run / "scores.json").read_text())["accuracy"]}


def print_table(rows):
    """Prints means and standard deviations over the seeds."""
    print(
        "| domain | adapted to | held-out loss before | after | accuracy, % |\n|---|---|---|---|---|"
    )
    for domain in DOMAINS:
        for text in TEXTS:
            some = [row for row in rows if (row["domain"], row["text"]) == (domain, text)]
            cells = [
                _spread([row[key] * factor for row in some if key in row])
                for key, factor in (("loss_before", 1), ("loss", 1), ("accuracy", 100))
            ]
            print(f"| {domain} | {text} | {' | '.join(cells)} |")


def _spread(values):
    if len(values) < 2:
        return "".join(f"{value:.2f}" for value in values)
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=Path, required=True)
    for name in ("model", "general", "data", "out"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    lines = arguments.results.read_text().splitlines() if arguments.results.exists() else []
    rows = [json.loads(line) for line in lines]
    for seed in range(1, arguments.seeds + 1) if arguments.model else ():
        for domain in DOMAINS:
            for text in TEXTS:
                run = {"domain": domain, "text": text, "seed": seed}
                if not any(run.items() <= row.items() for row in rows):
                    rows.append(run | measure(arguments, domain, text, seed))
                    with open(arguments.results, "a") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
    print_table(rows)


if __name__ == "__main__":
    main()
