"""Files of `sentence-transformers`: written and read by `TextEmbedder`."""

import json
import shutil

import numpy as np
import pytest
import safetensors.numpy

from keras_bert_impl import TextEmbedder
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import embedder

LIBRARY = "sentence_transformers.sentence_transformer.modules"


def test_sentence_transformers_reads_saved_files(tmp_path):
    embedder(depth=3).save_pretrained(tmp_path)
    modules = json.loads((tmp_path / "modules.json").read_text())
    assert [(m["path"], m["type"].rpartition(".")[2]) for m in modules] == [
        ("", "Transformer"),
        ("1_Pooling", "Pooling"),
    ]
    pooling = json.loads((tmp_path / "1_Pooling" / "config.json").read_text())
    assert pooling["pooling_mode_mean_tokens"] and not pooling["pooling_mode_cls_token"]
    assert pooling["word_embedding_dimension"] == 16
    lengths = json.loads((tmp_path / "sentence_bert_config.json").read_text())
    assert lengths == {"max_seq_length": 32}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("mixed")
    embedder(num_layers=2, layer_weights=[1, 2], normalize=True).save_pretrained(directory)
    return directory


@pytest.fixture
def written(mixed, tmp_path):
    """(a model directory, a function that replaces one of its JSON files)."""
    shutil.copytree(mixed, tmp_path, dirs_exist_ok=True)

    def write(name, content):
        (tmp_path / name).write_text(json.dumps(content))

    return tmp_path, write


def test_reads_files_of_sentence_transformers_6(written):
    directory, write = written
    kinds = {"": "transformer.Transformer", "2_Pooling": "pooling.Pooling"}
    write("modules.json", [{"path": p, "type": f"{LIBRARY}.{k}"} for p, k in kinds.items()])
    write("sentence_bert_config.json", {"transformer_task": "feature-extraction"})
    write("2_Pooling/config.json", {"embedding_dimension": 16, "pooling_mode": "cls"})
    write("tokenizer_config.json", {"model_max_length": 20})
    model = TextEmbedder.from_pretrained(directory)
    # Overrides our settings in config.json, which the other library writes back unread.
    assert (model.pooling, model.num_layers, model.layer_weights) == ("cls", 1, None)
    assert (model.normalize, model.max_length) == (False, 20)
    assert TextEmbedder.from_pretrained(directory, pooling="max", max_length=8).max_length == 8


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("modules.json", {"a": 1}, "must contain a list of modules"),
        ("modules.json", [{"path": "", "type": f"{LIBRARY}.CNN"}], "CNN' is not supported"),
        ("modules.json", [{"type": f"{LIBRARY}.Transformer"}], "has no module Pooling"),
        (
            "modules.json",
            [{"path": "../x", "type": f"{LIBRARY}.Pooling"}],
            "not the name of a file",
        ),
        ("2_Pooling/config.json", {"pooling_mode": ["cls", "sum"]}, "the pooling is cls, sum"),
        ("2_Pooling/config.json", {"pooling_mode_sum": True}, "the pooling is .*sum; it must"),
        ("1_WeightedLayerPooling/config.json", {"num_hidden_layers": -1}, "num_hidden_layers"),
    ],
)
def test_rejects_unusable_files(written, name, content, message):
    directory, write = written
    write(name, content)
    with pytest.raises(InputError, match=message):
        TextEmbedder.from_pretrained(directory)


def test_rejects_a_wrong_number_of_layer_weights(written):
    directory, _ = written
    file = directory / "1_WeightedLayerPooling" / "model.safetensors"
    safetensors.numpy.save_file({"layer_weights": np.ones(9, "float32")}, file)
    with pytest.raises(InputError, match=r"layer_weights must have shape \(2,\), not \(9,\)"):
        TextEmbedder.from_pretrained(directory)
