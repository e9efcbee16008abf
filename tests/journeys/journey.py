"""Runs a journey and prints the time to each result and the lines that had to be typed.

    python -m tests.journeys.journey tests/journeys/engineer.sh [DIRECTORY OF keras-bert]

A journey is a script whose parts end in `# => RESULT`. It runs in a new folder, in which `tickets.csv`,
`notes.conll`, the files of `reviews.py` and `corpus/` are, and `MODEL` names a model directory.
"""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.journeys import reviews

ROOT = Path(__file__).resolve().parents[2]
_LIMIT = 900  # seconds
# Printed after each part, with the time.
_STAMPS = {
    ".sh": 'echo; date "+# => %s.%N"\n',
    ".py": 'print("\\n# =>", __import__("time").time())\n',
}


@dataclasses.dataclass(frozen=True)
class Result:
    """A result of a journey.

    Attributes:
        name: what a person has then.
        lines: lines typed for it, without comments and blank lines.
        seconds: since the journey began.
        printed: what its part printed.
    """

    name: str
    lines: int
    seconds: float
    printed: str


def parts(script: Path) -> list[tuple[str, str]]:
    """Returns the (source, result) of each part."""
    pieces = re.split(r"^# => (.*)\n", script.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert not pieces[-1].strip(), f"{script}: the last part has no result"
    return list(zip(pieces[0:-1:2], pieces[1::2], strict=True))


def lines(source: str) -> int:
    """Counts the lines that a person types; a line that goes on with a backslash is one."""
    joined = re.sub(r"\\\n\s*", " ", source)
    return sum(bool(line.strip()) and not line.startswith("#") for line in joined.split("\n"))


def run(script: Path, folder: Path, programs: Path, model: str) -> list[Result]:
    """Runs a journey in an empty folder.

    Args:
        programs: the folder of `keras-bert` and `python`.
        model: value of `MODEL`.

    Raises:
        AssertionError: a part failed.
    """
    shutil.copy(ROOT / "docs" / "tickets.csv", folder)
    shutil.copy(ROOT / "examples" / "data" / "notes.conll", folder)
    if not (folder / "reviews.csv").exists():
        reviews.write(folder, *reviews.made())
    (folder / "corpus").mkdir()
    for page in sorted((ROOT / "docs").glob("*.md")):  # any text will do
        shutil.copy(page, folder / "corpus" / f"{page.stem}.txt")
    settings = {"PATH": f"{programs}:{os.environ['PATH']}", "MODEL": model, "PORT": "0"}
    settings |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    program = [str(programs / "python")] if script.suffix == ".py" else ["bash", "-euo", "pipefail"]
    stamp = _STAMPS[script.suffix]
    start = time.time()
    process = subprocess.run(
        [*program, "-c", "".join(source + stamp for source, _ in parts(script))],
        cwd=folder,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=_LIMIT,
    )
    printed = re.split(r"^# => ([0-9.]+)\n", process.stdout, flags=re.MULTILINE)
    texts, times = printed[0::2], printed[1::2]
    results = [
        Result(name, lines(source), float(at) - start, text.strip())
        for (source, name), at, text in zip(parts(script), times, texts)
    ]
    if process.returncode:
        failed = parts(script)[len(results)][1]
        raise AssertionError(f"{failed}: {process.stderr[-2000:]}")
    return results


def go(name: str, programs: Path, folder: Path, model: str) -> list[str]:
    """Runs a journey of this folder and prints its table; returns what each part printed."""
    results = run(Path(__file__).with_name(name), folder, programs, model)
    print(f"{name}\n{table(results)}")
    return [result.printed for result in results]


def table(results: list[Result]) -> str:
    """Returns the results as a Markdown table."""
    rows = ["| result | lines typed | after |", "|---|---|---|"]
    rows += [f"| {result.name} | {result.lines} | {result.seconds:.0f} s |" for result in results]
    return "\n".join(rows)


if __name__ == "__main__":
    programs = Path(sys.argv[2] if len(sys.argv) > 2 else Path(sys.executable).parent)
    sys.path.append(str(ROOT / "examples"))
    from common import small_model

    with tempfile.TemporaryDirectory() as folder:
        print(table(run(Path(sys.argv[1]), Path(folder), programs, small_model())))
