"""Sends random requests to a SavedModel by the C API; run as a program, which a crash would end.

    python -m tests.serving.fuzz DIRECTORY NUMBER_OF_INPUTS SEED

Prints, as JSON, how many requests were answered and how many refused. Every answer must have a row
for each example and only finite numbers.
"""

import importlib
import json
import sys
from pathlib import Path

import numpy as np

TOOLS = Path(__file__).parents[2] / "tools" / "serving"
WORDS = "good bad film a the is great [MASK] [CLS] don't U.S.A.".split()
WORDS += ["\u65e5\u672c", "\u00e9t\u00e9", "\U0001f600"]
SPACES = [" ", "  ", "\t", "\n", "\u3000", "\u200b", "\0", ""]


def load_tool(name="c_api"):
    """A module of `tools/serving`, which is no package."""
    sys.path.insert(0, str(TOOLS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(TOOLS))


def random_text(draw):
    """bytes: words, any characters, or any bytes."""
    size = int(draw.choice([0, 1, 5, 30, 300], p=[0.1, 0.2, 0.4, 0.25, 0.05]))
    kind = draw.integers(4)
    if kind == 0:
        return draw.bytes(size)
    if kind == 1:
        codes = draw.integers(0, 0x110000, size)
        return "".join(map(chr, codes)).encode("utf-8", "replace")
    if kind == 2:
        return "".join(map(chr, draw.integers(0, 128, size))).encode()
    picks = zip(draw.choice(WORDS, size), draw.choice(SPACES, size))
    return "".join(word + space for word, space in picks).encode()


def random_strings(draw, rank):
    """Object array, now and then of a wrong rank."""
    shape = (int(draw.integers(0, 7)), *draw.integers(0, 4, rank - 1))
    if draw.random() < 0.05:
        shape = tuple(draw.integers(0, 3, draw.integers(0, 4)))
    flat = [random_text(draw) for _ in range(int(np.prod(shape)))]
    array = np.empty(len(flat), object)
    array[:] = flat
    return array.reshape(shape)


def random_ids(draw, names, rank):
    """dict of arrays, now and then of ids without embeddings, a wrong dtype, shape or rank."""
    shape = tuple(draw.integers(1, 6, rank - 1)) + (int(draw.integers(1, 33)),)
    if draw.random() < 0.1:
        shape = tuple(draw.integers(0, 40, draw.integers(0, 4)))
    limits = {"token_ids": 19, "input_word_ids": 19}
    found = {}
    for name in names:
        own = shape if draw.random() > 0.02 else tuple(draw.integers(0, 3, draw.integers(0, 4)))
        dtype = "int32" if draw.random() > 0.02 else draw.choice(["int64", "float32"])
        low, high = (0, limits.get(name, 2)) if draw.random() > 0.1 else (-(2**31), 2**31 - 1)
        found[name] = draw.integers(low, high, own).astype(dtype)
    return found


def random_request(draw, c_api, takes, ranks):
    """dict of arrays for a signature."""
    if all(dtype == c_api.STRING for _, dtype in takes.values()):
        strings = {name: random_strings(draw, ranks.get(name, 1)) for name in takes}
        if len(strings) > 1 and draw.random() > 0.05:  # as many of each
            count = min(len(s) if s.ndim else 0 for s in strings.values())
            strings = {name: s[:count] if s.ndim else s for name, s in strings.items()}
        if draw.random() < 0.02:
            strings[next(iter(strings))] = np.zeros(2, "int32")
        return strings
    return random_ids(draw, takes, ranks.get("ids", 2))


def size_of(request):
    """int. Examples in a request."""
    return max((len(values) if values.ndim else 0 for values in request.values()), default=0)


def check(request, answer):
    """Raises an `AssertionError` unless there is a finite row for each example."""
    for name, values in answer.items():
        assert len(values) == size_of(request), (name, values.shape)
        if values.dtype.kind == "f":
            assert np.isfinite(values).all(), (name, values)


def main(directory, inputs, seed, ranks="{}"):
    c_api = load_tool()
    model, draw = c_api.Model(directory), np.random.default_rng(int(seed))
    ranks, sent, counts = json.loads(ranks), 0, {"answered": 0, "refused": 0}
    messages = {}
    while sent < int(inputs):
        signature = str(draw.choice(sorted(model.signatures)))
        request = random_request(draw, c_api, model.signatures[signature][0], ranks)
        sent += max(size_of(request), 1)
        try:
            check(request, model.ask(signature, **request))
            counts["answered"] += 1
        except c_api.Failure as failure:
            counts["refused"] += 1
            text = str(failure).splitlines()[0][:80]
            messages[text] = messages.get(text, 0) + 1
    print(json.dumps({**counts, "inputs": sent, "messages": messages}))


if __name__ == "__main__":
    main(*sys.argv[1:])
