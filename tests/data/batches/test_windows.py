"""Texts longer than a row: truncation strategies, and models that pool windows."""

import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.batches import batching
from keras_bert_impl.data.batches.blocks import blocks
from keras_bert_impl.data.batches.windows import pack_head_and_tail, tokenize_windows
from keras_bert_impl.tasks import LongTexts, TextClassifier
from keras_bert_impl.tokenizers.windows import pack_windows
from keras_bert_impl.utils.errors import InputError
from tests.helpers import mirrored, randomize
from tests.tasks.helpers import GOOD, WORDS, classifier, encoder, tokenizer, weights

POOLINGS = ["mean", "max", "attention"]


def documents(count=24, most=40, seed=0):
    """Texts of up to 40 words, of which a row fits 6; positive if the last word is a good one."""
    draw = np.random.default_rng(seed)
    texts = [" ".join(draw.choice(WORDS, draw.integers(1, most + 1))) for _ in range(count)]
    labels = ["positive" if text.split()[-1] in GOOD else "negative" for text in texts]
    return texts, labels


TEXTS, LABELS = documents()


def model_of(long_texts, scale=0.3, strategy=None, **arguments):
    with (strategy or tf.distribute.get_strategy()).scope():
        arguments = {"max_length": 8, "dropout": 0.0} | arguments
        model = classifier(long_texts=long_texts, **arguments)
        if scale:
            randomize(model, scale=scale)
        model.compile(keras.optimizers.SGD(0.1))
    return model


@pytest.fixture(scope="module")
def models():
    return {name: model_of(name) for name in ("truncate", "head_tail", *POOLINGS)}


def ids_of(text):
    return tokenizer().tokenize([text]).to_list()[0]


def scores_of(model, texts):
    """Like `predict`, with one batch and without a graph."""
    features = model.rows(model.as_texts(texts))[0].features(np.arange(len(texts)))
    return np.asarray(model.scores(model(features)))


def row(ids, length=8):
    """Builds the features of one row by hand."""
    ids = [2, *ids, 3]
    real = len(ids)
    return {
        "token_ids": np.array([ids + [0] * (length - real)], "int32"),
        "segment_ids": np.zeros((1, length), "int32"),
        "padding_mask": np.array([[1] * real + [0] * (length - real)], "int32"),
    }


# === Head and tail ===


def test_splits_512_tokens_as_published():
    text = " ".join(np.random.default_rng(0).choice(WORDS, 700))
    received = pack_head_and_tail(tokenizer(), [text], length=512)["token_ids"].numpy()[0]
    ids = ids_of(text)
    assert received.tolist() == [2, *ids[:128], *ids[-382:], 3]


@pytest.mark.parametrize("head, count", [(None, 1), (4, 4), (9, 6)])
def test_head_tail_leaves_out_the_middle(head, count):
    long, short = TEXTS[0], "a good film"
    assert len(long.split()) > 8
    both = pack_head_and_tail(tokenizer(), [short, long], 8, head)
    ids = ids_of(long)
    tail = ids[len(ids) - (6 - count) :]
    for received, expected in zip(both["token_ids"].numpy(), (ids_of(short), ids[:count] + tail)):
        np.testing.assert_array_equal(received, row(expected)["token_ids"][0])


def test_truncates_the_second_text_of_a_pair():
    pair = ("what is the film", " ".join(WORDS))
    received = pack_head_and_tail(tokenizer(), [pair], 12, 2)
    first, second = map(ids_of, pair)
    # Nine positions besides [CLS] and two [SEP]: half for the first text, the rest for the second.
    expected = [2, *first, 3, *second[:2], *second[-3:], 3]
    assert received["token_ids"].numpy()[0].tolist() == expected
    assert received["segment_ids"].numpy()[0].tolist() == [0] * 6 + [1] * 6


def test_classifies_head_and_tail(models):
    model, text = models["head_tail"], max(TEXTS, key=len)
    ids = ids_of(text)
    expected = np.asarray(model.scores(model(row(ids[:1] + ids[-5:]))))
    # Width 16 in float32, in a batch of a different shape.
    np.testing.assert_allclose(scores_of(model, [text, "film"])[:1], expected, atol=1e-6)
    in_graph = model.features_in_graph(tf.constant([text, "film"]))
    np.testing.assert_allclose(model.scores(model(in_graph))[:1], expected, atol=1e-6)


# === Windows ===


def vectors_of(model, text):
    """The vectors of a text's windows, each computed as a separate row; 6 words, 4 apart."""
    ids = ids_of(text)
    starts = [0]
    while starts[-1] + 6 < len(ids):
        starts.append(starts[-1] + 4)
    rows = [row(ids[start : start + 6]) for start in starts]
    return np.concatenate([model.encoder(features)["pooled_output"] for features in rows])


@pytest.mark.parametrize("pooling", POOLINGS)
def test_windows_are_pooled(models, pooling):
    model = models[pooling]
    texts = TEXTS[:6]
    received = scores_of(model, texts)
    for text, scores in zip(texts, received):
        vectors = vectors_of(model, text)[:8]
        if pooling == "attention":
            layer = model.get_layer("pool_windows")
            kernel, bias, score = (np.asarray(weight) for weight in layer.weights)
            shares = np.exp(np.tanh(vectors @ kernel + bias) @ score)
            vector = (shares / shares.sum() * vectors).sum(axis=0)
        else:
            vector = getattr(np, pooling)(vectors, axis=0)
        expected = np.asarray(model.scores(model.head_layer(vector[None])))[0]
        np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_predict_keeps_the_order(models):
    model = models["mean"]
    expected = scores_of(model, TEXTS[:7])
    np.testing.assert_allclose(
        model.predict(TEXTS[:7], batch_size=4, verbose=0), expected, atol=1e-6
    )
    assert model.predict([], verbose=0).shape == (0, 2)
    in_graph = model.features_in_graph(tf.constant(TEXTS[:7]))
    np.testing.assert_allclose(model.scores(model(in_graph)), expected, atol=1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_texts_of_one_window_have_the_same_scores(models, pooling):
    model, texts = models[pooling], ["a good film", "dull", ""]
    short = model_of("truncate", scale=0)
    for ours, theirs in ((model.encoder, short.encoder), (model.head_layer, short.head_layer)):
        theirs.set_weights(ours.get_weights())
    np.testing.assert_allclose(scores_of(model, texts), scores_of(short, texts), atol=1e-6)


def test_leaves_out_windows_beyond_the_maximum():
    model = model_of(LongTexts("mean", max_windows=3))
    words = WORDS + WORDS  # 28 words; three windows cover 6 + 4 + 4
    received = scores_of(model, [" ".join(words), "film"])[0]
    np.testing.assert_allclose(received, scores_of(model, [" ".join(words[:14])])[0], atol=1e-6)
    rows, _ = model.rows([" ".join(words), "film"])
    assert rows.features(np.arange(2))["token_ids"].shape == (2, 3, 8)
    if keras.backend.backend() == "tensorflow":  # on JAX, batches have few shapes
        assert rows.features(np.array([1]))["token_ids"].shape == (1, 1, 3)
    # Sorts by the number of windows, then by the longest, of up to 8 tokens.
    assert rows.lengths.numpy().tolist() == [3 * 8 + 8, 8 + 3]


def test_windows_slide_over_the_second_text_of_a_pair(models):
    model = models["mean"]
    pairs = [("what film", " ".join(WORDS)), ("plot", "good")]
    features = model.rows(pairs)[0].features(np.arange(2))
    ids, segments = features["token_ids"].numpy(), features["segment_ids"].numpy()
    first, second = map(ids_of, pairs[0])
    # The first text takes 2 of 5 positions, which leaves adjacent windows of 3 words.
    assert ids[0, 1].tolist() == [2, *first, 3, *second[3:6], 3]
    assert segments[0, 1].tolist() == [0] * 4 + [1] * 4
    assert ids[1, 0].tolist()[:5] == [2, *ids_of("plot"), 3, *ids_of("good"), 3]
    with pytest.raises(InputError, match="all single texts or all pairs"):
        model.rows([pairs[0], "film"])


@pytest.mark.slow
def test_learns_from_the_end_of_long_texts():
    model = model_of("max", scale=0)
    model.compile(keras.optimizers.Adam(1e-2))
    texts = [" ".join(["film"] * 12 + [word]) for word in WORDS]
    labels = [int(word in GOOD) for word in WORDS]
    history = model.fit(texts, labels, epochs=25, batch_size=7, verbose=0).history
    # Rows of 6 words hide the thirteenth, so truncated texts are all the same.
    assert history["accuracy"][-1] == 1.0
    scores = model.predict(texts, verbose=0)
    loss = -np.log(scores[np.arange(len(labels)), labels]).mean()
    evaluated = model.evaluate(texts, labels, batch_size=5, verbose=0, return_dict=True)
    assert evaluated["loss"] == pytest.approx(loss, abs=1e-5)


@pytest.mark.slow
def test_replicas_reach_the_same_weights():
    results = []
    for strategy in (None, mirrored(2)):
        model = model_of("attention", strategy=strategy)
        # Batches of 8 from 12: the last one has 4 texts.
        model.fit(TEXTS[:12], LABELS[:12], batch_size=8, verbose=0)
        results.append(weights(model))
    # Sums in another order; SGD does not amplify rounding errors.
    np.testing.assert_allclose(*results, atol=2e-6)
    assert np.abs(results[0] - weights(model_of("attention"))).max() > 1e-3


# === Files ===


@pytest.mark.slow
def test_files_keep_the_settings(tmp_path):
    model = model_of(LongTexts("attention", doc_stride=3, max_windows=5))
    expected = scores_of(model, TEXTS[:5])
    model.save_pretrained(tmp_path / "model")
    settings = json.loads((tmp_path / "model" / "config.json").read_text())["keras_bert_impl"]
    assert settings["long_texts"] == {
        "way": "attention", "doc_stride": 3, "max_windows": 5, "head_tokens": None,
    }  # fmt: skip
    again = TextClassifier.from_pretrained(tmp_path / "model")
    np.testing.assert_array_equal(scores_of(again, TEXTS[:5]), expected)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(scores_of(loaded, TEXTS[:5]), expected)
    # Another pooling over the same encoder, and more classes with a new head.
    averaged = TextClassifier.from_pretrained(tmp_path / "model", long_texts="mean")
    assert np.abs(scores_of(averaged, TEXTS[:5]) - expected).max() > 1e-4
    resized = TextClassifier.from_pretrained(tmp_path / "model", num_classes=4)
    loaded_weights = [np.asarray(w) for w in resized.get_layer("pool_windows").weights]
    for received, weight in zip(loaded_weights, model.get_layer("pool_windows").weights):
        np.testing.assert_array_equal(received, weight)


def test_transformers_loads_the_model_for_one_window(models, tmp_path):
    import torch
    import transformers

    model = models["mean"]
    model.save_pretrained(tmp_path)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    features = row(ids_of("a good film"))
    names = ("token_ids", "padding_mask", "segment_ids")  # in the order of their arguments
    with torch.no_grad():
        expected = theirs(*(torch.tensor(features[name]) for name in names)).logits.numpy()
    logits = model({name: feature[:, None] for name, feature in features.items()})
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer().save_pretrained(tmp_path / "theirs")
    again = TextClassifier.from_pretrained(tmp_path / "theirs", long_texts="mean", max_length=8)
    expected = scores_of(model, TEXTS[:3])
    np.testing.assert_allclose(scores_of(again, TEXTS[:3]), expected, atol=1e-6)


@pytest.mark.slow
def test_exported_model_has_windows(models, tmp_path):
    model = models["max"]
    model.export(tmp_path / "exported")
    served = tf.saved_model.load(str(tmp_path / "exported"))
    signatures = served.signatures
    scores = signatures["serving_default"](text=tf.constant(TEXTS[:4]))["scores"]
    np.testing.assert_allclose(scores, scores_of(model, TEXTS[:4]), atol=1e-5)
    features = signatures["tokenize"](text=tf.constant(TEXTS[:4]))
    np.testing.assert_allclose(signatures["ids"](**features)["scores"], scores, atol=1e-6)
    assert signatures["serving_default"](text=tf.constant([], tf.string))["scores"].shape == (0, 2)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"way": "middle"}, "long_texts must be one of truncate, head_tail, mean"),
        ({"doc_stride": 3}, "doc_stride can only be used with long_texts=mean, max, attention"),
        (
            {"way": "head_tail", "max_windows": 3},
            "max_windows can only be used with long_texts=mean",
        ),
        (
            {"way": "mean", "head_tokens": 3},
            "head_tokens can only be used with long_texts=head_tail",
        ),
        ({"way": "mean", "max_windows": 0}, "max_windows must be a positive integer"),
        ({"way": "mean", "windows": 3}, "long_texts has no fields .windows."),
    ],
)
def test_rejects_invalid_settings(arguments, message):
    with pytest.raises(InputError, match=message):
        TextClassifier(encoder(), tokenizer(), num_classes=2, long_texts=arguments)


TOKENIZER = tokenizer()


def texts(count, most=30, seed=0):
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, draw.integers(0, most))) for _ in range(count)]


@pytest.mark.parametrize("paired", [False, True])
def test_blocks_do_not_change_the_result(monkeypatch, paired):
    inputs = list(zip(texts(25, 5), texts(25, seed=1))) if paired else texts(25)
    whole = tokenize_windows(inputs, TOKENIZER, 12, 4, first_length=5)
    by_seven = functools.partial(blocks, most_texts=7)
    monkeypatch.setattr("keras_bert_impl.data.batches.windows.blocks", by_seven)
    parts = tokenize_windows(inputs, TOKENIZER, 12, 4, first_length=5)
    for name in ("token_ids", "row_splits", "second_starts", "texts", "tokens", "text_splits"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    np.testing.assert_array_equal(parts.has_most_context, whole.has_most_context)


def test_columns_are_positions_in_padded_rows():
    inputs = texts(20)
    rows = tokenize_windows(inputs, TOKENIZER, 10, 3)
    windows = pack_windows(TOKENIZER, tf.constant(inputs), 10, 3)
    row, column = rows.columns()
    np.testing.assert_array_equal(windows.tokens().numpy()[row, column], rows.tokens)
    has_context = windows.has_most_context().numpy()
    np.testing.assert_array_equal(has_context[row, column], rows.has_most_context)
    # Each token of each text is used once.
    assert rows.has_most_context.sum() == rows.text_splits[-1]
    features = rows.features(tf.range(rows.num_texts, dtype=tf.int64))
    np.testing.assert_array_equal(features["token_ids"], windows.features["token_ids"])
    starts, ends = rows.token_starts, rows.token_ends
    for number, text in enumerate(inputs):
        part = slice(*rows.text_splits[number : number + 2])
        assert [text[s:e] for s, e in zip(starts[part], ends[part])] == text.split()


def test_token_targets_are_padded_like_their_rows():
    rows = tokenize_windows(texts(50), TOKENIZER, 10, 3)
    target = tf.RaggedTensor.from_row_splits(rows.token_ids + 100, rows.row_splits)
    for features, numbers in batching.training_batches(rows, (target,), 8, seed=0, steps=12):
        is_real = features["padding_mask"].numpy() == 1
        np.testing.assert_array_equal(numbers, np.where(is_real, features["token_ids"] + 100, 0))


def test_no_texts_give_no_rows():
    rows = tokenize_windows([], TOKENIZER, 10, 3)
    assert rows.num_texts == 0 and rows.text_splits.tolist() == [0]
