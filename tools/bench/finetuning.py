#!/usr/bin/env python
"""Measures scores, time and memory of fine-tuning with two systems that run in parallel.

    python tools/bench/finetuning.py --model MINILM --data DATA --results finetuning.jsonl \
        --tasks mrpc rte --seeds 1 2 3
    python tools/bench/finetuning.py --results finetuning.jsonl --table scores

Both systems start the same task and seed at the same time, each on one core. With a single system,
several runs are executed in parallel. `taskset` limits the cores. Runs in the results file are
skipped, so a long measurement can be split. `DATA` contains the folders of GLUE in `glue/`; the
other files are listed in `finetuning_tasks.py`.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from finetuning_tasks import TASKS

_ROOT = Path(__file__).resolve().parents[2]
_OURS, _PEER = "ours", "transformers"
_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
# Settings of each tuning method, added to the recipe of the task. None means the default learning
# rate of the method.
_OWN_RATE = {"learning_rate": None}
WAYS = {
    "full": {},
    "frozen_layers": {"frozen_layers": 3},
    "unfreeze_gradually": {"unfreeze_gradually": True},
    "layer_decay": {"layer_decay": 0.9},
    "reinitialized_layers": {"reinitialized_layers": 1},
    "r_drop": {"r_drop": 1.0},
    "lora": {"tuning": "lora"} | _OWN_RATE,
    "houlsby": {"tuning": "houlsby"} | _OWN_RATE,
    "pfeiffer": {"tuning": "pfeiffer"} | _OWN_RATE,
    "prefix": {"tuning": "prefix"} | _OWN_RATE,
    "prompt": {"tuning": "prompt"} | _OWN_RATE,
    "bias": {"tuning": "bias"} | _OWN_RATE,
    "head": {"tuning": "head"} | _OWN_RATE,
    # Devlin et al. 2018, table 7; only for token classification.
    **{
        f"features_{name}": {"features": features, "epochs": 10} | _OWN_RATE
        for name, features in {
            "embeddings": 0,
            "second_to_last": -2,
            "last": -1,
            "weighted_last_four": "mix_last_four",
            "joined_last_four": "last_four",
            "weighted_all": "mix",
        }.items()
    },
}


def command(system, run, arguments, directory):
    """Returns the command that fine-tunes once and writes `directory/scores.json`."""
    task = TASKS[run["task"]]
    if system == _PEER:
        peer = [sys.executable, str(_ROOT / "tools/bench/finetuning_peer.py")]
        peer += ["--model", arguments.model, "--data", arguments.data, "--task", run["task"]]
        peer += ["--seed", str(run["seed"]), "--dtype", run["dtype"]]
        return [*peer, "--out", str(directory / "scores.json")]
    run_settings = {"seed": run["seed"], "dtype": _POLICIES[run["dtype"]]}
    settings = task.recipe | WAYS[run["way"]] | run_settings
    settings = [
        f"--{name}" if value is True else f"--{name}={value}"
        for name, value in settings.items()
        if value is not None
    ]
    ours = [
        sys.executable,
        "-m",
        "keras_bert_impl.cli.main",
        "finetune",
        "--model",
        arguments.model,
    ]
    return [*ours, *task.arguments(Path(arguments.data)), "--out", str(directory), *settings]


def start(system, core, run, arguments, directory):
    """Starts a system on one core; returns its process."""
    environment = os.environ | {
        "PYTHONPATH": str(_ROOT),
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",  # spinning threads would count as processor time
    }
    log = open(directory.with_suffix(".log"), "w")
    return subprocess.Popen(
        command(system, run, arguments, directory),
        stdout=log,
        stderr=log,
        env=environment,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )


def measure(jobs, arguments):
    """Executes the (system, run) pairs in parallel; yields their results."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.time()
        processes, directories = {}, {}
        for core, (system, run) in zip(_list_cores(), jobs):
            directory = Path(folder) / str(core)
            directory.mkdir()
            process = start(system, core, run, arguments, directory)
            processes[process.pid], directories[process.pid] = (system, run), directory
        while processes:
            pid, status, usage = os.wait4(-1, 0)
            (system, run), directory = processes.pop(pid), directories[pid]
            log = directory.with_suffix(".log").read_text()
            if status:
                sys.exit(f"{system} failed at {run}:\n{log[-3000:]}")
            learn = re.search(r"of which ([\d,]+) .*learn", log)
            yield {
                "system": system,
                **run,
                "seconds": round(time.time() - started, 1),
                "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
                "memory_mib": usage.ru_maxrss // 1024,
                "learn": int(learn[1].replace(",", "")) if learn else None,
                "scores": json.loads((directory / "scores.json").read_text()),
            }


def groups(runs, systems, results):
    """Returns lists of (system, run) missing from `results`, to be measured in parallel.

    A list has at most one pair per core: both systems for one run, or different runs of a single
    system. On a single core, the pairs run one after the other.
    """
    lacking = [
        [
            (system, run)
            for system in systems
            if not any((run | {"system": system}).items() <= there.items() for there in results)
        ]
        for run in runs
    ]
    jobs = [job for jobs in sorted(lacking, key=len, reverse=True) for job in jobs]
    cores = len(_list_cores())
    return [jobs[first : first + cores] for first in range(0, len(jobs), cores)]


def _list_cores():
    return sorted(os.sched_getaffinity(0))


def read_results(path):
    """Reads results in the format of `measure`. Returns [] if the file does not exist."""
    return [json.loads(line) for line in path.open()] if path.exists() else []


def run_all(arguments):
    """Measures the runs missing from the results file, and appends them."""
    runs = [
        {"task": task, "seed": seed, "way": way, "dtype": arguments.dtype}
        for seed in arguments.seeds
        for task in arguments.tasks
        for way in arguments.ways
    ]
    for jobs in groups(runs, arguments.systems, read_results(arguments.results)):
        for result in measure(jobs, arguments):
            with arguments.results.open("a") as file:
                file.write(json.dumps(result) + "\n")
            print(json.dumps(result), flush=True)


# === Tables ===


def _read_percent(result):
    """Returns the first score of a result, in percent."""
    score = next(iter(result["scores"].values()))
    return score if result["task"] == "squad" else 100 * score


def _spread(values):
    cells = f"{statistics.mean(values):.2f}"
    if len(values) > 1:
        cells += f" ± {statistics.stdev(values):.2f}"
    return f"{cells} ({', '.join(f'{value:.2f}' for value in values)})"


def _format_minutes(results):
    return f"{statistics.mean(result['cpu_seconds'] for result in results) / 60:.1f}"


def table_of_scores(results):
    """Returns a Markdown table with a row per task: mean and spread over seeds, both systems."""
    lines = [
        "| task | metric | ours | transformers | difference | CPU minutes |",
        "|---|---|---|---|---|---|",
    ]
    for task in TASKS:
        runs = {
            system: {
                run["seed"]: run
                for run in results
                if (run["system"], run["task"], run["way"]) == (system, task, "full")
            }
            for system in (_OURS, _PEER)
        }
        seeds = sorted(set(runs[_OURS]) & set(runs[_PEER]))
        if not seeds:
            continue
        ours, peer = ([runs[system][seed] for seed in seeds] for system in (_OURS, _PEER))
        scores = [[_read_percent(result) for result in of_system] for of_system in (ours, peer)]
        difference = statistics.mean(scores[0]) - statistics.mean(scores[1])
        cells = [task, next(iter(ours[0]["scores"])), *map(_spread, scores)]
        cells += [f"{difference:+.2f}", f"{_format_minutes(ours)} / {_format_minutes(peer)}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def table_of_ways(results):
    """Returns a Markdown table with one row per task and tuning method of this package."""
    lines = ["| task | way | learn | score | CPU minutes | MiB |", "|---|---|---|---|---|---|"]
    for task in TASKS:
        for way in WAYS:
            runs = [
                run
                for run in results
                if (run["system"], run["task"], run["way"]) == (_OURS, task, way)
            ]
            if not runs:
                continue
            runs.sort(key=lambda run: run["seed"])
            cells = [
                task,
                way,
                f"{runs[0]['learn']:,}",
                _spread([_read_percent(run) for run in runs]),
            ]
            memory = statistics.median(run["memory_mib"] for run in runs)
            cells += [_format_minutes(runs), f"{memory:,.0f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", help="model directory in the format of transformers")
    parser.add_argument("--data", help="data folder")
    parser.add_argument("--results", type=Path, required=True, help="a file of JSON lines")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--systems", nargs="+", choices=[_OURS, _PEER], default=[_OURS, _PEER])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["full"])
    parser.add_argument("--dtype", choices=_POLICIES, default="bfloat16")
    parser.add_argument(
        "--table", choices=["scores", "ways"], help="print a table, and run nothing"
    )
    arguments = parser.parse_args()
    if arguments.table:
        tables = {"scores": table_of_scores, "ways": table_of_ways}
        print(tables[arguments.table](read_results(arguments.results)))
        return
    run_all(arguments)


if __name__ == "__main__":
    main()
