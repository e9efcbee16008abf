"""Replaces every value of every external file by junk: readers succeed or raise `InputError`.

The normal run takes a sample; `pytest -m slow tests/test_hostile_files.py` takes all cases.
"""

import collections
import json
import logging
import random

import pytest

from tests.hostile_readers import READERS, write
from tests.mutations import cases, mutated, outcome

SAMPLE = 600  # out of 127,000


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Returns a dict of reader name to (directory, contents of its files, function)."""
    found = {}
    for name, (make, read) in READERS.items():
        directory = tmp_path_factory.mktemp("files")
        contents = make(directory)
        for file, content in contents.items():
            write(directory, file, json.dumps(content).encode())
        found[name] = directory, contents, read
    return found


def run(prepared, name, some):
    """Counts the outcomes for one reader; lists the cases that end in any other error."""
    directory, contents, read = prepared[name]
    counts, bad = collections.Counter(), []
    for file, path, junk in some:
        write(directory, file, mutated(contents[file], path, junk))
        try:
            message = outcome(lambda: read(directory))
            counts["read" if message is None else "refused"] += 1
            if message is not None and (len(message) > 3_000 or "\n" in message):
                bad.append((file, path, repr(junk)[:40], f"message: {message[:200]!r}"))
        except Exception as error:  # any other error is a failure
            bad.append((file, path, repr(junk)[:40], repr(error)[:200]))
        write(directory, file, json.dumps(contents[file]).encode())
    return counts, bad


@pytest.mark.parametrize("name", READERS)
def test_files_as_they_should_be_are_read(prepared, name):
    directory, _, read = prepared[name]
    assert outcome(lambda: read(directory)) is None


def test_a_sample_of_junk_in_files(prepared):
    logging.disable(logging.WARNING)
    every = [(name, case) for name in READERS for case in cases(prepared[name][1])]
    chosen = collections.defaultdict(list)
    for name, case in random.Random(0).sample(every, SAMPLE):
        chosen[name].append(case)
    results = {name: run(prepared, name, some) for name, some in chosen.items()}
    logging.disable(logging.NOTSET)
    assert not [case for _, bad in results.values() for case in bad]
    counts = sum((counts for counts, _ in results.values()), collections.Counter())
    assert min(counts["read"], counts["refused"]) > SAMPLE / 10


@pytest.mark.parametrize(
    "name, case",
    [  # found by the slow test below
        ("byte-level BPE", ("tokenizer.json", ("added_tokens",), [["a", "b"], ["c"]])),
        ("manifest", ("manifest.json", ("settings", "length"), 1)),
        ("FlauBERT", ("tokenizer_config.json", ("extra_special_tokens",), 7)),
    ],
)
def test_junk_that_was_not_refused(prepared, name, case):
    counts, bad = run(prepared, name, [case])
    assert not bad and counts["refused"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_all_junk_in_all_files(prepared, name):
    counts, bad = run(prepared, name, cases(prepared[name][1]))
    print(name, dict(counts), len(bad))
    assert not bad
