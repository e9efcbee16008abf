"""Replaces one value of a file by junk, to test readers of files from other sources."""

import copy
import itertools
import json
import math
import warnings

from keras_bert_impl.io.errors import InputError

_DIGITS = "@digits@"  # stands for a number that Python refuses to parse
_RAW = {f'"{_DIGITS}"': "9" * 5_000, '"@infinite@"': "1e999"}
_RAW |= {'"@deep@"': "[" * 5_000 + "]" * 5_000}


def _nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


REMOVED = object()
JUNK = [
    *(REMOVED, None, True, False, 0, -1, 1, 2, 7, 300, 2**31 - 1, 2**31, 2**63, 10**30, -(10**30)),
    *(
        0.0,
        0.5,
        1.0,
        1.5,
        -0.5,
        1e-300,
        1e308,
        math.nan,
        math.inf,
        -math.inf,
        _DIGITS,
        "@infinite@",
    ),
    *("", " ", "x", "0", "1", "true", "null", "NaN", "../x", "/etc/passwd", "a/b", "a\\b", "\0"),
    *("\ud800", "\ufeff", "a\nb", "é" * 100, "x" * 100_000, "%s%n{0}", "__class__", "(.*)*$"),
    *(
        [],
        [[]],
        [None],
        [1],
        [1, 1],
        ["x"],
        ["x", "x"],
        [{}],
        [1.5, math.nan],
        [["x", 1]],
        _nested(50),
    ),
    *("@deep@", {}, {"x": 1}, {"": ""}, {"0": "x"}, {"0": 0}, {"type": "x"}, {"content": "x"}),
    *range(3, 20),
    *(-2, -7, 63, 64, 65, 255, 256, 257, 511, 513, 1023, 1025, 4095, 65_535, 65_536, 16_777_217),
    *(0.1, 0.25, 0.999, 1.0000001, 2.0, 1e-12, 1e-45, 3.5e38, 1e19, -1e308, 123456789.125, -0.0),
    *(
        "bert",
        "roberta",
        "gelu",
        "relu",
        "absolute",
        "mean",
        "cls",
        "LORA",
        "all",
        "none",
        "float32",
    ),
    *("BertModel", "BertForSequenceClassification", "TextClassifier", "regression", "all-linear"),
    *("[MASK]", "<mask>", "##", "▁", "a b", "1e3", "-1", "٣", "²", "True", "None", "query", "0-0"),
    *("tokenizer.json", ".", "..", "~", "C:\\x", "http://x", "model.safetensors", "\u2028", "\x85"),
    *(
        [0],
        [True],
        [""],
        ["bert"],
        ["a", 1],
        [None, None],
        [[], {}],
        [{"content": "x"}],
        [0.5, 0.5],
    ),
    *([[1, 2], [3, 4]], [["a", "b"], ["c"]], ["0", "1"], [1, 2, 3], [2**40], ["x" * 1_000] * 20),
    *({"0": "a", "1": "b"}, {"a": 0, "b": 1}, {"1": "a"}, {"0": None}, {"name": "x", "size": 1}),
    *({"type": "Sequence", "processors": []}, {"kind": "lora"}, {"id": 0, "content": "[PAD]"}),
    *(
        {"x": {"y": {}}},
        {"lower": [], "upper": {}},
        list(range(1_000)),
        {str(n): n for n in range(300)},
    ),
]


FILES = [  # contents that replace a whole file
    *(b"", b"\n", b"\0", b"\xff", b"\xff\xfe{\0", b"\xef\xbb\xbf{}", b"{", b"}", b"{}{}", b"{} x"),
    *(b"[", b"]", b'"', b"nul", b"{'a': 1}", b'{"a": 1,}', b'{"a": 1, "a": 2}', b'{"a"}', b"// x"),
    *(
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"9" * 5_000,
        b"-",
        b"1e",
        b'"\\ud800"',
        b'{"\\ud800": 1}',
    ),
    *(
        b"a: &a [*a]",
        b"a: !!python/object:os.x {}",
        b"a: 2024-99-99",
        b"<<: {a: 1}",
        b"\x1f\x8b\x08\0",
    ),
    *(b"PK\x03\x04", b"\x89HDF", b"\x80\x02}.", b'{"\0": "\0"}', b"\r", b"\xc2", b"\xed\xa0\x80"),
]


def places(value, path=()):
    """Yields the paths of all values in a JSON value, starting with the root."""
    yield path
    if isinstance(value, dict):
        inner = value.items()
    else:
        inner = enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from places(part, (*path, key))


def mutated(content, path, junk):
    """Returns the bytes of a file with `junk` at a path."""
    if isinstance(junk, bytes):
        return junk
    if not path:
        return _text({} if junk is REMOVED else junk)
    content = copy.deepcopy(content)
    outer = content
    for key in path[:-1]:
        outer = outer[key]
    if junk is REMOVED:
        del outer[path[-1]]
    else:
        outer[path[-1]] = junk
    return _text(content)


def _text(value):
    text = json.dumps(value, ensure_ascii=True)
    for placeholder, raw in _RAW.items():
        text = text.replace(placeholder, raw)
    return text.encode() + b"\n"


def cases(files):
    """Yields (name, path, junk) for all mutations of a dict of names to contents."""
    for name, content in files.items():
        yield from itertools.product([name], places(content), JUNK)
        yield from itertools.product([name], [()], FILES)


def outcome(read):
    """Returns None or the message of an `InputError`; raises any other error or warning."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read()
    except InputError as error:
        return str(error)
    return None
