"""Kills pre-training runs at random moments, and compares the runs with an uninterrupted run.

    PYTHONPATH=. python tools/kill_runs.py --out kills --kills 50 --workers 1 --seed 0

A run of a tiny model saves every five steps. It is killed with SIGKILL and restarted until it
finishes. Then the next run starts, until there are enough kills. With two workers (processes on the
loopback interface), one worker is killed and both are restarted. A killed run must equal the
uninterrupted run exactly: model, scores, losses in all reports, and the weights, optimizer and step
in the last checkpoint.

A quarter of the kills happen before a process's first report. The other kills happen in the seconds
after the first report, during training, saves, evaluation or the writing of the model.
`kills.jsonl` has one line for each kill and each run. After an interruption, the same command
resumes.
"""

import argparse
import contextlib
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SHAPE = {
    "model_type": "bert",
    "vocab_size": 1,  # replaced by the vocabulary size of the records
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
}
SETTINGS = (
    "--batch-size=8",
    "--report-every=5",
    "--evaluate-every=50",
    "--learning-rate=1e-3",
    "--ema=0.9",
)
OF_TIME = {
    "seconds",
    "tokens_per_second",
    "model_flops_utilization",
    "input_wait",
    "seconds_left",
}
AFTER_REPORT = 3.0  # seconds after a process's first report, within which it is killed
HANGS = 300.0  # seconds without progress after which a process is considered stuck


def main(arguments: list[str] | None = None) -> int:
    """Runs until there are enough kills. Returns 1 if a result differs."""
    options = _parse(arguments)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    _make_data(out)
    log = out / "kills.jsonl"
    reference = out / f"undisturbed-{options.workers}"
    run = Run(out, reference, options)
    if not run.is_done():
        run.undisturbed()
    expected = everything_of(reference)
    lines = _read(log, options.workers)
    kills = sum("moment" in line for line in lines)
    runs = sum("equal" in line for line in lines)
    all_equal = all(line.get("equal", True) for line in lines)
    while kills < options.kills:
        run = Run(out, out / f"killed-{options.workers}-{runs}", options)
        about = {"workers": options.workers, "run": runs}
        generator = random.Random(f"{options.seed} {options.workers} {kills}")
        for kill in run.kill_until_done(generator):
            _append(log, about | kill)
            kills += 1
        differences = difference(expected, everything_of(run.path))
        _append(log, about | {"equal": not differences, "differences": differences})
        all_equal &= not differences
        runs += 1
        print(
            f"{options.workers} worker(s), {runs} runs, {kills} kills: "
            f"{'all equal' if all_equal else 'DIFFERENT'}",
            flush=True,
        )
        if not differences:
            shutil.rmtree(run.path)
    return int(not all_equal)


def _parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="runs, and kills.jsonl")
    parser.add_argument(
        "--kills", type=int, default=50, help="minimum number of kills; the last run is completed"
    )
    parser.add_argument("--workers", type=int, choices=(1, 2), default=1)
    parser.add_argument("--steps", type=int, default=200, help="steps of a run")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random moments")
    return parser.parse_args(arguments)


class Run:
    """A run in a directory, with processes that can be killed.

    Args:
        out: folder of the data.
        path: folder of the run.
        options: parsed arguments.
    """

    def __init__(self, out: Path, path: Path, options: argparse.Namespace) -> None:
        self.path = path
        self._out = out
        self._workers = options.workers
        self._command = (
            "pretrain",
            out / "records",
            "--out",
            path,
            f"--model={out / 'config.json'}",
            f"--total-steps={options.steps}",
            *SETTINGS,
        )
        # new processes are forked from a process that has imported TensorFlow without using it
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["keras_bert_impl.pretraining.run"])
        self._start_up = 15.0  # last measured number of seconds until the first report

    def is_done(self) -> bool:
        """Returns whether the run has finished. The model is written last."""
        return (self.path / "model" / "model.safetensors").exists()

    def undisturbed(self) -> None:
        """Runs without kills."""
        processes = self._start()
        _check(_collect_statuses(processes), self._log())

    def kill_until_done(self, generator: random.Random) -> Iterator[dict]:
        """Kills and restarts the processes until the run finishes.

        Yields:
            For each kill: `moment`, the seconds after the start or the first report;
            `after_report`, whether `moment` counts from the first report; `worker`; `step`, the
            last saved step.
        """
        while True:
            after_report = generator.random() < 0.75
            share, worker = generator.random(), generator.randrange(self._workers)
            processes = self._start()
            with _ensure_ended(processes):
                wait = share * self._start_up
                if after_report:
                    self._wait_for_report(processes)
                    wait = share * AFTER_REPORT
                processes[worker].join(wait)
                processes[worker].kill()
                statuses = _collect_statuses(processes, HANGS)
            if statuses[worker] != -signal.SIGKILL:  # the process had already finished
                _check(statuses, self._log())
                return
            yield {
                "moment": round(wait, 3),
                "after_report": after_report,
                "worker": worker,
                "step": 5 * self._find_saved(),
            }

    def _start(self):
        processes = [
            self._context.Process(target=_run_work, args=(self._command, self._log(), task))
            for task in cluster(self._workers)
        ]
        for process in processes:
            process.start()
        return processes

    def _log(self):
        return self._out / f"{self.path.name}.log"

    def _find_saved(self):
        """Returns the number of the newest checkpoint, or 0."""
        files = (self.path / "checkpoints").glob("ckpt-*.index")
        return max((int(file.stem.partition("-")[2]) for file in files), default=0)

    def _wait_for_report(self, processes):
        begin, before = time.monotonic(), self._find_saved()
        while self._find_saved() == before and all(p.is_alive() for p in processes):
            if time.monotonic() - begin > HANGS:
                raise RuntimeError(f"no report in {HANGS:.0f} s; see {self._log()}")
            time.sleep(0.01)
        self._start_up = time.monotonic() - begin


def _run_work(command, log, environment):
    """Runs a command in a process of a run."""
    from keras_bert_impl.cli.main import main

    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, sys.stdout.fileno())
    os.dup2(file, sys.stderr.fileno())
    os.environ |= environment
    sys.exit(main(list(map(str, command))))


@contextlib.contextmanager
def _ensure_ended(processes):
    """Context that kills the processes when it ends."""
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def _collect_statuses(processes, seconds=None):
    """Returns the exit status of each process: negative after a signal, None while it runs."""
    for process in processes:
        process.join(seconds)
    return [process.exitcode for process in processes]


def _check(statuses, log):
    if any(statuses) or None in statuses:
        raise RuntimeError(f"processes failed without a kill (status {statuses}); see {log}")


def cluster(workers: int) -> list[dict[str, str]]:
    """Returns the environment of each worker."""
    if workers == 1:
        return [{}]
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(workers)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    tasks = ({"type": "worker", "index": index} for index in range(workers))
    return [
        {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": task})}
        for task in tasks
    ]


def everything_of(path: str | Path) -> dict[str, Any]:
    """Returns the results of a run that are compared, keyed by name, without times."""
    import tensorflow as tf

    path = Path(path)
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    results = {
        "model": hashlib.sha256((path / "model" / "model.safetensors").read_bytes()).hexdigest(),
        "scores": json.loads((path / "scores.json").read_text()),
        "reports": [{k: v for k, v in line.items() if k not in OF_TIME} for line in lines],
    }
    newest = max((path / "checkpoints").glob("ckpt-*.index"), key=lambda file: int(file.stem[5:]))
    checkpoint = tf.train.load_checkpoint(str(newest.with_suffix("")))
    for name, dtype in checkpoint.get_variable_to_dtype_map().items():
        if dtype != tf.string:  # the object graph
            value = np.asarray(checkpoint.get_tensor(name))
            results[name] = (str(dtype), value.shape, value.tobytes())
    return results


def difference(expected: dict, received: dict) -> list[str]:
    """Returns the names of results that differ."""
    names = expected.keys() | received.keys()
    return sorted(name for name in names if expected.get(name) != received.get(name))


def _make_data(out):
    if (out / "records" / "manifest.json").exists():
        return
    from keras_bert_impl import WordPieceTokenizer, prepare

    generator = random.Random(0)
    words = [f"{first}{second}" for first in "abcdefghij" for second in "abcdefghij"]
    documents = (
        "".join(" ".join(generator.choices(words, k=9)) + ".\n" for _ in range(12))
        for _ in range(200)
    )
    (out / "corpus.txt").write_text("\n".join(documents), encoding="utf-8")
    (out / "config.json").write_text(json.dumps(SHAPE), encoding="utf-8")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "."]
    prepare(
        out / "corpus.txt",
        out / "records",
        WordPieceTokenizer([*special, *words]),
        length=32,
        held_out=0.05,
        block_characters=8000,
        rows_per_shard=64,
        num_open_shards=4,
        num_workers=1,
    )


def _read(log, workers):
    """Returns the lines of runs with this number of workers."""
    if not log.exists():
        return []
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["workers"] == workers]


def _append(log, line):
    with open(log, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    sys.exit(main())
