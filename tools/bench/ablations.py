#!/usr/bin/env python
"""Compares pre-training objectives by pre-training and fine-tuning small encoders.

    for objective in mlm mlm_nsp mlm_sop; do
        keras-bert prepare corpus/ --tokenizer TOKENIZER --length 128 --objective $objective \\
            --held-out 0.01 --out RECORDS/$objective
    done
    python tools/bench/ablations.py --records RECORDS --data DATA --out RUNS \\
        --results ablations.jsonl
    python tools/bench/ablations.py --results ablations.jsonl --table scores

The settings are from the recipe `cpu_small`, except for those in `OBJECTIVES` and on the command
line. Each run uses one core; runs on different cores are parallel. Runs in the results file are
skipped, and an interrupted pre-training run is resumed.

Source: Devlin et al. 2018, section 5.1. Its table 5 compares `masked_lm+next_sentence`,
    `masked_lm`, `left_to_right`, and `left_to_right` with a BiLSTM on top.
"""

import argparse
import concurrent.futures
import json
import os
import queue
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

from finetuning import read_results

_ROOT = Path(__file__).resolve().parents[2]
_NOTHING = {"total_steps": 1, "report_every": 1, "evaluate_every": 1, "learning_rate": 0}
# Name -> (records, settings).
OBJECTIVES = {
    "masked_lm": ("mlm", {}),
    "masked_lm+next_sentence": ("mlm_nsp", {"objectives": "[masked_lm,next_sentence]"}),
    "left_to_right": ("mlm", {"objectives": "[left_to_right]"}),
    "masked_lm+sentence_order": ("mlm_sop", {"objectives": "[masked_lm,sentence_order]"}),
    "masked_lm+span_boundary": (
        "mlm",
        {"objectives": "[masked_lm,span_boundary]", "mask_unit": "span"},
    ),
    "replaced_token": ("mlm", {"objectives": "[replaced_token]"}),
    "random_weights": ("mlm", _NOTHING),
}
# Input vectors of the heads; see `ablation_tuning.py`.
_VECTORS = dict.fromkeys(OBJECTIVES, ("own",)) | {"left_to_right": ("own", "bilstm")}


class Runs:
    """Executes the runs of a command, each on a separate core.

    Args:
        arguments: parsed command-line arguments.
    """

    def __init__(self, arguments):
        self._arguments = arguments
        self._cores = queue.SimpleQueue()
        for core in sorted(os.sched_getaffinity(0)):
            self._cores.put(core)

    def all(self):
        """Executes the runs missing from the results file, and appends them."""
        jobs = [
            (name, seed) for seed in self._arguments.seeds for name in self._arguments.objectives
        ]
        with concurrent.futures.ThreadPoolExecutor(self._cores.qsize()) as pool:
            for finished in [pool.submit(self._one, *job) for job in jobs]:
                finished.result()

    def _one(self, name, seed):
        core = self._cores.get()
        try:
            self._pretrain(name, seed, core)
            for vector in _VECTORS[name]:
                self._tune(name, seed, vector, core)
        finally:
            self._cores.put(core)

    def _pretrain(self, name, seed, core):
        result = {"objective": name, "seed": seed, "steps": self._arguments.steps}
        if self._has(result | {"vector": None}):
            return
        records, own = OBJECTIVES[name]
        settings = {"total_steps": self._arguments.steps, "evaluate_every": 400, "seed": seed}
        settings |= {"dtype": self._arguments.dtype, "records_objective": records} | own
        run = self._directory(name, seed)
        seconds = self._call(
            core,
            run.with_suffix(".log"),
            "-m",
            "keras_bert_impl.cli.main",
            "pretrain",
            self._arguments.records / records,
            "--recipe",
            "cpu_small",
            "--out",
            run,
            "--strategy",
            "one_device",
            *(f"--{key}={value}" for key, value in settings.items()),
        )
        lines = [json.loads(line) for line in (run / "metrics.jsonl").open()]
        curve = [
            {"step": line["step"]} | {key: line[key] for key in line if key.startswith("val_")}
            for line in lines
            if any(key.startswith("val_") for key in line)
        ]
        scores = json.loads((run / "scores.json").read_text())
        more = {"vector": None, "cpu_seconds": seconds, "scores": scores, "curve": curve}
        self._add(result | more)

    def _tune(self, name, seed, vector, core):
        result = {"objective": name, "seed": seed, "steps": self._arguments.steps, "vector": vector}
        if self._has(result):
            return
        run = self._directory(name, seed)
        scores = run.with_name(f"{run.name}-{vector}.json")
        seconds = self._call(
            core,
            scores.with_suffix(".log"),
            _ROOT / "tools/bench/ablation_tuning.py",
            "--model",
            run / "model",
            "--data",
            self._arguments.data,
            "--vector",
            vector,
            "--seed",
            seed,
            "--dtype",
            self._arguments.dtype,
            "--out",
            scores,
        )
        self._add(result | {"cpu_seconds": seconds, "scores": json.loads(scores.read_text())})

    def _directory(self, name, seed):
        return self._arguments.out / f"{name}-{self._arguments.steps}-{seed}"

    def _call(self, core, log, *command):
        """Runs a Python command on one core; returns its CPU time in seconds."""
        environment = os.environ | {"PYTHONPATH": str(_ROOT), "OMP_NUM_THREADS": "1"}
        with open(log, "a") as file:
            process = subprocess.Popen(
                ["taskset", "--cpu-list", str(core), sys.executable, *map(str, command)],
                stdout=file,
                stderr=file,
                env=environment,
            )
            _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"the command failed; see {log}.")
        return round(usage.ru_utime + usage.ru_stime, 1)

    def _has(self, result):
        results = read_results(self._arguments.results)
        return any(result.items() <= there.items() for there in results)

    def _add(self, result):
        with self._arguments.results.open("a") as file:
            file.write(json.dumps(result) + "\n")
        print(time.strftime("%H:%M:%S"), json.dumps(result), flush=True)


# === Tables ===


def table_of_scores(results):
    """Returns a Markdown table with one row per objective and head: mean and spread over seeds."""
    tuned = [result for result in results if result["vector"] is not None]
    tasks = {task: metrics for result in tuned for task, metrics in result["scores"].items()}
    columns = [(task, metric) for task, metrics in tasks.items() for metric in metrics]
    lines = [
        f"| pre-trained by | classified | {' | '.join(f'{t}, {m}' for t, m in columns)} |",
        "|---|---|" + "---|" * len(columns),
    ]
    for name in OBJECTIVES:
        for vector in _VECTORS[name]:
            chosen = [one for one in tuned if (one["objective"], one["vector"]) == (name, vector)]
            if not chosen:
                continue
            cells = [
                _spread([100 * one["scores"][task][metric] for one in chosen])
                for task, metric in columns
            ]
            lines.append(f"| `{name}` | {vector} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _spread(values):
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread} ({len(values)})"


def table_of_curves(results):
    """Returns a Markdown table of held-out scores per objective and step, averaged over seeds."""
    lines = []
    for name in OBJECTIVES:
        curves = [
            one["curve"]
            for one in results
            if one["objective"] == name and one["vector"] is None and name != "random_weights"
        ]
        if not curves:
            continue
        steps = [point["step"] for point in curves[0]]
        lines += [f"\n`{name}`\n", f"| step | {' | '.join(map(str, steps))} |"]
        lines += ["|---|" + "---|" * len(steps)]
        for key in [key for key in curves[0][0] if re.search("_(loss|accuracy)$", key)]:
            means = [statistics.mean(curve[i][key] for curve in curves) for i in range(len(steps))]
            cells = " | ".join(f"{mean:.3f}" for mean in means)
            lines.append(f"| {key.removeprefix('val_')} | {cells} |")
    return "\n".join(lines).strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--records", type=Path, help="folder with records for each objective")
    parser.add_argument("--data", type=Path, help="folder with `glue/SST-2` and `glue/MRPC`")
    parser.add_argument("--out", type=Path, help="for the runs")
    parser.add_argument("--results", type=Path, required=True, help="a file of JSON lines")
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument(
        "--steps", type=int, default=6400, help="pre-training steps; default: the recipe's"
    )
    parser.add_argument("--dtype", default="float32", help="a Keras dtype policy")
    parser.add_argument(
        "--table",
        choices=["scores", "curves"],
        help="print a table of the results, and run nothing",
    )
    arguments = parser.parse_args()
    if arguments.table:
        tables = {"scores": table_of_scores, "curves": table_of_curves}
        results = [
            one for one in read_results(arguments.results) if one["steps"] == arguments.steps
        ]
        print(tables[arguments.table](results))
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    Runs(arguments).all()


if __name__ == "__main__":
    main()
