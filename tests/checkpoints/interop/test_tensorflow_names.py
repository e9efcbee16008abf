"""Models in the files of `transformers` 4 for TensorFlow and Flax, against what it computed.

The files in `tests/fixtures/tensorflow_files.tar.xz` are a few of those that
`tools/make_tensorflow_files.py` writes. For all of them, in two minutes:

    TENSORFLOW_FILES=FOLDER python -m pytest -m slow tests/checkpoints/interop/test_tensorflow_names.py
"""

import json
import os
import types
from pathlib import Path

import h5py
import numpy as np
import pytest

from keras_bert_impl import TextClassifier
from keras_bert_impl.checkpoints.interop import open_model
from keras_bert_impl.checkpoints.interop.tensorflow_names import renamed
from keras_bert_impl.models.conversion.formats import convert
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.tensorflow_models import difference, unpack

# Both sides compute in float32. Of an ELECTRA's logits, TensorFlow's differ by 1.6e-6 from float64 and
# ours by 1.1e-6; a transposed matrix or a bias left out changes the first digit.
TOLERANCE = 2e-6
SMALL = """
    Albert/ForMaskedLM/h5 Bert/ForSequenceClassification/h5
    DistilBert/ForQuestionAnswering/tf_safetensors_shards Roberta/ForMultipleChoice/flax_shards
""".split()
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", *"012345678"]
LABELS = {"0": "ham", "1": "spam", "2": "egg"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return unpack(tmp_path_factory.mktemp("made"))


@pytest.fixture
def classifier(made, tmp_path):
    """A `tf_model.h5` with labels and a vocabulary."""
    source = made / "Bert/ForSequenceClassification/h5"
    for path in source.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    edit(tmp_path, id2label=LABELS, label2id={name: int(n) for n, name in LABELS.items()})
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return tmp_path


def edit(directory, **settings):
    file = directory / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


@pytest.mark.parametrize("name", SMALL)
def test_outputs_equal_those_of_the_original(made, name):
    assert difference(made / name) < TOLERANCE


@pytest.mark.slow
def test_outputs_of_all_classes_families_and_kinds_of_files():
    if "TENSORFLOW_FILES" not in os.environ:
        pytest.skip("TENSORFLOW_FILES is not set to a folder that the tool has written")
    folder = Path(os.environ["TENSORFLOW_FILES"])
    differences = {
        file.parent: difference(file.parent) for file in folder.glob("*/*/*/expected.npz")
    }
    classes = {f"{path.parts[-3]}{path.parts[-2]}" for path in differences}
    kinds = {path.name for path in differences}
    assert len(classes) >= 60 and len(kinds) == 8
    assert {path: value for path, value in differences.items() if not value < TOLERANCE} == {}


def test_labels_and_tokenizer_come_with_the_classifier(classifier):
    model = TextClassifier.from_pretrained(classifier)
    assert model.labels == ["ham", "spam", "egg"]
    assert model.tokenizer(["c a d"])["token_ids"].numpy().tolist() == [[2, 7, 5, 8, 3]]
    stored = np.load(classifier / "expected.npz")
    features = {"token_ids": "input_ids", "segment_ids": "token_type_ids"}
    features |= {"padding_mask": "attention_mask"}
    logits = model({ours: stored[theirs] for ours, theirs in features.items()})
    assert np.abs(np.asarray(logits) - stored["out_logits"]).max() < TOLERANCE


def test_the_class_is_read_from_the_file(classifier):
    """As `transformers` wrote it: the class of the model before fine-tuning."""
    edit(classifier, architectures=["BertForMaskedLM"])
    assert open_model(classifier).config["architectures"] == ["BertForSequenceClassification"]
    edit(classifier, architectures=None)
    assert open_model(classifier).config["architectures"] == ["BertForSequenceClassification"]


def test_converted_to_safetensors(classifier, tmp_path):
    convert(classifier, tmp_path / "new")
    (file,) = (tmp_path / "new").glob("*.safetensors")
    assert file.name == "model.safetensors"
    ours, theirs = open_model(tmp_path / "new"), open_model(classifier)
    for name in theirs.unread():
        assert np.array_equal(ours.read(name), theirs.read(name)), name
    assert ours.unread() == theirs.unread() == []
    assert TextClassifier.from_pretrained(tmp_path / "new").labels == [*LABELS.values()]


def test_safetensors_of_pytorch_are_preferred(classifier, tmp_path):
    convert(classifier, tmp_path / "new")
    (classifier / "model.safetensors").write_bytes(
        (tmp_path / "new" / "model.safetensors").read_bytes()
    )
    (classifier / "tf_model.h5").write_bytes(b"damaged")
    assert "classifier.weight" in open_model(classifier).unread()


# === Files that are not understood ===


def test_a_file_without_the_encoder_lists_what_it_has(classifier):
    with h5py.File(classifier / "tf_model.h5", "w") as file:
        file["dense/dense/kernel:0"] = np.zeros((3, 4), "float32")
        file["lstm/lstm/lstm_cell/kernel:0"] = np.zeros((3, 4), "float32")
    message = (
        "contains no bert encoder. Found: 'dense/dense/kernel:0', 'lstm/lstm/lstm_cell/kernel:0'"
    )
    with pytest.raises(InputError, match=message):
        open_model(classifier)


def test_two_encoders_are_an_error(classifier):
    with h5py.File(classifier / "tf_model.h5", "a") as file:
        name = "bert/tf_bert_model_1/bert/pooler/dense/kernel:0"
        file[name] = np.zeros((8, 8), "float32")
    with pytest.raises(InputError, match="both represent 'pooler.dense.weight', but differ"):
        open_model(classifier)


def test_a_missing_matrix_is_named(classifier):
    with h5py.File(classifier / "tf_model.h5", "a") as file:
        layer = "bert/tf_bert_for_sequence_classification/bert/encoder/layer_._1"
        del file[f"{layer}/attention/self/key/kernel:0"]
    with pytest.raises(InputError, match="encoder.layer.1.attention.self.key.weight is missing"):
        TextClassifier.from_pretrained(classifier)


def test_a_file_of_pytorch_names_with_a_layer_of_keras_is_left_as_it_is():
    header = {"bert.encoder.layer.0.output.dense.weight": ("F32", (4, 4))}
    header["feature_tagger.bilstm_0.forward_lstm.lstm_cell.kernel"] = ("F32", (4, 16))
    file, config = types.SimpleNamespace(header=header), {"model_type": "bert"}
    assert renamed(config, file) == (config, file)
