"""`pytorch_model.bin`: equal to what PyTorch reads, and its code never runs."""

import collections
import io
import os
import pickle
import struct
import tarfile
import zipfile

import numpy as np
import pytest
import torch
import transformers

from keras_bert_impl.checkpoints.interop.torch_file import TorchFile
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.parity import random_original

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool]
FORMATS = {"zip": True, "old": False}


def state():
    """A state dict with every kind of entry that one may hold."""
    random = torch.Generator().manual_seed(3)
    values = torch.randn(6, 8, generator=random)
    tensors = {str(dtype): values.to(dtype) for dtype in DTYPES}
    tensors |= {"transposed": values.T, "part": values[2:4, 1:7:2], "row": values[5]}
    tensors |= {"tied": values, "scalar": torch.tensor(2.5), "nothing": torch.zeros(0, 3)}
    tensors["parameter"] = torch.nn.Parameter(values * 2)
    return collections.OrderedDict(tensors)


@pytest.mark.parametrize("form", FORMATS)
def test_equals_pytorch(tmp_path, form):
    path = tmp_path / "pytorch_model.bin"
    torch.save(state(), path, _use_new_zipfile_serialization=FORMATS[form])
    theirs = torch.load(path, weights_only=True)
    file = TorchFile(path)
    assert list(file.header) == list(theirs)
    for name, expected in theirs.items():
        array = file.read(name)
        assert array.shape == tuple(expected.shape) == file.header[name][1]
        expected = expected.detach()
        if expected.dtype == torch.bfloat16:
            expected, array = expected.float(), array.astype("float32")
        assert array.dtype == expected.numpy().dtype
        assert np.ascontiguousarray(array).tobytes() == expected.contiguous().numpy().tobytes()
    dtypes = [file.header[str(dtype)][0] for dtype in DTYPES]
    assert dtypes == ["F64", "F32", "F16", "BF16", "I64", "BOOL"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("protocol", [2, 4])
def test_other_protocols(tmp_path, form, protocol):
    path = tmp_path / "model.bin"
    torch.save(
        state(), path, pickle_protocol=protocol, _use_new_zipfile_serialization=FORMATS[form]
    )
    assert (TorchFile(path).read("transposed") == state()["transposed"].numpy()).all()


@pytest.mark.parametrize("form", FORMATS)
def test_encoder_from_pytorch_model_bin(tmp_path, form):
    original = random_original(transformers.BertForPreTraining)
    original.save_pretrained(tmp_path / "safe")
    (tmp_path / "old").mkdir()
    original.config.save_pretrained(tmp_path / "old")
    torch.save(
        original.state_dict(),
        tmp_path / "old" / "pytorch_model.bin",
        _use_new_zipfile_serialization=FORMATS[form],
    )
    expected, received = (Encoder.from_pretrained(tmp_path / name) for name in ("safe", "old"))
    for a, b in zip(expected.get_weights(), received.get_weights()):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.", "module._orig_mod.model."])
@pytest.mark.parametrize("has_head", [True, False])
def test_prefixes_of_wrappers(tmp_path, wrapper, has_head):
    original = random_original(transformers.BertForPreTraining)
    original = original if has_head else original.bert
    original.save_pretrained(tmp_path)
    expected = Encoder.from_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    path, state = tmp_path / "pytorch_model.bin", original.state_dict()
    torch.save({wrapper + name: tensor for name, tensor in state.items()}, path)
    for a, b in zip(expected.get_weights(), Encoder.from_pretrained(tmp_path).get_weights()):
        assert a.tobytes() == b.tobytes()
    torch.save({f"net.{name}": tensor for name, tensor in state.items()}, path)
    with pytest.raises(InputError, match=r"tensors have the prefix 'net.'"):
        Encoder.from_pretrained(tmp_path)
    # The head of a Lightning module is not BERT's.
    head = {"classifier.weight": torch.zeros(2, 2)}
    torch.save({wrapper + name: tensor for name, tensor in state.items()} | head, path)
    with pytest.raises(InputError, match="not all other tensors have it"):
        Encoder.from_pretrained(tmp_path)


def test_a_tar_archive_is_named(tmp_path):
    with tarfile.open(tmp_path / "pytorch_model.bin", "w") as archive:
        archive.addfile(tarfile.TarInfo("storages"))
    with pytest.raises(InputError, match="is a tar archive. If it is from PyTorch 0.1, load it"):
        TorchFile(tmp_path / "pytorch_model.bin")


# === Files with code ===


class Evil:
    """Pickles as a call that creates a file."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def write_zip(path, program, storages=(("0", bytes(16)),), compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", program)
        for key, data in storages:
            archive.writestr(f"archive/data/{key}", data)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("container", ["zip", "plain"])
def test_never_runs_code(tmp_path, protocol, container):
    trace = tmp_path / "was_run"
    program = pickle.dumps({"a": Evil(os.mkdir, str(trace))}, protocol)
    path = tmp_path / "pytorch_model.bin"
    write_zip(path, program) if container == "zip" else path.write_bytes(program)
    with pytest.raises(
        InputError, match="contains more than weights: .* No code was run"
    ) as caught:
        TorchFile(path)
    assert str(path) in str(caught.value) and not trace.exists()
    pickle.loads(program)  # the payload does work
    assert trace.exists()


@pytest.mark.parametrize(
    "value",
    [
        Evil(eval, "1"),
        Evil(exec, "1"),
        Evil(getattr, "", "join"),
        Evil(__import__, "os"),
        torch.nn.Linear(2, 2),
        np.zeros(3),
        {"a": {1, 2}},
    ],
    ids=["eval", "exec", "getattr", "import", "module", "numpy", "set"],
)
def test_rejects_values_other_than_tensors(tmp_path, value):
    path = tmp_path / "pytorch_model.bin"
    if isinstance(value, torch.nn.Module):
        torch.save(value, path)
    else:
        write_zip(path, pickle.dumps({"x": value}, 4))
    with pytest.raises(InputError, match="contains more than weights"):
        TorchFile(path)


# === Damaged files ===


def program(shape=(2, 2), strides=(2, 1), offset=0, size=4, kind="FloatStorage"):
    """Pickle instructions for one tensor in a storage of `size` numbers."""

    class Program(pickle.Pickler):
        def persistent_id(self, value):
            if value is tensor:
                return ("storage", getattr(torch, kind), "0", "cpu", size)

    tensor = object()

    class Rebuilt:
        def __reduce__(self):
            return torch._utils._rebuild_tensor_v2, (tensor, offset, shape, strides, False, {})

    buffer = io.BytesIO()
    Program(buffer, 2).dump({"a": Rebuilt()})
    return buffer.getvalue()


def test_a_written_program_is_read(tmp_path):
    path = tmp_path / "model.bin"
    write_zip(path, program(), [("0", struct.pack("<4f", 1, 2, 3, 4))])
    assert TorchFile(path).read("a").tolist() == [[1, 2], [3, 4]]


def doubled(times=40):
    """Pairs of pairs: traversal visits 2**times numbers."""
    return b"K\x01\x85" + b"".join(b"q%ch%c\x86" % (n, n) for n in range(times))


@pytest.mark.parametrize(
    ("data", "message"),
    {
        "beyond": (program(size=3), "more numbers than its storage"),
        "offset": (program(offset=1), "reaches beyond its storage"),
        "strides": (program(strides=(9, 1)), "reaches beyond its storage"),
        "negative": (program(strides=(-1, 1)), "an invalid shape"),
        "repeated": (program(shape=(10**6, 10**6), strides=(0, 0)), "more numbers than"),
        "rank": (program(strides=(1,)), "has 1 strides"),
        "text": (program(shape=("x", 2)), "an invalid shape"),
        "cut off": (program()[:-20], "is damaged"),
        "no dict": (pickle.dumps([1], 2), "no dict of tensors"),
        "nothing": (b"", "is damaged"),
        "no mark": (b"\x80\x02t.", "is damaged"),
        "memo": (b"\x80\x02h\x07.", "is damaged"),
        "no hash": (b"\x80\x02}]]s.", "is damaged"),
        "key": (b"\x80\x02}" + b")" + b"\x85" * 400_000 + b"Ns.", "nested too deeply"),
        "keys": (b"\x80\x02}()Nt.", "is damaged"),
        "key of numbers": (b"\x80\x02}K\x01Ns.", "a key is not a string"),
        "long key": (b"\x80\x02}X" + struct.pack("<I", 2000) + b"x" * 2000 + b"Ns.", "a key"),
        "doubled": (b"\x80\x02}" + doubled() + b"Ns.", "nested too deeply"),
        "lists": (b"\x80\x02}" + b"]" + b"q\x00h\x00a" + b"Ns.", "a key is not a string"),
        "marks": (b"\x80\x02" + b"(" * 1_000_000, "nested too deeply"),
        "marks and tuples": (b"\x80\x02" + b"(t" * 600_000 + b".", "more than 1048576 instr"),
        "dicts": (b"\x80\x02" + b"}" * 2_000_000, "more than 1048576 instructions"),
        "long tuple": (b"\x80\x02(" + b"N" * 100 + b"t.", "tuples are too long"),
        "number": (b"\x80\x02}X\x01\0\0\0a\x8a\xff" + b"\x7f" * 255 + b"s.", "128 bits"),
        "long names": (
            b"\x80\x04X" + struct.pack("<I", 2000) + b"x" * 2000 + b"q\x00h\x00\x93.",
            "100 char",
        ),
        "digits": (b"\x80\x02}X\x01\0\0\0aI" + b"9" * 5000 + b"\ns.", "is damaged"),
        "terabytes": (b"\x80\x04\x8d" + struct.pack("<Q", 1 << 42) + b"x.", "is damaged"),
    }.values(),
)
def test_damaged_programs(tmp_path, data, message):
    path = tmp_path / "model.bin"
    write_zip(path, data)
    with pytest.raises(InputError, match=message) as caught:
        TorchFile(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_damaged_storages(tmp_path):
    path = tmp_path / "model.bin"
    write_zip(path, program(), [("0", bytes(12))])
    with pytest.raises(InputError, match="tensor a is cut off"):
        TorchFile(path).read("a")
    write_zip(path, program(), [])
    with pytest.raises(InputError, match="archive/data/0"):
        TorchFile(path).read("a")
    write_zip(path, program(), compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(InputError, match="data.pkl is compressed"):
        TorchFile(path)
    write_zip(path, program())
    damaged = bytearray(path.read_bytes())
    place = damaged.index(b"archive/data/0") + len("archive/data/0")
    damaged[place] = 1  # flips bits of the data, which has a checksum
    path.write_bytes(damaged)
    with pytest.raises(InputError, match="CRC"):
        TorchFile(path).read("a")


def test_rejects_a_storage_larger_than_the_file(tmp_path):
    path = tmp_path / "model.bin"
    write_zip(path, program(shape=(1 << 40,), strides=(1,), size=1 << 40))
    with pytest.raises(InputError, match="tensor a is cut off"):  # not a MemoryError in `read`
        TorchFile(path)


@pytest.mark.parametrize(
    "value, message",
    [
        ({"a": torch._neg_view(torch.ones(3))}, "the negative or conjugate of the stored numbers"),
        ({str(n): torch.ones(3) for n in range(20)} | {"a": torch.ones(4)}, None),
        (
            dict.fromkeys("abcdefghijklmnopqrstuvwxyz", torch.ones(1000)),
            "too many tensors share",
        ),
        (
            {"state_dict": {"a": torch.ones(3)}, "epoch": 3},
            r"Save only torch.load\(path\)\['state_dict'\]",
        ),
    ],
    ids=["negative", "plain", "shared", "checkpoint"],
)
def test_rejects_tensors_that_would_be_misread(tmp_path, value, message):
    path = tmp_path / "model.bin"
    torch.save(value, path)
    if message is None:
        assert len(TorchFile(path).header) == len(value)
        return
    with pytest.raises(InputError, match=message):
        TorchFile(path)


@pytest.mark.parametrize("keys", [b"]" + doubled() + b"a.", b"]" + b")" + b"\x85" * 60_000 + b"a."])
def test_hostile_keys_of_an_old_file(tmp_path, keys):
    path = tmp_path / "model.bin"
    torch.save({"a": torch.zeros(2)}, path, _use_new_zipfile_serialization=False)
    whole = path.read_bytes()
    start = whole.rindex(b"\x80\x02]")  # start of the list of storages
    path.write_bytes(whole[: start + 2] + keys + whole[start + 3 :])
    with pytest.raises(InputError, match="nested too deeply"):
        TorchFile(path)
