"""Reads files of every kind with changed bytes and exchanged values, in processes of their own.

    python -m tests.mutated_files --count 20000 --seed 0

A reader may return or raise `InputError`, which names the file. Any other error, a crash, more than
1 GiB of memory or 5 seconds beyond what the unchanged files take, or a change in the folders of the
process is a failure, which is printed with the case's number; `--kind KIND --case NUMBER` repeats it.
"""

import argparse
import collections
import copy
import json
import logging
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 1 << 30  # bytes of memory, in addition to the memory of the unchanged file
LARGEST = 1 << 20  # bytes of a changed file, since lines may be repeated a million times
SECONDS = 5  # of processor time, in addition to the time of the unchanged file
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\w.+-]+|\s+|.', re.DOTALL)
_LINE = re.compile(rb"[^\n]*\n?")
_WORDS = rb"""0 -1 1e999 null NaN [] {} " , ../x 99999999999999999999 \ud800""".split()
_WORDS += [b"", b"\t", b"\n", b"\r", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80"]
_WORDS += [b"x" * 999, b"9" * 5_000, b"[" * 100_000, b"a: &a [*a]", b"PK\x03\x04"]
# Values that replace one of a JSON file.
_VALUES = json.loads(
    r"""[null, true, false, 0, -1, 1, 2, 7, 300, 65536, 2147483648, 1e30, 0.5, -0.5, 1e-300, NaN,
    1e999, "", " ", "x", "0", "-1", "true", "../x", "/etc/passwd", "\u0000", "\ud800", "a\nb", "(.*)*$",
    "bert", "gelu", "float32", "[MASK]", "BertModel", [], [[]], [null], [1], ["x", "x"], [{}],
    [["x", 1]], [["a", "b"], ["c"]], [[1, 2], [3, 4]], [0.5, NaN], {}, {"x": 1}, {"": ""}, {"0": "x"},
    {"0": null}, {"type": "x"}, {"content": "x"}, {"id": 0, "content": "[PAD]"}, {"x": {"y": {}}}]"""
)
_VALUES += [10**30, "x" * 100_000, "é" * 100, list(range(1_000)), {str(n): n for n in range(300)}]
_BYTES = [b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\xff" * 8, b"\0" * 8, b"\x80", b"\x01"]

# === Changes ===


def changed(data: bytes, draw: random.Random, sources: list[bytes]) -> bytes:
    """Returns a file with one to four changes: of bytes, or of values exchanged for others."""
    changes = [_with_bytes, _with_tokens, _with_lines, _with_values]
    change = draw.choice([*changes, _with_bytes, _with_tokens, _with_values])
    for _ in range(draw.choice([1, 1, 2, 4])):
        data = change(data, draw, sources)[:LARGEST]
    return data


def _with_bytes(data, draw, sources):
    place = draw.randrange(len(data) + 1)
    end = min(len(data), place + draw.choice([0, 1, 1, 2, 4, 8, 100]))
    kind = draw.randrange(6)
    if kind == 0:
        return data[:place]
    if kind == 1:
        flipped = bytes(byte ^ (1 << draw.randrange(8)) for byte in data[place:end][:1])
        return data[:place] + flipped + data[place + len(flipped) :]
    if kind == 2:
        return data[:place] + draw.choice(_BYTES) + data[end:]
    if kind == 3:
        return data[:place] + data[end:]
    source = data if kind == 4 else draw.choice(sources)
    start = draw.randrange(len(source) + 1)
    return data[:place] + source[start : start + draw.choice([4, 16, 200])] + data[end:]


def _with_tokens(data, draw, sources):
    return _exchanged(_TOKEN.findall(data), draw, sources, _TOKEN)


def _with_lines(data, draw, sources):
    return _exchanged(_LINE.findall(data), draw, sources, _LINE)


def _with_values(data, draw, sources):
    """Replaces or removes a value of JSON, or of a line of it; exchanges tokens of another file."""
    before, after = b"", b""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        lines = data.splitlines(keepends=True) or [b""]
        number = draw.randrange(len(lines))
        before, after = b"".join(lines[:number]), b"\n" + b"".join(lines[number + 1 :])
        try:
            content = json.loads(lines[number])
        except (ValueError, RecursionError):
            return _with_tokens(data, draw, sources)
    places = list(_places([content], 0))
    outer, key = draw.choice(places)
    if draw.randrange(8):
        outer[key] = copy.deepcopy(draw.choice(_VALUES))
    else:
        del outer[key]
    return before + json.dumps(places[0][0]).encode()[1:-1] + after


def _places(outer, key):
    """Yields (list or dict, key) of a JSON value and of all values in it."""
    yield outer, key
    inner = outer[key]
    keys = inner if isinstance(inner, dict) else range(len(inner) if isinstance(inner, list) else 0)
    for each in keys:
        yield from _places(inner, each)


def _exchanged(parts, draw, sources, pattern):
    """Joins the parts of a file, with one replaced, repeated, removed or exchanged."""
    if not parts:
        return draw.choice(sources)
    first, second = draw.randrange(len(parts)), draw.randrange(len(parts))
    kind = draw.randrange(6)
    if kind == 0:
        parts[first], parts[second] = parts[second], parts[first]
    elif kind == 1:
        parts[first] = parts[second]
    elif kind == 2:
        parts[first] *= draw.choice([0, 2, 3, 1000])
    elif kind == 3:
        parts[first] = draw.choice(pattern.findall(draw.choice(sources)) or [b""])
    else:
        parts[first] = draw.choice(_WORDS)
    return b"".join(parts)


# === Cases ===


def _contents(*folders):
    return {
        str(path): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for folder in folders
        for path in sorted(Path(folder).rglob("*"))
    }


def _memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _address_space():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


class _Late(BaseException):
    """Readers catch `OSError`, and so `TimeoutError`."""


def _late(*_):
    raise _Late(f"more than {SECONDS} s")


def run(kind: str, cases: list[int], seed: int, report: Path) -> None:
    """Runs cases of a kind; writes a line with the number of each, then one of JSON about them."""
    from tests.mutated_kinds import KINDS, sound_files

    sys.stderr = open(os.devnull, "w")
    logging.disable(logging.CRITICAL)
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, _late)
    work, here = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    names, read = KINDS[kind](work)
    sound = {name: (work / name).read_bytes() for name in names}
    sources = sound_files() + list(sound.values())
    os.chdir(here)
    tempfile.tempdir = str(here)
    read(work)  # imports what it needs
    begun = time.process_time()
    read(work)
    seconds = time.process_time() - begun
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + 2 * LIMIT,) * 2)
    before, memory = _contents(work, here), _memory()
    counts: collections.Counter = collections.Counter()
    most = {"MiB": 0, "s": 0.0}
    bad: list = []
    with open(report, "w") as file:
        for number in cases:
            print(number, file=file, flush=True)
            draw = random.Random(f"{seed} {kind} {number}")
            name = draw.choice(names)
            data = changed(sound[name], draw, sources)
            (work / name).write_bytes(data)
            begun = time.process_time()
            outcome = _outcome(read, work, name, SECONDS + seconds)
            most["s"] = max(most["s"], time.process_time() - begun - seconds)
            most["MiB"] = max(most["MiB"], (_memory() - memory) >> 20)
            counts[outcome if outcome in ("read", "refused") else "bad"] += 1
            if outcome not in ("read", "refused"):
                bad.append((number, name, outcome))
            if _memory() - memory > LIMIT:
                bad.append((number, name, f"{(_memory() - memory) >> 20} MiB"))
                memory = _memory()
            if _contents(work, here) != before | {str(work / name): data}:
                bad.append((number, name, "changed a folder"))
            (work / name).write_bytes(sound[name])
        print(json.dumps({"counts": counts, "bad": bad, "most": most}), file=file, flush=True)
    shutil.rmtree(work)
    os._exit(0)  # without what TensorFlow does at the end


def _outcome(read, folder, name, seconds):
    """Returns `"read"`, `"refused"` or a description of what is wrong."""
    from keras_bert_impl.utils.errors import InputError

    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(20 * SECONDS)  # The processor may be shared.
    try:
        read(folder)
    except InputError as error:
        message = str(error)
        # The file, or a folder whose files do not fit together.
        folders = list(Path(name).parents)[:-1] or [Path()]
        places = [Path(name).name, *(str(folder / inner) for inner in folders)]
        is_clear = any(place in message for place in places)
        is_one_line = len(message) <= 3_000 and "\n" not in message
        return "refused" if is_clear and is_one_line else f"message: {message[:200]!r}"
    except BaseException as error:  # any other is a failure
        return repr(error)[:300]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    return "read"


def run_apart(kind: str, cases: list[int], seed: int) -> tuple[collections.Counter, list, dict]:
    """Same as `run`, in a process of its own; goes on after a case that ends it."""
    from tests.mutated_kinds import GRAPHS

    counts: collections.Counter = collections.Counter()
    bad: list = []
    most: dict = {}
    with tempfile.TemporaryDirectory() as folder:
        while cases:
            report = Path(folder, "report")
            report.unlink(missing_ok=True)
            # Forked, since importing TensorFlow takes longer than the cases; its graphs hang if forked.
            context = multiprocessing.get_context("spawn" if kind in GRAPHS else "fork")
            process = context.Process(target=run, args=(kind, cases, seed, report))
            process.start()
            process.join()
            lines = report.read_text().splitlines() if report.exists() else []
            if not lines:
                raise RuntimeError(f"{kind}: the sound files are not read")
            if lines[-1].startswith("{"):
                result = json.loads(lines[-1])
                counts += collections.Counter(result["counts"])
                return counts, bad + result["bad"], result["most"]
            last = cases.index(int(lines[-1]))
            bad.append((cases[last], kind, f"exit {process.exitcode}"))
            counts += collections.Counter({"before a crash": last, "bad": 1})
            cases = cases[last + 1 :]
    return counts, bad, most


_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "MALLOC_ARENA_MAX": "2", "CUDA_VISIBLE_DEVICES": ""}
_QUIET |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}


def _text(most):
    return ", ".join(f"{value:.1f} {unit}" for unit, value in most.items())


def main() -> int:
    """Runs all cases; returns whether any failed."""
    os.environ |= _QUIET
    from tests.mutated_kinds import KINDS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, nargs="+")
    parser.add_argument("--case", type=int, help="number of one case of --kind")
    arguments = parser.parse_args()
    kinds = arguments.kind or list(KINDS)
    total: collections.Counter = collections.Counter()
    failures, most = 0, {"MiB": 0, "s": 0.0}
    for kind in kinds:
        cases = list(range(-(-arguments.count // len(kinds))))
        if arguments.case is not None:
            cases = [arguments.case]
        counts, bad, of_kind = run_apart(kind, cases, arguments.seed)
        print(f"{kind:28} {dict(counts)} failures {len(bad)} {_text(of_kind)}", flush=True)
        for case in bad[:20]:
            print("   ", *case, flush=True)
        total, failures = total + counts, failures + len(bad)
        most = {unit: max(value, of_kind.get(unit, 0)) for unit, value in most.items()}
    files = f"{sum(total.values())} files of {len(kinds)} kinds: {dict(total)}"
    print(f"{files}, {failures} failures, largest: {_text(most)}")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
