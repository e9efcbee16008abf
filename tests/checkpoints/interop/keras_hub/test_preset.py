"""Presets: round trips through KerasHub's own reader and writer."""

import dataclasses
import json
import logging
import subprocess
import sys

import h5py
import keras_hub
import ml_dtypes
import numpy as np
import pytest

from keras_bert_impl.checkpoints.interop import (
    encoder_tensors,
    huggingface_config,
    open_model,
    write_keras_hub_preset,
)
from keras_bert_impl.checkpoints.interop.keras_hub.preset import open_preset
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.weights import tensors_of
from keras_bert_impl.tasks import TextClassifier
from keras_bert_impl.tokenizers import Tokenizer, WordPieceTokenizer
from keras_bert_impl.tokenizers.keras_hub_saving import to_keras_hub
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.keras_hub.test_models import assert_same_weights
from tests.checkpoints.interop.keras_hub_models import (
    CASES,
    features_for,
    in_float64,
    original_outputs,
    random_backbone,
    random_task,
)
from tests.helpers import TINY, difference, randomize, small_disk, to_numpy

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cafe", "##s", "the", "?"]


def write_preset(encoder, directory, tokenizer=None):
    tensors = tensors_of(encoder, encoder_tensors(encoder.config))
    write_keras_hub_preset(directory, huggingface_config(encoder.config), tensors, tokenizer)


def assert_equal_weights(received, expected):
    assert received.config == expected.config
    for first, second in zip(received.weights, expected.weights):
        assert first.path == second.path
        assert to_numpy(first.value).tobytes() == to_numpy(second.value).tobytes(), first.path


# === Round trips ===


@pytest.mark.parametrize("case", CASES)
def test_preset(case, tmp_path):
    backbone = random_backbone(case)
    has_pooler = isinstance(backbone.output, dict)
    backbone.save_to_preset(str(tmp_path / "theirs"))
    read = Encoder.from_pretrained(tmp_path / "theirs", use_pooler=has_pooler)
    assert_equal_weights(read, Encoder.from_keras_hub(backbone, use_pooler=has_pooler))
    write_preset(read, tmp_path / "ours")
    again = type(backbone).from_preset(str(tmp_path / "ours"))
    assert_same_weights(again, backbone)


def test_bfloat16(tmp_path):
    backbone = random_backbone("bert", dtype="bfloat16")
    backbone.save_to_preset(str(tmp_path))
    _, tensors = open_preset(tmp_path)
    assert {dtype for dtype, _ in tensors.header.values()} == {"BF16"}
    assert tensors.read("pooler.dense.weight").dtype == ml_dtypes.bfloat16
    assert_equal_weights(Encoder.from_pretrained(tmp_path), Encoder.from_keras_hub(backbone))


def test_shards(tmp_path):
    backbone = random_backbone("bert")
    backbone.save_to_preset(str(tmp_path), max_shard_size=2e-5)  # GiB, about 21 kB
    assert len(list(tmp_path.glob("model_*.weights.h5"))) > 3
    assert_equal_weights(Encoder.from_pretrained(tmp_path), Encoder.from_keras_hub(backbone))


def test_old_spellings(tmp_path):
    """Keras 3 reads folders with Keras 2's names, and so must we."""
    backbone = random_backbone("bert")
    backbone.save_to_preset(str(tmp_path))
    with h5py.File(tmp_path / "model.weights.h5", "a") as file:
        file.move("layers", "_layer_checkpoint_dependencies")
        for block in file["_layer_checkpoint_dependencies"].values():
            if "_self_attention_layer" in block:
                attention = block["_self_attention_layer"]
                for name in ("query_dense", "key_dense", "value_dense", "output_dense"):
                    attention.move(name, f"_{name}")
    config = json.loads((tmp_path / "config.json").read_text())
    config["registered_name"] = "keras_nlp>BertBackbone"
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert_same_weights(keras_hub.models.BertBackbone.from_preset(str(tmp_path)), backbone)
    assert_equal_weights(Encoder.from_pretrained(tmp_path), Encoder.from_keras_hub(backbone))


@pytest.mark.parametrize("case", ["bert", "roberta", "distilbert"])
def test_classifier(case, tmp_path):
    task = random_task(case, "TextClassifier", num_classes=3)
    task.save_to_preset(str(tmp_path))
    WordPieceTokenizer([*TOKENS, *map(str, range(44))]).save_pretrained(tmp_path)
    features = features_for(task.backbone, [9, 5, 3])
    classifier = TextClassifier.from_pretrained(tmp_path)
    expected = task({name: features[name] for name in task.input})
    # Both in float32: twice the tolerance of one against float64, see test_models.py.
    assert difference(classifier(features), expected) < 2e-5
    assert classifier.num_classes == 3


def test_leaves_out_an_unsupported_head(tmp_path, caplog):
    random_task("bert", "MaskedLM").save_to_preset(str(tmp_path))
    with caplog.at_level(logging.WARNING):
        source = open_model(tmp_path)
    assert "only the encoder is read: the head of BertMaskedLM uses a different" in caplog.text
    assert source.config["architectures"] == ["BertModel"]


def test_written_with_a_tokenizer(tmp_path):
    encoder = Encoder(
        dataclasses.replace(TINY, activation="gelu_tanh", vocabulary_size=len(TOKENS))
    )
    tokenizer = WordPieceTokenizer(TOKENS)
    write_preset(encoder, tmp_path, to_keras_hub(tokenizer, "bert"))
    theirs = keras_hub.models.BertTokenizer.from_preset(str(tmp_path))
    texts = ["The Cafés?", "the [MASK] ?!"]
    ours = tokenizer.tokenize(texts).to_list()
    assert ours == [[7, 5, 6, 8], [7, 4, 8, 1]]
    assert [list(ids) for ids in theirs(texts)] == ours
    assert Tokenizer.from_pretrained(tmp_path).tokenize(texts).to_list() == ours


def test_full_disk(tmp_path):
    backbone = random_backbone("bert", vocabulary_size=30_000)
    encoder = Encoder.from_keras_hub(backbone)
    disk = tmp_path / "disk"
    with small_disk(disk):
        with pytest.raises(InputError, match="cannot write"):
            write_preset(encoder, disk / "preset")
        assert list(disk.iterdir()) == []


# === A published shape ===

READ = """
import sys

def memory(name):
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.models.encoder import Encoder

Encoder(EncoderConfig.named("bert_uncased_L-2_H-128_A-2"))  # what TensorFlow takes to start
before = memory("VmRSS")
encoder = Encoder.from_pretrained(sys.argv[1])
print(memory("VmHWM") - before)
"""


@pytest.mark.slow
def test_published_shape(tmp_path):
    """BERT base: checks the outputs, and that memory stays below 1.3 times the file size."""
    backbone = keras_hub.models.BertBackbone(30522, 12, 12, 768, 3072)
    randomize(backbone, scale=0.02)
    backbone.save_to_preset(str(tmp_path))
    random = np.random.default_rng(0)
    mask = (np.arange(128)[None] < np.array([[128], [57]])).astype("int32")
    features = {
        "token_ids": random.integers(0, 30522, (2, 128)).astype("int32"),
        "segment_ids": random.integers(0, 2, (2, 128)).astype("int32"),
        "padding_mask": mask,
    }
    expected = original_outputs(in_float64(backbone), features)
    received = Encoder.from_pretrained(tmp_path)(features)
    real = mask == 1
    sequence = np.asarray(received["sequence_output"])[real]
    assert difference(sequence, expected["sequence_output"][real]) < 1e-5
    assert difference(received["pooled_output"], expected["pooled_output"]) < 1e-5
    command = [sys.executable, "-c", READ, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    size = (tmp_path / "model.weights.h5").stat().st_size
    assert 0.9 * size < int(result.stdout.split()[-1]) < 1.3 * size
