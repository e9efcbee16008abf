"""Sharded weights, and indexes and links that point outside the directory."""

import json
import shutil
import struct

import numpy as np
import pytest
import safetensors.numpy
import torch
import transformers

from keras_bert_impl.checkpoints.interop.source import SafetensorsFile
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.parity import random_original

KEY = "embeddings.LayerNorm.weight"
INDEX = {"safetensors": "model.safetensors.index.json", "bin": "pytorch_model.bin.index.json"}


@pytest.fixture(scope="module")
def original():
    return random_original()


@pytest.fixture(params=["safetensors", "bin"])
def kind(request):
    return request.param


@pytest.fixture
def directory(original, kind, tmp_path):
    """A model in at least three shards, as current or older versions of `transformers` write it."""
    path = tmp_path / "model"
    original.save_pretrained(path, max_shard_size="10KB")
    if kind == "bin":
        for shard in sorted(path.glob("model-*.safetensors")):
            torch.save(
                {k: torch.tensor(v) for k, v in safetensors.numpy.load_file(shard).items()},
                path / shard.name.replace("model-", "pytorch_model-").replace("safetensors", "bin"),
            )
            shard.unlink()
        text = (path / INDEX["safetensors"]).read_text()
        text = text.replace('"model-', '"pytorch_model-').replace('.safetensors"', '.bin"')
        (path / INDEX["bin"]).write_text(text)
        (path / INDEX["safetensors"]).unlink()
    assert len(list(path.glob("*-of-*"))) > 2
    return path


def test_shards(directory, original, tmp_path):
    original.save_pretrained(tmp_path / "whole")
    sharded, whole = Encoder.from_pretrained(directory), Encoder.from_pretrained(tmp_path / "whole")
    for a, b in zip(sharded.get_weights(), whole.get_weights()):
        assert a.tobytes() == b.tobytes()
    assert type(transformers.AutoConfig.from_pretrained(directory)) is transformers.BertConfig


def edit_index(change):
    def damage(directory, index):
        content = json.loads(index.read_text())
        change(content, content["weight_map"])
        index.write_text(json.dumps(content))

    return damage


def to(place):
    """Changes the index entry of a tensor."""
    return edit_index(lambda content, places: places.update({KEY: place}))


def first_shard(directory):
    return sorted(directory.glob("*-of-*"))[0]


def link_out(directory, index):
    shard = first_shard(directory)
    shutil.copy(shard, directory.parent / "elsewhere")
    shard.unlink()
    shard.symlink_to("../elsewhere")


@pytest.mark.parametrize(
    ("damage", "message"),
    {
        "..": (to("../elsewhere"), "is not the name of a file in this directory"),
        "absolute": (to("/etc/passwd"), "'/etc/passwd' is not the name of a file"),
        "backslash": (to("..\\x"), "is not the name of a file"),
        "a number": (to(3), "has no weight_map from tensors to files"),
        "missing shard": (to("absent"), "lists absent, which is missing"),
        "itself": (to("config.json"), "config.json is damaged"),
        "link": (link_out, "links to a file outside its directory"),
        "no map": (edit_index(lambda content, _: content.pop("weight_map")), "has no weight_map"),
        "wrong shard": (
            edit_index(lambda _, places: places.update({KEY: places["pooler.dense.weight"]})),
            f"tensor {KEY} is not in",
        ),
        "left out": (
            edit_index(lambda _, places: places.pop(KEY)),
            f"does not list the tensor {KEY} in",
        ),
        "no tensor": (
            edit_index(lambda _, places: places.update(more=places[KEY])),
            "tensor more is not in",
        ),
        "no JSON": (lambda _, index: index.write_text("{"), "is not valid JSON"),
        "twice": (
            lambda _, index: index.write_text('{"weight_map": {"a": "b", "a": "c"}}'),
            "has the key 'a' twice",
        ),
        "cut off": (
            lambda directory, _: first_shard(directory).write_bytes(
                first_shard(directory).read_bytes()[:-60]
            ),
            "is damaged",
        ),
    }.values(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damaged_index(directory, kind, damage, message):
    damage(directory, directory / INDEX[kind])
    with pytest.raises(InputError, match=message) as caught:
        Encoder.from_pretrained(directory)
    assert str(directory) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_rejects_links_out_of_the_directory(original, tmp_path, name):
    original.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / name).rename(tmp_path / "moved")
    (tmp_path / "model" / name).symlink_to("../moved")
    with pytest.raises(InputError, match=f"{name} links to a file outside its directory"):
        Encoder.from_pretrained(tmp_path / "model")


def test_safetensors_come_first(original, tmp_path):
    original.save_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    loaded = Encoder.from_pretrained(tmp_path).embeddings.weights[0]
    np.testing.assert_array_equal(loaded, original.embeddings.word_embeddings.weight.detach())


def test_rejects_duplicate_tensors(tmp_path):
    """Two tensors at the same offsets, which the safetensors library does not detect."""
    entry = b'{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    header = b'{"a":%s,"a":%s}' % (entry, entry)
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(InputError, match="model.safetensors has the key 'a' twice"):
        SafetensorsFile(path)


def test_rejects_an_oversized_header(tmp_path):
    """The library accepts headers of up to 100 MB, which become many times larger in Python."""
    path = tmp_path / "model.safetensors"
    names = ", ".join(
        f'"{n}": {{"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}' for n in range(300_000)
    )
    path.write_bytes(struct.pack("<Q", len(names) + 2) + f"{{{names}}}".encode())
    with pytest.raises(InputError, match="is damaged: its header has .* more than the limit"):
        SafetensorsFile(path)
