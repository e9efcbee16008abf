"""Interleaved measurement: every system in a process of its own, one measured at a time.

On a machine that others use too, a time says little and the ratio of two times taken one right
after the other says more. So all systems are started first, each waits; then, round by round and
in a new order each time, each is told to do its piece of work and reports how long it took.
"""

import contextlib
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

_GO = "go\n"
_THREADS = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")
_THREADS += ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
# Where a host takes processors away, threads of OpenMP that spin wait long for those that sleep,
# and the spinning counts as processor time.
_NO_SPINNING = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}


class Worker:
    """A process that does a piece of work whenever it is told to.

    Args:
        name: str, of the system it measures.
        command: list of str; the process runs `serve`.
        threads: int, that each thread pool of a library may use.

    Raises:
        RuntimeError: the process ended; with the end of what it wrote to stderr.
    """

    def __init__(self, name, command, threads):
        self.name = name
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=os.environ | dict.fromkeys(_THREADS, str(threads)) | _NO_SPINNING,
        )
        self._answer()  # it is ready

    def measure(self):
        """dict of what the piece of work reported, with its `seconds` and `cpu_seconds`."""
        self._process.stdin.write(_GO)
        self._process.stdin.flush()
        return self._answer()

    def close(self):
        """Ends the process."""
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
        self._errors.close()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            raise RuntimeError(f"{self.name} ended:\n{self._errors.read()[-3000:]}")
        return json.loads(line)


def serve(work):
    """Runs in the worker: one call of `work` to warm up, then one for each line on stdin.

    Args:
        work: function without arguments; returns a dict of numbers to report.
    """
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    work()
    print(json.dumps({}), file=answers, flush=True)
    for _ in sys.stdin:
        cpu = _cpu_seconds()
        started = time.perf_counter()
        report = work()
        seconds = time.perf_counter() - started
        report |= {"seconds": seconds, "cpu_seconds": _cpu_seconds() - cpu}
        print(json.dumps(report), file=answers, flush=True)


def _cpu_seconds():
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure(commands, rounds, threads):
    """Measures all systems in turn.

    Args:
        commands: dict of the systems' names to the commands of their workers.
        rounds: int.
        threads: int, as of `Worker`.

    Returns:
        dict of the names to lists of `rounds` reports, as from `Worker.measure`.
    """
    order = random.Random(0)
    with contextlib.ExitStack() as stack:
        workers = []
        for name, command in commands.items():  # one after the other: starting is heavy too
            workers.append(Worker(name, command, threads))
            stack.callback(workers[-1].close)
            print(f"{name} is ready", file=sys.stderr)
        reports = {name: [] for name in commands}
        for number in range(rounds):
            order.shuffle(workers)
            for worker in workers:
                reports[worker.name].append(worker.measure())
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return reports


def spread(values, digits):
    """ "median (least–most)" of the values."""
    numbers = statistics.median(values), min(values), max(values)
    return "{} ({}–{})".format(*(f"{number:,.{digits}f}" for number in numbers))


def table(reports, unit, baseline):
    """A Markdown table: rate, and ratios to the baseline taken within each round.

    Args:
        reports: as from `measure`; each report has a count under `unit`.
        unit: str, such as "tokens".
        baseline: str, the system that the others are compared with.

    Returns:
        str. Every cell is the median over the rounds with the least and the most.
    """

    def rates(name, seconds="seconds"):
        return [report[unit] / report[seconds] for report in reports[name]]

    def ratios(name, seconds):
        pairs = zip(rates(name, seconds), rates(baseline, seconds), strict=True)
        return [rate / base for rate, base in pairs]

    lines = [
        f"| system | {unit}/s | ratio | ratio by CPU time |",
        "|---|---|---|---|",
    ]
    for name in reports:
        cells = [name, spread(rates(name), 0)]
        cells += [spread(ratios(name, seconds), 2) for seconds in ("seconds", "cpu_seconds")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
