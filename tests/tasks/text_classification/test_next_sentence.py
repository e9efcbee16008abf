"""Next sentence prediction, against `transformers`."""

import keras
import numpy as np
import pytest
import sklearn.metrics
import torch
import transformers

from keras_bert_impl.tasks import NextSentencePredictor
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import encoder, examples, tokenizer, weights

TEXTS, _ = examples(count=20)
PAIRS = list(zip(TEXTS[:10], TEXTS[10:]))
SIZES = {
    "vocab_size": tokenizer().vocabulary_size,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
    "initializer_range": 0.2,
}


def pretrained(kind, directory):
    """Saves a new `transformers` model of a class to a directory; returns the model."""
    transformers.set_seed(0)
    model = kind(kind.config_class(**SIZES | {"embedding_size": 8}))
    model.save_pretrained(directory)
    tokenizer().save_pretrained(directory)
    return model


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    pretrained(transformers.BertForNextSentencePrediction, path)
    return path


def original_probabilities(model):
    rows = tokenizer()(PAIRS)
    names = {
        "input_ids": "token_ids",
        "token_type_ids": "segment_ids",
        "attention_mask": "padding_mask",
    }
    features = {theirs: torch.tensor(np.asarray(rows[ours])) for theirs, ours in names.items()}
    with torch.no_grad():
        outputs = model.double().eval()(**features)
    logits = outputs.sop_logits if "sop_logits" in outputs else outputs.logits
    return torch.softmax(logits, -1)[:, 0].numpy()


@pytest.mark.parametrize(
    "kind", [transformers.BertForNextSentencePrediction, transformers.AlbertForPreTraining]
)
def test_equals_transformers(kind, tmp_path):
    expected = original_probabilities(pretrained(kind, tmp_path))
    model = NextSentencePredictor.from_pretrained(tmp_path)
    received = model.predict(PAIRS, verbose=0)
    assert received.shape == (10,) and received.dtype == "float32"
    # A softmax does not amplify the 1e-5 by which logits may differ.
    assert np.abs(received - expected).max() < 1e-5
    assert np.ptp(expected) > 1e-2
    model.save_pretrained(tmp_path)
    again = original_probabilities(kind.from_pretrained(tmp_path))
    np.testing.assert_array_equal(again, expected)


@pytest.mark.slow
def test_learns_the_next_sentence(directory, tmp_path):
    model = NextSentencePredictor.from_pretrained(directory, dropout=0.0)
    assert model.max_length == 32
    follows = [1, 0] * 5
    model.compile(optimizer=keras.optimizers.Adam(1e-2))
    model.fit(PAIRS, follows, epochs=20, batch_size=10, verbose=0)
    probabilities = model.predict(PAIRS, verbose=0)
    expected = -np.mean(np.log(np.where(follows, probabilities, 1 - probabilities)))
    loss, accuracy = model.evaluate(PAIRS, follows, verbose=0)
    # 1 - p loses digits if p is close to 1.
    assert loss == pytest.approx(expected, rel=1e-3) and accuracy == 1.0
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(weights(loaded), weights(model))


def test_rejects_invalid_input(directory, tmp_path):
    model = NextSentencePredictor.from_pretrained(directory)
    with pytest.raises(InputError, match="text 0 must be a .first, second. tuple"):
        model.predict(["a film"])
    with pytest.raises(InputError, match="labels must be 2 numbers, 0 or 1"):
        model.fit(PAIRS[:2], [0, 2], verbose=0)
    with pytest.raises(
        InputError, match="requires the pooler of bert or albert. Received: roberta"
    ):
        NextSentencePredictor(encoder(architecture="roberta", num_segments=1), tokenizer())
    encoder().save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    with pytest.raises(InputError, match="cls.seq_relationship.weight is missing"):
        NextSentencePredictor.from_pretrained(tmp_path)


def test_metrics_see_the_labels_of_the_user():
    model = NextSentencePredictor(encoder(use_pooler=True), tokenizer())
    labels = np.arange(len(PAIRS)) % 3 == 0
    share = keras.metrics.MeanMetricWrapper(lambda y, p: y, name="share")
    model.compile(metrics=[keras.metrics.Recall(class_id=1, name="recall"), share])
    scores = model.evaluate(PAIRS, labels.astype(int), verbose=0, return_dict=True)
    guesses = model.predict(PAIRS, verbose=0) > 0.5
    assert scores["recall"] == pytest.approx(sklearn.metrics.recall_score(labels, guesses))
    assert scores["share"] == pytest.approx(labels.mean())
