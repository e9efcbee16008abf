"""HDF5 files as files of tensors: what h5py reads, and nothing outside the file."""

import h5py
import ml_dtypes
import numpy as np
import pytest

from keras_bert_impl.checkpoints.interop.hdf5 import Hdf5File
from keras_bert_impl.utils.errors import InputError

VALUES = np.random.default_rng(0).normal(size=(5, 3))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tf_model.h5"


def test_reads_what_h5py_reads(path):
    with h5py.File(path, "w") as file:
        file["a/b/kernel:0"] = VALUES.astype("float32")
        file["a/bias:0"] = VALUES[0].astype("float16")
        file["wide"] = VALUES
        file["a/step"] = np.int64(3)
        file["names"] = np.array([b"x", b"y"])
        file["narrow"] = VALUES.astype(ml_dtypes.bfloat16).view("V2")
        file["narrow"].attrs["dtype"] = "bfloat16"
    reader = Hdf5File(path)
    types = {name: dtype for name, (dtype, _) in reader.header.items()}
    assert types == {
        **{"a/b/kernel:0": "F32", "a/bias:0": "F16", "wide": "F64", "a/step": "int64"},
        **{"names": "bytes8", "narrow": "BF16"},
    }
    assert reader.header["a/b/kernel:0"][1] == (5, 3)
    assert np.array_equal(reader.read("a/b/kernel:0"), VALUES.astype("float32"))
    assert np.array_equal(reader.read("a/bias:0"), VALUES[0].astype("float16"))
    assert np.array_equal(reader.read("narrow"), VALUES.astype(ml_dtypes.bfloat16))


def endless(file):
    file["a/b/c"] = file


def virtual(file):
    layout = h5py.VirtualLayout((5, 3), "float32")
    layout[:] = h5py.VirtualSource("other.h5", "x", (5, 3))
    file.create_virtual_dataset("x", layout)


HOSTILE = {
    "another file": (lambda f: f.update({"a": h5py.ExternalLink("o.h5", "/x")}), "/a is a link"),
    "link": (lambda f: f.update({"b": h5py.SoftLink("/x")}), "/b is a link"),
    "endless": (endless, "groups are nested more than 32 levels deep"),
    "virtual": (virtual, "x is stored in another file"),
    "external": (
        lambda f: f.create_dataset("x", (2,), "f4", external=[("/etc/hostname", 0, 8)]),
        "x is stored in another file",
    ),
    "huge": (lambda f: f.create_dataset("x", (2**40,), "f4", chunks=(64,)), "contiguously"),
    "packed": (lambda f: f.create_dataset("x", data=VALUES, compression="gzip"), "contiguously"),
    "numbers": (lambda f: f.create_dataset("x", data=[1, 2]), "has dtype int64"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files(path, kind):
    write, message = HOSTILE[kind]
    with h5py.File(path, "w") as file:
        write(file)
    with pytest.raises(InputError, match=message):
        Hdf5File(path).read("x")
