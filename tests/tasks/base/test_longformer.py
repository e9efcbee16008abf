"""The global tokens of each task are those that `transformers` chooses by default."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
import transformers

from keras_bert_impl.checkpoints.config import Adapter
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.serving.onnx import export_onnx
from keras_bert_impl.tasks import (
    MultipleChoice,
    QuestionAnswerer,
    TextClassifier,
    TextEmbedder,
    TokenClassifier,
)
from keras_bert_impl.utils.errors import InputError
from tests.helpers import difference, randomize, to_numpy
from tests.tasks.base.test_family import config_of, tokenizer_of

TOLERANCE = 1e-5  # see test_family.py
QUESTIONS = [
    ("is the plot great", "a good film and an awful plot, but what a great joy it is to see"),
    ("what", "the film is not dull, not very bad and not awful; it is a joy"),
]
TEXTS = [context for _, context in QUESTIONS]
CHOICES = [(context, ["a good film", "not a very great joy"]) for _, context in QUESTIONS]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return tokenizer_of("longformer", tmp_path_factory.mktemp("tokenizer"))


def made(model_class, tokenizer, directory, **settings):
    """Returns a model with noise in every weight, and its logits in `transformers`."""
    config = config_of("longformer", tokenizer, max_global_tokens=32, num_segments=1)
    model = model_class(Encoder(config), tokenizer, max_length=64, **settings)
    randomize(model)
    model.save_pretrained(directory)

    def logits(kind, features):
        theirs = getattr(transformers, f"LongformerFor{kind}").from_pretrained(directory)
        names = {"input_ids": "token_ids", "attention_mask": "padding_mask"}
        tensors = {name: torch.tensor(to_numpy(features[ours])) for name, ours in names.items()}
        with torch.no_grad():
            return theirs.double().eval()(**tensors)

    return model, logits


def test_questions(tokenizer, tmp_path):
    model, original = made(QuestionAnswerer, tokenizer, tmp_path, max_question_length=20)
    features = tokenizer(QUESTIONS)
    theirs = original("QuestionAnswering", features)
    expected = np.stack([theirs.start_logits, theirs.end_logits], axis=1)
    real = np.broadcast_to(to_numpy(features["padding_mask"])[:, None] == 1, expected.shape)
    received = to_numpy(model.logits(features))
    assert difference(received[real], expected[real]) < TOLERANCE
    token_ids = np.where(features["token_ids"] == tokenizer.sep_id, 5, features["token_ids"])
    changed = features | {"token_ids": tf.constant(token_ids)}
    # Rows without a separator have no more global tokens than the limit: no NaN.
    assert np.isfinite(to_numpy(model.logits(changed))).all()


def test_choices(tokenizer, tmp_path):
    model, original = made(MultipleChoice, tokenizer, tmp_path)
    rows = [tokenizer([(prompt, ending) for ending in endings]) for prompt, endings in CHOICES]
    for row in rows:
        groups = {name: feature[None] for name, feature in row.items()}
        expected = original("MultipleChoice", groups).logits
        assert difference(model(groups), expected.numpy()) < TOLERANCE


def test_tags(tokenizer, tmp_path):
    model, original = made(TokenClassifier, tokenizer, tmp_path, labels=["a", "b", "c"])
    features = tokenizer(TEXTS)
    expected = original("TokenClassification", features).logits.numpy()
    real = to_numpy(features["padding_mask"]) == 1
    assert difference(to_numpy(model(features))[real], expected[real]) < TOLERANCE


def test_classes(tokenizer, tmp_path):
    model, original = made(TextClassifier, tokenizer, tmp_path, labels=["a", "b", "c"])
    features = tokenizer(TEXTS)
    expected = original("SequenceClassification", features).logits.numpy()
    assert difference(model(features), expected) < TOLERANCE
    with pytest.raises(InputError, match="a longformer can be exported only as a SavedModel"):
        export_onnx(model, tmp_path / "onnx")


def test_vectors(tokenizer, tmp_path):
    """`sentence-transformers` passes no global tokens."""
    config = config_of("longformer", tokenizer, use_pooler=True)
    model = TextEmbedder(Encoder(config), tokenizer, normalize=False, max_length=64)
    randomize(model)
    model.save_pretrained(tmp_path)
    features = tokenizer(TEXTS)
    theirs = transformers.LongformerModel.from_pretrained(tmp_path).double().eval()
    ids, mask = (torch.tensor(to_numpy(features[name])) for name in ("token_ids", "padding_mask"))
    with torch.no_grad():
        states = theirs(input_ids=ids, attention_mask=mask).last_hidden_state
    weights = mask[..., None].double()
    expected = ((states * weights).sum(1) / weights.sum(1)).numpy()
    assert difference(model.encode(TEXTS), expected) < TOLERANCE


def test_lora(tokenizer, tmp_path):
    """LoRA is on all projections; `peft`'s files and the merged model give the same answers."""
    config = config_of("longformer", tokenizer, adapter=Adapter("lora", 2, projections=["query"]))
    model = TextClassifier(Encoder(config), tokenizer, labels=["a", "b"], max_length=64)
    names = {w.path.split("/")[-3] for w in model.trainable_weights if "lora" in w.path}
    assert names == {"query", "query_global"}
    randomize(model)
    model.save_pretrained(tmp_path / "merged")
    expected = model.predict(TEXTS, verbose=0)
    merged = TextClassifier.from_pretrained(tmp_path / "merged").predict(TEXTS, verbose=0)
    assert difference(merged, expected) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("model_class", [QuestionAnswerer, MultipleChoice, TokenClassifier])
def test_export_and_keras_file(model_class, tokenizer, tmp_path):
    settings = {
        TokenClassifier: {"labels": ["a", "b"]},
        QuestionAnswerer: {"max_question_length": 20},
    }
    model, _ = made(model_class, tokenizer, tmp_path / "model", **settings.get(model_class, {}))
    model.export(tmp_path / "exported")  # compares the answers with those of `predict`
    assert tf.saved_model.load(str(tmp_path / "exported")).signatures
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    x = {QuestionAnswerer: QUESTIONS, MultipleChoice: CHOICES}.get(model_class, TEXTS)
    assert str(again.predict(x)) == str(model.predict(x))
