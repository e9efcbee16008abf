"""`flax_model.msgpack`: arrays are found, and damaged files are one error.

What Flax itself wrote is read in `test_tensorflow_names.py`.
"""

import struct

import ml_dtypes
import numpy as np
import pytest

from keras_bert_impl.checkpoints.interop.flax_file import FlaxFile
from keras_bert_impl.utils.errors import InputError

VALUES = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")


def string(text):
    return bytes([0xD9, len(text)]) + text.encode()


def mapping(values, form=">BH", first=0xDE):
    content = b"".join(string(name) + value for name, value in values.items())
    return struct.pack(form, first, len(values)) + content


def array(values, shape=None, size=None, dtype=None):
    shape = values.shape if shape is None else shape
    data = values.tobytes()
    size = len(data) if size is None else size
    ranks = b"".join(struct.pack(">BI", 0xCE, n) for n in shape)
    content = b"\x93" + bytes([0x90 + len(shape)]) + ranks + string(dtype or values.dtype.name)
    content += struct.pack(">BI", 0xC6, size) + data
    return struct.pack(">BIB", 0xC9, len(content), 1) + content


def written(tmp_path, content):
    path = tmp_path / "flax_model.msgpack"
    path.write_bytes(content)
    return path


def test_reads_arrays_of_nested_maps(tmp_path):
    half = VALUES.astype("float16")
    brain = VALUES[0].astype(ml_dtypes.bfloat16)
    values = {"a": mapping({"b": array(VALUES), "c": array(half)}), "step": array(np.array(3))}
    values["d"] = mapping({"e": array(brain)}, ">BI", 0xDF)
    file = FlaxFile(written(tmp_path, mapping(values)))
    assert file.header == {
        "a/b": ("F32", (6, 4)),
        "a/c": ("F16", (6, 4)),
        "step": ("int64", ()),
        "d/e": ("BF16", (4,)),
    }
    for name, expected in {"a/b": VALUES, "a/c": half, "d/e": brain}.items():
        assert np.array_equal(file.read(name), expected)
        assert not file.read(name).flags.writeable  # mapped


def test_other_dtypes_are_an_error_when_read(tmp_path):
    file = FlaxFile(written(tmp_path, mapping({"a": array(VALUES, dtype="float3\n")})))
    with pytest.raises(InputError, match=r"'a' has dtype 'float3\\n'"):
        file.read("a")


def deep(levels):
    content = array(VALUES)
    for _ in range(levels):
        content = mapping({"a": content})
    return content


GOOD = mapping({"a": mapping({"b": array(VALUES)})})
DAMAGED = {
    "empty": (b"", "cannot mmap an empty file"),
    "text": (b"<!-- nothing -->", "a value of type int, expected map"),
    "cut off": (GOOD[:-1], "ends early"),
    "more": (GOOD + b"\x00", "trailing bytes"),
    "twice": (
        b"\x82" + string("a") + array(VALUES) + string("a") + array(VALUES),
        ".a. is not an array, or occurs twice",
    ),
    "absurd shape": (mapping({"a": array(VALUES, (2**31, 2**31))}), "are not an array of float32"),
    "absurd size": (mapping({"a": array(VALUES, size=2**32 - 1)}), "are not an array of float32"),
    "many dimensions": (mapping({"a": array(VALUES, (1,) * 9)}), "has 9 dimensions"),
    "many members": (b"\xdf\xff\xff\xff\xff" + GOOD, "too many or too deeply nested maps"),
    "deep": (deep(40), "too many or too deeply nested maps"),
    "number": (mapping({"a": b"\x03"}), ".a. is not an array"),
    "other extension": (mapping({"a": b"\xc7\x01\x05\x00"}), ".a. is not an array"),
    "no text": (b"\x81\xa1\xff" + array(VALUES), "can't decode byte"),
    "long name": (b"\x81\xdb\x00\x10\x00\x00" + bytes(2**20), "a name is too long"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_files(tmp_path, kind):
    content, message = DAMAGED[kind]
    with pytest.raises(InputError, match=rf"flax_model.msgpack is damaged: .*{message}"):
        FlaxFile(written(tmp_path, content))


def test_every_cut_is_an_error(tmp_path):
    for size in range(len(GOOD)):
        with pytest.raises(InputError, match="is damaged"):
            FlaxFile(written(tmp_path, GOOD[:size]))
