"""Student models made from some of a teacher's layers."""

import json

import numpy as np
import pytest
import transformers

from keras_bert_impl.cli.main import main
from keras_bert_impl.models.conversion.formats import student_of
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.tasks import TextClassifier
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from tests.helpers import difference, randomize, to_numpy
from tests.tasks.helpers import encoder, tokenizer


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    directory = tmp_path_factory.mktemp("teacher")
    model = TextClassifier(encoder(num_layers=5), tokenizer(), labels=["no", "yes", "maybe"])
    randomize(model)
    model.save_pretrained(directory)
    return directory


def test_student_has_the_layers_embeddings_pooler_head_and_tokenizer(teacher, tmp_path):
    assert student_of(teacher, tmp_path / "student", [1, 2, 4]) == [1, 2, 4]
    features = tokenizer()(["the film is a joy", "dull"])
    whole = TextClassifier.from_pretrained(teacher)
    student = TextClassifier.from_pretrained(tmp_path / "student")
    blocks = whole.encoder.blocks
    state = whole.encoder.embeddings(features["token_ids"], features["segment_ids"])
    bias = whole.encoder.attention_biases[0](features["token_ids"], features["padding_mask"])
    for layer in (1, 2, 4):
        state = blocks[layer](state, bias)
    pooled = whole.encoder.pooler(state[:, 0])
    # Same computation; a graph may sum in another order.
    assert difference(student(features), whole.head_layer(pooled)) < 1e-5
    assert student.labels == ["no", "yes", "maybe"]
    original, copied = (Tokenizer.from_pretrained(path) for path in (teacher, tmp_path / "student"))
    assert original.fingerprint == copied.fingerprint
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "student")
    assert theirs.config.num_hidden_layers == 3


def test_command_prints_the_layers(teacher, tmp_path, capsys):
    out = tmp_path / "student"
    assert main(["student", "--teacher", str(teacher), "--layers", "3", "--out", str(out)]) == 0
    assert "wrote layers 0, 2, 4 to" in capsys.readouterr().err
    assert main(["student", "--teacher", str(teacher), "--layers", "0,x", "--out", str(out)]) == 2
    large, small = Encoder.from_pretrained(teacher), Encoder.from_pretrained(out)
    for layer, of_teacher in enumerate((0, 2, 4)):
        for copied, original in zip(small.blocks[layer].weights, large.blocks[of_teacher].weights):
            np.testing.assert_array_equal(to_numpy(copied.value), to_numpy(original.value))


def test_six_of_twelve_layers_equal_distilbert(tmp_path):
    config = transformers.DistilBertConfig(
        vocab_size=19, dim=16, n_layers=12, n_heads=2, hidden_dim=32, max_position_embeddings=32
    )
    transformers.DistilBertForMaskedLM(config).save_pretrained(tmp_path / "teacher")
    layers = student_of(tmp_path / "teacher", tmp_path / "student", 6)
    assert layers == [0, 2, 4, 7, 9, 11]
    assert json.loads((tmp_path / "student" / "config.json").read_text())["n_layers"] == 6
    theirs = [
        transformers.DistilBertForMaskedLM.from_pretrained(tmp_path / name).state_dict()
        for name in ("teacher", "student")
    ]
    for name, tensor in theirs[1].items():
        place = name.split(".")
        if "layer" in place:
            place[3] = str(layers[int(place[3])])
        assert (tensor == theirs[0][".".join(place)]).all(), name


@pytest.mark.parametrize("layers", [0, 6, [], [1, 0], [1, 1], [5], True, 2.0, [True], "2"])
def test_rejects_invalid_layers(teacher, tmp_path, layers):
    with pytest.raises(InputError, match="layers must be"):
        student_of(teacher, tmp_path / "student", layers)
    assert not (tmp_path / "student").exists()


def test_rejects_shared_layers(tmp_path):
    shared = {"architecture": "albert", "num_layer_groups": 1, "embedding_dim": 8}
    encoder(num_layers=4, **shared).save_pretrained(tmp_path / "teacher")
    with pytest.raises(InputError, match="share weights"):
        student_of(tmp_path / "teacher", tmp_path / "student", 2)


def test_layer_types_are_those_of_the_layers(tmp_path):
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    kinds = {"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3}
    vocabulary = tokenizer().vocabulary_size
    config = transformers.ModernBertConfig(
        vocab_size=vocabulary, pad_token_id=0, max_position_embeddings=32, **sizes, **kinds
    )
    transformers.ModernBertModel(config).save_pretrained(tmp_path / "teacher")
    assert student_of(tmp_path / "teacher", tmp_path / "student", 2) == [0, 2]
    assert Encoder.from_pretrained(tmp_path / "student").config.num_layers == 2
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "student")
    assert len(theirs.config.layer_types) == 2
