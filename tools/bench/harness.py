"""Interleaved measurement of systems in separate processes, one at a time.

On a shared machine, the ratio of two times measured one directly after the other is more reliable
than a single time. All systems start and then wait. In each round, the systems work one after the
other in a new random order, and report their times.
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
from pathlib import Path

_GO = "go\n"
_THREADS = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")
_THREADS += ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
# On a shared host, spinning OpenMP threads wait long for sleeping threads, and spinning counts as
# CPU time.
_NO_SPINNING = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}


class Worker:
    """A process that runs a unit of work on request.

    Args:
        name: str, name of the measured system.
        command: list of str; the process runs `serve`.
        threads: int, number of threads in each of a library's thread pools.

    Raises:
        RuntimeError: The process ended. Its message contains the end of the process's stderr.
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

    def wait(self):
        """Waits until the process is ready."""
        self._read_answer()

    def measure(self):
        """Returns the report of the work as a dict, with `seconds` and `cpu_seconds`."""
        self._process.stdin.write(_GO)
        self._process.stdin.flush()
        return self._read_answer()

    def close(self):
        """Ends the process."""
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
        self._errors.close()

    def _read_answer(self):
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            raise RuntimeError(f"{self.name} ended:\n{self._errors.read()[-3000:]}")
        return json.loads(line)


def serve(work):
    """Main loop of a worker: calls `work` once to warm up, then once for each line on stdin.

    Args:
        work: function without arguments that returns a dict of numbers to report.
    """
    answers, sys.stdout = sys.stdout, sys.stderr  # keeps the libraries' output out of the results
    work()
    print(json.dumps({}), file=answers, flush=True)
    for _ in sys.stdin:
        cpu = _measure_cpu_seconds()
        started = time.perf_counter()
        report = work()
        seconds = time.perf_counter() - started
        report |= {"seconds": seconds, "cpu_seconds": _measure_cpu_seconds() - cpu}
        print(json.dumps(report), file=answers, flush=True)


def _measure_cpu_seconds():
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure(commands, rounds, threads, together=False):
    """Measures all systems alternately.

    Args:
        commands: dict from system names to worker commands.
        rounds: int.
        threads: int, see `Worker`.
        together: bool, whether all systems start at the same time. Needs much memory.

    Returns:
        dict from system names to lists of `rounds` reports; see `Worker.measure`.
    """
    order = random.Random(0)
    with contextlib.ExitStack() as stack:
        workers = []
        for name, command in commands.items():
            workers.append(Worker(name, command, threads))
            stack.callback(workers[-1].close)
            if not together:
                workers[-1].wait()
        if together:
            for worker in workers:
                worker.wait()
        reports = {name: [] for name in commands}
        for number in range(rounds):
            order.shuffle(workers)
            for worker in workers:
                reports[worker.name].append(worker.measure())
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return reports


def save(reports, path):
    """Writes the measurements as JSON if a path is given."""
    if path:
        Path(path).write_text(json.dumps(reports))


def spread(values, digits):
    """Formats the values as "median (least–most)"."""
    numbers = statistics.median(values), min(values), max(values)
    return "{} ({}–{})".format(*(f"{number:,.{digits}f}" for number in numbers))


def table(reports, unit, baseline):
    """Returns a Markdown table of rates, and of their ratios to the baseline within each round.

    Args:
        reports: result of `measure`; each report has a count under `unit`.
        unit: str, name of the count, such as "tokens".
        baseline: str, the system that is the denominator of the ratios.

    Returns:
        str. A cell contains the median, minimum and maximum of the rounds.
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
