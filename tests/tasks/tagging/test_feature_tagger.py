"""A BiLSTM on a frozen encoder; behavior shared by all taggers is in test_token_classifier.py."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.cli.main import main
from keras_bert_impl.tasks import FeatureTagger, load_tuned
from keras_bert_impl.tasks.tagging.feature_tagger import layer_numbers
from keras_bert_impl.utils.errors import InputError
from tests.helpers import mirrored, randomize
from tests.tasks.helpers import (
    GOOD,
    WORDS,
    encoder,
    examples,
    tokenizer,
    weights,
    window_with_most_context,
)

LABELS = ["O", "B-X", "I-X"]


def sentences(count=16, most=20, seed=0):
    """Words and labels, where an entity is `good` and the word after it."""
    draw = np.random.default_rng(seed)
    texts = [list(draw.choice(WORDS, draw.integers(1, most))) for _ in range(count)]
    labels = []
    for words in texts:
        is_good = [word in GOOD for word in words]
        before = [False, *is_good[:-1]]
        labels.append(["B-X" if g else "I-X" if b else "O" for g, b in zip(is_good, before)])
    return texts, labels


TEXTS, TAGS = sentences()
NUMBERS = [np.array([LABELS.index(tag) for tag in tags]) for tags in TAGS]


def tagger(strategy=None, scale=0.3, **arguments):
    with (strategy or tf.distribute.get_strategy()).scope():
        parts = encoder(dropout=0.0, num_layers=4, use_pooler=False)
        arguments = {"labels": LABELS, "max_length": 12, "lstm_dim": 8} | arguments
        model = FeatureTagger(parts, tokenizer(), **arguments)
        if scale:
            randomize(model, scale=scale)
        model.compile(keras.optimizers.SGD(0.5))
    return model


@pytest.fixture(scope="module")
def model():
    return tagger()


@pytest.fixture(scope="module")
def mixed():
    return tagger(features="mix", crf=True)


def states_of(model, words):
    """Returns all hidden states of a text that fits in one row, [words, layers, hidden]."""
    row = tokenizer()([" ".join(words)])
    states = model.encoder.with_outputs("hidden_states")(row)["hidden_states"]
    return np.stack([np.asarray(state)[0, 1:-1] for state in states], axis=1)


def test_word_features_are_hidden_states_of_the_encoder(model, mixed):
    texts = [words[:10] for words in TEXTS[:5]]
    for each, layers in ((model, [1, 2, 3, 4]), (mixed, [0, 1, 2, 3, 4])):
        rows, _ = each.rows(each.as_texts(texts))
        features = rows.features(np.arange(5))
        for number, words in enumerate(texts):
            received = features["states"][number, : len(words)]
            # Batches of different shapes sum in another order. A state is the result of four layers,
            # each with some fifty roundings of 6e-8, of its own size and of the size of 1.
            expected = states_of(each, words)[:, layers]
            np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-5)
            assert features["mask"][number].numpy().sum() == len(words)


def test_long_texts_are_one_sequence(model):
    words = list(np.random.default_rng(3).choice(WORDS, 23))
    rows, _ = model.rows(model.as_texts([["a"], words]))
    received = rows.features(np.array([1]))["states"][0]
    # Windows of 10 words, 6 apart. Each word in an overlap uses the window with the most context.
    windows = [(0, 10), (6, 16), (12, 22), (18, 23)]
    for word in range(23):
        start, end = window_with_most_context(word, windows)
        expected = states_of(model, words[start:end])[word - start, 1:]
        np.testing.assert_allclose(received[word], expected, atol=1e-5)


def test_concatenated_states_pass_two_lstm_layers(model):
    words = TEXTS[1][:10]
    hidden = states_of(model, words)[:, 1:].reshape(1, len(words), -1)
    for number in range(2):
        hidden = model.get_layer(f"bilstm_{number}")(hidden)
    expected = keras.ops.softmax(model.head_layer(hidden))[0]
    assert model.get_layer("bilstm_1").output.shape[-1] == 8
    # In a batch with a longer text, so that this one has padding, which must be masked.
    received = model.predict([words, TEXTS[0] + TEXTS[2]], verbose=0)[0]
    np.testing.assert_allclose(received, expected, atol=1e-5)


@pytest.mark.filterwarnings("error:.*mask:UserWarning")
def test_bilstm_masks_cause_no_warnings():
    probabilities = tagger(features=-1).predict([["good", "a"], ["a"]], verbose=0)
    assert [len(each) for each in probabilities] == [2, 1]


@pytest.mark.slow
def test_trains_with_a_frozen_encoder():
    model = tagger(scale=0)
    model.compile(keras.optimizers.Adam(3e-2))
    before = weights(model.encoder)
    history = model.fit(TEXTS, TAGS, epochs=20, batch_size=8, verbose=0).history
    assert history["loss"][-1] < 0.8 * history["loss"][0]
    np.testing.assert_array_equal(weights(model.encoder), before)
    result = model.evaluate(TEXTS, TAGS, batch_size=5, verbose=0, return_dict=True)
    scores = np.concatenate(model.predict(TEXTS, batch_size=3, verbose=0))
    gold = np.concatenate(NUMBERS)
    likelihood = np.log(scores[np.arange(len(gold)), gold])
    assert result["loss"] == pytest.approx(-likelihood.mean(), abs=1e-5)
    assert [len(row) for row in model.tag(TEXTS)] == [len(row) for row in TEXTS]
    assert all(entity.type == "X" for row in model.entities(TEXTS[:4]) for entity in row)


def test_accepts_texts_without_words(model):
    assert [len(row) for row in model.predict([[], ["a"], [""]], verbose=0)] == [0, 1, 1]
    assert model.predict([], verbose=0) == []


@pytest.mark.slow
def test_replicas_give_the_same_weights():
    results = []
    for strategy in (None, mirrored(2)):
        model = tagger(strategy, crf=True, features=-2)
        # Batches of 8 from 12: the last one has 4 texts.
        model.fit(TEXTS[:12], TAGS[:12], batch_size=8, verbose=0)
        results.append(weights(model))
    # Sums in another order; SGD does not amplify rounding errors.
    np.testing.assert_allclose(*results, atol=1e-5)
    assert np.abs(results[0] - weights(tagger(crf=True, features=-2))).max() > 1e-3


def test_replicas_predict_the_same(model):
    texts, _ = sentences(27)
    replicated = tagger(mirrored(2))
    replicated.set_weights(model.get_weights())
    for batch_size in (4, 32):
        expected, received = (m.predict(texts, batch_size, verbose=0) for m in (model, replicated))
        for expected_row, row in zip(expected, received, strict=True):
            np.testing.assert_allclose(row, expected_row, atol=1e-5)


@pytest.mark.slow
def test_saves_and_loads(mixed, tmp_path):
    import torch
    import transformers

    expected = mixed.predict(TEXTS[:4], verbose=0)
    mixed.save_pretrained(tmp_path / "model")
    again = load_tuned(tmp_path / "model")
    assert isinstance(again, FeatureTagger)
    assert (again.features, again.lstm_dim, again.crf, again.labels) == ("mix", 8, True, LABELS)
    mixed.save(tmp_path / "model.keras")
    for loaded in (again, keras.saving.load_model(tmp_path / "model.keras")):
        np.testing.assert_array_equal(weights(loaded.encoder), weights(mixed.encoder))
        for ours, theirs in zip(loaded.predict(TEXTS[:4], verbose=0), expected):
            np.testing.assert_array_equal(ours, theirs)
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "model").eval()
    row = {name: np.asarray(value) for name, value in tokenizer()(["a good film"]).items()}
    names = ("token_ids", "padding_mask", "segment_ids")  # in the order of their arguments
    with torch.no_grad():
        states = theirs(*(torch.tensor(row[name]) for name in names)).last_hidden_state.numpy()
    np.testing.assert_allclose(mixed.encoder(row)["sequence_output"], states, atol=1e-5)
    with pytest.raises(
        InputError, match="an encoder without a FeatureTagger; pass num_classes or labels"
    ):
        mixed.encoder.save_pretrained(tmp_path / "base")
        tokenizer().save_pretrained(tmp_path / "base")
        FeatureTagger.from_pretrained(tmp_path / "base")


@pytest.mark.slow
def test_finetune_trains_a_feature_tagger(tmp_path):
    encoder(num_layers=2).save_pretrained(tmp_path / "base")
    tokenizer().save_pretrained(tmp_path / "base")
    texts, _ = examples(count=12)
    rows = [[f"{word} {'B-X' if word in GOOD else 'O'}\n" for word in t.split()] for t in texts]
    (tmp_path / "a.txt").write_text("\n".join("".join(row) for row in rows))
    files = ["--train", str(tmp_path / "a.txt"), "--dev", str(tmp_path / "a.txt")]
    command = ["finetune", "--model", str(tmp_path / "base"), "--task", "tagging", *files]
    command += ["--out", str(tmp_path / "run"), "--features=-1", "--max-length=8"]
    assert main([*command, "--label-all-tokens"]) == 2
    assert main([*command, "--epochs=3", "--learning-rate=0.05", "--batch-size=4"]) == 0
    tuned = load_tuned(tmp_path / "run")
    assert isinstance(tuned, FeatureTagger) and tuned.features == -1
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    tags = tuned.tag([text.split() for text in texts])
    gold = [["B-X" if word in GOOD else "O" for word in text.split()] for text in texts]
    assert scores["accuracy"] == pytest.approx(np.mean(np.array(sum(tags, [])) == sum(gold, [])))


def test_layers_are_selected_by_number_or_name():
    assert layer_numbers("last_four", 12) == layer_numbers("mix_last_four", 12) == [9, 10, 11, 12]
    assert layer_numbers("mix", 2) == [0, 1, 2]
    assert [layer_numbers(n, 12) for n in (0, -1, -2, 12)] == [[0], [12], [11], [12]]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"features": "first"}, "features must be one of last_four, mix, mix_last_four"),
        ({"features": 5}, "a layer from -5 to 4. Received: features=5"),
        ({"features": True}, "Received: features=True"),
        ({"lstm_dim": 7}, "lstm_dim must be even and positive"),
        ({"doc_stride": 0}, "doc_stride must be a positive integer"),
    ],
)
def test_rejects_invalid_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        tagger(**arguments)


def test_rejects_labels_that_do_not_match_the_texts(model):
    with pytest.raises(InputError, match="text 1 has 2 words, but 1 labels"):
        model.fit([["a"], ["a", "film"]], [["O"], ["O"]], verbose=0)
