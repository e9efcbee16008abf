"""Mutated files of every kind: readers return or raise `InputError`, and write nothing."""

import random
import subprocess
import sys

import pytest

from tests.mutated_files import changed
from tests.mutated_kinds import KINDS

COUNT = 20_000


def test_changes_are_determined_by_the_seed_and_differ():
    data = b'{"a": 1, "b": [2, 3]}\n{"a": 4, "b": []}\n' * 5
    files = [changed(data, random.Random(seed), [b"text,label\nx,y\n"]) for seed in range(200)]
    assert files == [
        changed(data, random.Random(seed), [b"text,label\nx,y\n"]) for seed in range(200)
    ]
    assert len(set(files)) > 150 and sum(file == data for file in files) < 20
    assert any(len(file) == len(data) for file in files)  # exchanged or flipped
    assert any(len(file) < len(data) for file in files)
    assert any(b"label" in file for file in files)  # of the other file


def mutate(count, seed):
    command = [sys.executable, "-m", "tests.mutated_files", "--count", count, "--seed", seed]
    process = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    *kinds, total = process.stdout.splitlines()
    assert process.returncode == 0, process.stdout[-5_000:] + process.stderr[-2_000:]
    return len(kinds), int(total.split()[0]), total


def test_a_few_files_of_every_kind():
    kinds, count, total = mutate(6 * len(KINDS), seed=1)
    assert kinds == len(KINDS) and count == 6 * kinds and "0 failures" in total


@pytest.mark.slow
def test_twenty_thousand_files():
    kinds, count, total = mutate(COUNT, seed=0)
    assert kinds >= 20 and count >= COUNT and "0 failures" in total
    counts = dict(
        part.split(": ") for part in total[total.index("{") + 1 : total.index("}")].split(", ")
    )
    assert min(map(int, counts.values())) > COUNT / 20  # of those read and those refused
