"""Damaged TensorFlow checkpoints: one error each, which names the file and the tensor."""

import json
import struct

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto

from keras_bert_impl.checkpoints.interop import open_model
from keras_bert_impl.checkpoints.interop.google import checkpoint as table
from keras_bert_impl.checkpoints.interop.google import is_google_checkpoint, open_google_checkpoint
from keras_bert_impl.checkpoints.interop.google.checkpoint import Checkpoint
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.google_models import unpacked, write_variables
from tests.checkpoints.interop.test_google_named import BERT, SETTINGS, SIZES, original, variables

WORDS = "bert/embeddings/word_embeddings"
KEY = "bert/encoder/layer_1/attention/self/key/kernel"


@pytest.fixture(scope="module")
def tensors():
    return variables(original("BertForPreTraining"), BERT)


@pytest.fixture
def path(tensors, tmp_path):
    return write_variables(tmp_path / "bert", tensors, SIZES | SETTINGS)


def refused(path, *words, **arguments):
    with pytest.raises(InputError) as caught:
        _, tensors = open_google_checkpoint(path, **arguments)
        for name in tensors.header:
            tensors.read(name)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_rejects_a_missing_checkpoint(tmp_path):
    refused(tmp_path, str(tmp_path), "neither a TensorFlow checkpoint")
    refused(tmp_path / "absent", "absent", "neither a TensorFlow checkpoint")


def test_missing_data(path):
    (path / "bert_model.ckpt.data-00000-of-00001").unlink()
    refused(path, "bert_model.ckpt.data-00000-of-00001 is missing")


def test_rejects_data_linked_out_of_the_directory(path, tmp_path):
    data = path / "bert_model.ckpt.data-00000-of-00001"
    data.rename(tmp_path / "elsewhere")
    data.symlink_to(tmp_path / "elsewhere")
    refused(path, str(data), "links to a file outside")


def test_truncated_data(path):
    data = path / "bert_model.ckpt.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:1000])
    refused(path, "bert_model.ckpt.index: tensor ", "its file has only 1000")


def test_changed_data(path):
    data = path / "bert_model.ckpt.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[5] ^= 1
    data.write_bytes(content)
    refused(path, "bert_model.ckpt.index: tensor bert/embeddings/LayerNorm/beta", "Checksum")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"shape": [-5, 2]}, "has an invalid shape"),
        ({"shape": [1] * 300}, "has an invalid shape"),
        ({"shape": [1 << 40, 1 << 40]}, "must have 4835703278458516698824704 bytes, but has 16"),
        ({"shape": [1 << 20, 1 << 20], "size": 1 << 42}, "its file has only 16"),
        ({"size": -16}, "must have 16 bytes, but has -16"),
        ({"offset": 1 << 60}, "its file has only 16"),
        ({"offset": -5}, "Copy or download the file again"),
        ({"dtype": 77}, "has dtype 77"),
        ({"dtype": 20}, "has dtype resource"),
        ({"shard_id": 5}, "bert_model.ckpt.data-00005-of-00001 is missing"),
    ],
    ids=str,
)
def test_rejects_an_index_with_false_shapes_or_offsets(entry, message, tmp_path):
    """The checksums are right; TensorFlow itself aborts the process on some of these."""
    fields = {"dtype": 1, "shape": [2, 2], "offset": 0, "size": 16, "shard_id": 0} | entry
    row = BundleEntryProto(**{name: fields[name] for name in fields if name != "shape"})
    for size in fields["shape"]:
        row.shape.dim.add().size = size
    rows = [(b"", _header()), (b"bert/x", row.SerializeToString())]
    _write(tmp_path, _table(rows), bytes(16))
    with pytest.raises(InputError) as caught:
        Checkpoint(tmp_path / "bert_model.ckpt").read("bert/x")
    assert message in str(caught.value)


@pytest.mark.parametrize("length", [1 << 50, 7, 0])
def test_rejects_a_string_with_a_false_length(length, tmp_path):
    """The checksums are right; TensorFlow itself aborts when it cannot allocate a petabyte."""
    checked = struct.pack("<Q" if length >> 32 else "<I", length)
    data = _number(length) + struct.pack("<I", _masked(checked)) + b"graph"
    row = BundleEntryProto(dtype=7, size=len(data), crc32c=_masked(checked + data[-9:]))
    _write(tmp_path, _table([(b"", _header()), (b"x", row.SerializeToString())]), data)
    with pytest.raises(InputError, match="x is not a string of"):
        Checkpoint(tmp_path / "bert_model.ckpt").read("x")


def test_rejects_many_strings_in_a_small_file(tmp_path):
    row = BundleEntryProto(dtype=7, size=16)
    row.shape.dim.add().size = 1 << 40
    _write(tmp_path, _table([(b"", _header()), (b"x", row.SerializeToString())]), bytes(16))
    with pytest.raises(InputError, match="x has dtype string"):
        Checkpoint(tmp_path / "bert_model.ckpt").read("x")


@pytest.mark.parametrize("kind", ["blocks", "rows", "names"])
def test_rejects_an_index_that_expands(kind, tmp_path, monkeypatch):
    """A kilobyte would be read as 100 MB or more."""
    rows = {
        "blocks": [(b"%05d" % number, b"") for number in range(20)],
        "rows": [(b"%05d" % number, b"") for number in range(101)],
        "names": [(b"x" * 1_001, b"")],
    }
    monkeypatch.setattr(table, "_MAX_ROWS", 100)
    _write(tmp_path, _table(rows[kind], times=20 if kind == "blocks" else 1), b"")
    message = {
        "blocks": "overlapping blocks",
        "rows": "more than 100 t",
        "names": "a name is too long",
    }
    with pytest.raises(InputError, match=message[kind]):
        Checkpoint(tmp_path / "bert_model.ckpt")


def test_tensor_of_strings(path, tensors):
    write_variables(path, tensors | {KEY: np.array([[b"a"] * 32] * 32)})
    name = "bert.encoder.layer.1.attention.self.key.weight"
    with pytest.raises(InputError, match=f"{name} has dtype string"):
        open_model(path).shape(name)


def test_partitioned_variables(path, tensors):
    parts = {f"{WORDS}/part_{i}": part for i, part in enumerate(np.split(tensors[WORDS][:52], 2))}
    whole_tensors = {name: array for name, array in tensors.items() if name != WORDS}
    write_variables(path, whole_tensors | parts)
    refused(path, f"bert_model.ckpt.index: tensor {WORDS}/part_0", "is a part of a partitioned")

    tf.raw_ops.SaveV2(
        prefix=str(path / "bert_model.ckpt"),
        tensor_names=[WORDS],
        shape_and_slices=["106 32 0,53:0,32"],  # written like TensorFlow 1's Saver
        tensors=[tensors[WORDS]],
    )
    refused(path, f"bert_model.ckpt.index: tensor {WORDS} is a partitioned variable")


def test_rejects_named_checkpoints_without_bert(tmp_path):
    write_variables(tmp_path, {"resnet/conv/kernel": np.zeros((2, 2), "float32")}, SIZES)
    refused(tmp_path, "bert_model.ckpt.index does not contain a BERT", "resnet/conv/kernel")


def test_rejects_object_checkpoints_without_bert(tmp_path):
    model = tf.train.Checkpoint(variable=tf.Variable([1.0], name="resnet/kernel"))
    model.write(str(tmp_path / "ckpt-1"))
    refused(tmp_path, "ckpt-1.index does not contain a BERT", "resnet/kernel")


def test_no_generator(path):
    refused(path, "bert_model.ckpt.index has no ELECTRA generator", generator=True)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("hidden_size", 64, ["is 64", "layer.0.attention.self.query.weight", "but 32 in"]),
        ("num_hidden_layers", 12, ["is 12", "bert.encoder.layer.2.", "but 3 in"]),
        ("vocab_size", "53", ["is '53'", "word_embeddings.weight", "but 53 in"]),
        ("type_vocab_size", 16, ["is 16", "token_type_embeddings.weight", "but 2 in"]),
    ],
)
def test_config_that_contradicts_the_shapes(path, key, value, words):
    (path / "bert_config.json").write_text(json.dumps(SIZES | SETTINGS | {key: value}))
    refused(path, f"bert_config.json: {key} ", "bert_model.ckpt.index", *words)


def test_heads_that_contradict_the_shapes(tmp_path):
    path, _ = unpacked("encoder", tmp_path)
    config = json.loads((path / "bert_config.json").read_text())
    (path / "bert_config.json").write_text(json.dumps(config | {"num_attention_heads": 4}))
    refused(path, "num_attention_heads is 4", "but 3 in")


def test_no_config(path):
    (path / "bert_config.json").unlink()
    refused(
        path,
        "bert_model.ckpt.index: the num_attention_heads of this bert model is unknown",
        "bert_config.json",
    )


def test_a_tensor_is_missing(path, tensors):
    write_variables(path, {name: a for name, a in tensors.items() if name != WORDS})
    refused(path, "bert_model.ckpt.index: tensor bert.embeddings.word_embeddings.weight is missing")


def test_rejects_a_kernel_that_is_not_a_matrix(path, tensors):
    write_variables(path, tensors | {KEY: np.zeros(7, "float32")})
    refused(path, f"bert_model.ckpt.index: tensor {KEY} must be a matrix. Received: shape (7,)")


@pytest.mark.parametrize("end", ["", ".index", ".data-00000-of-00001", ".meta"])
def test_accepts_any_file_of_a_checkpoint(path, end):
    (path / "bert_model.ckpt.meta").touch()
    file = path / f"bert_model.ckpt{end}"
    assert is_google_checkpoint(file)
    assert open_model(file).shape("bert.pooler.dense.bias") == (32,)


def test_several_checkpoints(path, tensors):
    for name in ("bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"):
        for step in (9, 10):
            (path / name.replace("bert_model.ckpt", f"model.ckpt-{step}")).write_bytes(
                (path / name).read_bytes()
            )
    refused(path, "several checkpoints", "model.ckpt-10", "model.ckpt-9")
    for file in path.glob("bert_model.ckpt*"):
        file.unlink()
    assert open_google_checkpoint(path)[1].path.name == "model.ckpt-10.index"
    (path / "checkpoint").write_text('model_checkpoint_path: "/their/disk/model.ckpt-9"\n')
    assert open_google_checkpoint(path)[1].path.name == "model.ckpt-9.index"
    assert open_google_checkpoint(path / "model.ckpt-10")[1].path.name == "model.ckpt-10.index"


def test_two_encoders(tmp_path):
    names = ("one", "other")
    pair = {
        name: tf.Variable(
            np.zeros((2, 2, 1), "float32"),
            name=f"{name}/transformer/layer_0/self_attention/query/kernel",
        )
        for name in names
    }
    tf.train.Checkpoint(**pair).write(str(tmp_path / "ckpt-1"))
    refused(tmp_path, "ckpt-1.index: other/", "a checkpoint with two encoders")


@pytest.mark.parametrize(
    "text", ["a: [", "task: 3", "task: {model: {encoder: {type: 3}}}", "!!python/object:os.x {}"]
)
def test_damaged_settings_of_a_run(text, tmp_path):
    path, _ = unpacked("pretrainer", tmp_path)
    (path / "params.yaml").write_text(text)
    refused(path, "params.yaml")


def _write(directory, index, data):
    (directory / "bert_model.ckpt.index").write_bytes(index)
    (directory / "bert_model.ckpt.data-00000-of-00001").write_bytes(data)


def _header():
    header = BundleHeaderProto(num_shards=1)
    header.version.producer = 1
    return header.SerializeToString()


def _masked(data):
    sum_ = _crc32c(data)
    return (((sum_ >> 15) | (sum_ << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _table(rows, times=1):
    """Writes a sorted TensorFlow table whose index lists its only block `times` times."""
    content = b""

    def put(block):
        nonlocal content
        handle = _number(len(content)) + _number(len(block))
        content += block + b"\0" + struct.pack("<I", _masked(block + b"\0"))
        return handle

    data, nothing = put(_block(rows)), put(_block([]))
    blocks = put(_block([(rows[-1][0] + b"\xff", data)] * times))
    footer = (nothing + blocks).ljust(40, b"\0")
    return content + footer + struct.pack("<Q", 0xDB4775248B80FB57)


def _block(rows):
    content, places = b"", []
    for key, value in rows:
        places.append(len(content))
        content += _number(0) + _number(len(key)) + _number(len(value)) + key + value
    return content + struct.pack(f"<{len(places) + 1}I", *places, len(places))


def _number(number):
    content = b""
    while number > 127:
        content, number = content + bytes([number & 127 | 128]), number >> 7
    return content + bytes([number])


def _crc32c(data):
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = (remainder >> 1) ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder ^ 0xFFFFFFFF
