"""Choices and embeddings of texts longer than a row, as groups of windows."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.cli.main import main
from keras_bert_impl.tasks import (
    LongTexts,
    MultipleChoice,
    TextEmbedder,
    load_embedder,
    read_vectors,
)
from keras_bert_impl.utils.errors import InputError
from tests.data.batches.test_windows import POOLINGS, TEXTS, ids_of, row
from tests.helpers import mirrored, randomize
from tests.tasks.helpers import WORDS, encoder, tokenizer, weights


def embedder(long_texts, **arguments):
    arguments = {"max_length": 8} | arguments
    model = TextEmbedder(encoder(dropout=0.0), tokenizer(), long_texts=long_texts, **arguments)
    randomize(model, scale=0.3)
    return model


def chooser(long_texts, **arguments):
    arguments = {"max_length": 10} | arguments
    model = MultipleChoice(encoder(dropout=0.0), tokenizer(), long_texts=long_texts, **arguments)
    randomize(model, scale=0.3)
    return model


def pooled(model, vectors):
    """Pools the vectors `[windows, dim]` of a text's windows to one, in numpy."""
    if model.long_texts.way != "attention":
        return getattr(np, model.long_texts.way)(vectors, axis=0)
    layer = model.get_layer("pool_windows")
    kernel, bias, score = (np.asarray(weight) for weight in layer.weights)
    shares = np.exp(np.tanh(vectors @ kernel + bias) @ score)
    return (shares / shares.sum() * vectors).sum(axis=0)


# === Embeddings ===


@pytest.mark.parametrize(
    "pooling", [pytest.param(p, marks=[pytest.mark.slow] * (p != "attention")) for p in POOLINGS]
)
def test_vectors_are_pooled_windows_then_normalized(pooling):
    model = embedder(pooling, pooling="cls", normalize=True)
    for text, vector in zip(TEXTS[:6], model.encode(TEXTS[:6], batch_size=4)):
        # The same windows as in a classifier, whose pooler uses [CLS].
        expected = pooled(model, cls_of_windows(model, text))
        np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-5)


def cls_of_windows(model, text):
    """[CLS] of each of up to 8 windows of 6 words, 4 apart, each computed as a separate row."""
    ids, starts = ids_of(text), [0]
    while starts[-1] + 6 < len(ids):
        starts.append(starts[-1] + 4)
    rows = [row(ids[start : start + 6]) for start in starts[:8]]
    return np.concatenate([model.encoder(features)["sequence_output"][:, 0] for features in rows])


@pytest.mark.slow
def test_short_texts_have_the_same_vectors_with_windows():
    texts = ["a good film", "dull", ""]
    for pooling in POOLINGS:
        model, plain = embedder(pooling, num_layers=2), embedder("truncate", num_layers=2)
        plain.encoder.set_weights(model.encoder.get_weights())
        np.testing.assert_allclose(model.encode(texts), plain.encode(texts), atol=1e-6)


def test_grouped_texts_have_the_vectors_of_single_texts():
    model = embedder("mean")
    pairs = list(zip(TEXTS[:7], TEXTS[7:14]))
    expected = np.stack([model.encode(TEXTS[:7]), model.encode(TEXTS[7:14])], axis=1)
    np.testing.assert_allclose(model.predict(pairs, batch_size=3, verbose=0), expected, atol=1e-6)
    in_graph = model.features_in_graph(tf.constant(pairs))
    assert in_graph["token_ids"].shape.rank == 4
    np.testing.assert_allclose(model(in_graph), expected, atol=1e-6)
    assert model.encode([]).shape == (0, 16)


def test_head_tail_leaves_out_the_middle():
    model, text = (
        embedder(LongTexts("head_tail", head_tokens=2), pooling="mean"),
        max(TEXTS, key=len),
    )
    ids = ids_of(text)
    states = model.encoder(row(ids[:2] + ids[-4:]))["sequence_output"]
    expected = np.asarray(states).mean(axis=1)
    np.testing.assert_allclose(model.encode([text]), expected, atol=1e-5)


def test_embedder_learns_from_the_end_of_long_texts():
    model = TextEmbedder(encoder(dropout=0.0), tokenizer(), long_texts="max", max_length=8)
    model.compile(keras.optimizers.Adam(1e-2))
    good, bad, great, awful = (
        " ".join(["film"] * 12 + [end]) for end in ("good", "bad", "great", "awful")
    )
    pairs = [(good, great), (bad, awful), (good, bad), (great, awful)]
    history = model.fit(pairs, [1.0, 1.0, -1.0, -1.0], epochs=30, verbose=0).history["loss"]
    # Rows of 6 words hide the thirteenth; equal vectors would have a loss of (0 + 0 + 4 + 4) / 4.
    assert history[-1] < 0.1


@pytest.mark.slow
def test_splitting_a_batch_changes_nothing():
    """The loss compares each example with the whole batch, here on two replicas in two parts."""
    results = []
    for strategy, parts in ((tf.distribute.get_strategy(), 1), (mirrored(2), 2)):
        with strategy.scope():
            model = embedder("attention", loss="multiple_negatives")
            model.compile(keras.optimizers.SGD(0.1), accumulation_steps=parts)
        model.fit(list(zip(TEXTS[:12], TEXTS[12:])), batch_size=8, verbose=0)
        results.append(weights(model))
    # Sums in another order; SGD does not amplify rounding errors.
    np.testing.assert_allclose(*results, atol=2e-6)
    assert np.abs(results[0] - weights(embedder("attention"))).max() > 1e-3


def test_embedder_round_trips_through_files(tmp_path):
    model = embedder(LongTexts("attention", doc_stride=3, max_windows=5), num_layers=2)
    expected = model.encode(TEXTS[:5])
    model.save_pretrained(tmp_path / "model")
    again = TextEmbedder.from_pretrained(tmp_path / "model")
    assert again.long_texts == LongTexts("attention", doc_stride=3, max_windows=5)
    np.testing.assert_array_equal(again.encode(TEXTS[:5]), expected)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.encode(TEXTS[:5]), expected)


@pytest.mark.slow
def test_another_way_keeps_no_settings_of_the_old_one(tmp_path):
    model = embedder(LongTexts("mean", doc_stride=3, max_windows=5))
    model.save_pretrained(tmp_path)
    windows = load_embedder(tmp_path, long_texts="max")
    assert windows.long_texts == LongTexts("max", doc_stride=3, max_windows=5)
    plain = load_embedder(tmp_path, long_texts="truncate")
    assert plain.long_texts == LongTexts("truncate")
    with pytest.raises(InputError, match="max_windows can only be used with long_texts="):
        load_embedder(tmp_path, long_texts={"way": "truncate", "max_windows": 5})
    expected = embedder("truncate").encode(TEXTS[:5])
    np.testing.assert_array_equal(plain.encode(TEXTS[:5]), expected)


def test_command_embeds_whole_files(tmp_path):
    model = embedder("truncate")
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "texts").mkdir()
    for number, text in enumerate(TEXTS[:4]):
        (tmp_path / "texts" / f"{number}.txt").write_text(text.replace(" ", "\n"))
    command = ["embed", "--model", str(tmp_path / "model"), str(tmp_path / "texts")]
    command += ["--per", "file", "--long-texts", "max", "--max-windows", "3"]
    assert main([*command, "--out", str(tmp_path / "vectors.npy")]) == 0
    expected = TextEmbedder.from_pretrained(
        tmp_path / "model", long_texts=LongTexts("max", max_windows=3)
    ).encode(TEXTS[:4])
    np.testing.assert_allclose(read_vectors(tmp_path / "vectors.npy"), expected, atol=1e-6)
    assert np.abs(model.encode(TEXTS[:4]) - expected).max() > 1e-3


# === Choices ===

PROMPT = " ".join(WORDS)  # 14 words; an ending may have 3 of the 7 positions for text
CHOICES = [(PROMPT, ["joy", "the plot not"]), ("film", ["good", "bad", "dull"])]


@pytest.mark.on_tensorflow
def test_windows_slide_over_the_prompt_and_repeat_the_ending():
    features = chooser("mean").rows(CHOICES)[0].features(np.arange(2))
    ids, mask = (features[name].numpy() for name in ("token_ids", "padding_mask"))
    prompt, joy, plot = map(ids_of, (PROMPT, *CHOICES[0][1]))
    assert ids.shape == (2, 3, 4, 10)
    # Windows are half a row, 5, apart, but no more than the room that the ending leaves.
    assert ids[0, 0, 1].tolist() == [2, *prompt[5:11], 3, *joy, 3]
    assert ids[0, 1, 1].tolist() == [2, *prompt[4:8], 3, *plot, 3]
    assert features["segment_ids"].numpy()[0, 1, 1].tolist() == [0] * 6 + [1] * 4
    assert ids[1, 2, 0].tolist() == [2, *ids_of("film"), 3, *ids_of("dull"), 3] + [0] * 5
    assert mask.any(axis=-1).sum(axis=-1).tolist() == [[3, 4, 0], [1, 1, 1]]


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.on_tensorflow
def test_head_scores_the_pooled_vector_of_all_windows(pooling):
    model = chooser(pooling)
    tokenized, _ = model.rows(CHOICES)
    features = {n: f.numpy() for n, f in tokenized.features(np.arange(2)).items()}
    logits = model(features).numpy()
    for example, (_, endings) in enumerate(CHOICES):
        for choice in range(3):
            if choice >= len(endings):
                assert logits[example, choice] == -1e9
                continue
            mine = {name: feature[example, choice] for name, feature in features.items()}
            is_window = mine["padding_mask"].any(axis=-1)
            rows = {name: feature[is_window] for name, feature in mine.items()}
            vector = pooled(model, model.encoder(rows)["pooled_output"].numpy())
            expected = model.head_layer(vector[None]).numpy()[0, 0]
            assert logits[example, choice] == pytest.approx(expected, abs=1e-5)
    shares = model.predict(CHOICES, batch_size=1, verbose=0)
    for received, expected in zip(shares, logits):
        expected = np.exp(expected[: len(received)])
        np.testing.assert_allclose(received, expected / expected.sum(), atol=1e-5)


def test_head_tail_leaves_out_the_middle_of_a_prompt():
    features = (
        chooser(LongTexts("head_tail", head_tokens=2)).rows(CHOICES)[0].features(np.arange(2))
    )
    prompt, joy = ids_of(PROMPT), ids_of("joy")
    expected = [2, *prompt[:2], *prompt[-4:], 3, *joy, 3]
    assert features["token_ids"].numpy()[0, 0].tolist() == expected


@pytest.mark.on_tensorflow
def test_float16_training_on_choices_gives_finite_weights():
    """Choice and window padding has no vectors; its values must be finite in 16 bits too."""
    keras.utils.set_random_seed(0)
    model = MultipleChoice(
        encoder("mixed_float16", dropout=0.0), tokenizer(), max_length=10, long_texts="max"
    )
    model.compile(keras.optimizers.SGD(0.1))
    before = weights(model)
    model.fit(CHOICES, [0, 1], verbose=0)
    assert np.isfinite(weights(model)).all() and np.abs(weights(model) - before).max() > 1e-4


def long_choices():
    """Prompts whose last word, past the first row, is the correct ending."""
    draw = np.random.default_rng(0)
    ends = [str(draw.choice(WORDS)) for _ in range(24)]
    examples = []
    for end in ends:
        wrong = str(draw.choice([word for word in WORDS if word != end]))
        prompt = " ".join([*draw.choice(["film", "plot"], 10), end])
        examples.append((prompt, [end, wrong]))
    return examples, [0] * len(examples)


@pytest.mark.slow
def test_replicas_choose_the_same_ending():
    examples, labels = long_choices()
    results = []
    for strategy in (tf.distribute.get_strategy(), mirrored(2)):
        with strategy.scope():
            model = chooser("attention")
            model.compile(keras.optimizers.SGD(0.1), seed=1)
        # Batches of 10 from 24: the last one has 4 examples.
        model.fit(examples, labels, batch_size=10, verbose=0)
        results.append(weights(model))
    # Sums in another order; SGD does not amplify rounding errors.
    np.testing.assert_allclose(*results, atol=2e-6)
    assert np.abs(results[0] - weights(chooser("attention"))).max() > 1e-3


@pytest.mark.slow
def test_multiple_choice_round_trips_through_files(tmp_path):
    model = chooser(LongTexts("attention", max_windows=3))
    expected = model.predict(CHOICES, verbose=0)
    model.save_pretrained(tmp_path / "model")
    again = MultipleChoice.from_pretrained(tmp_path / "model")
    assert again.long_texts == LongTexts("attention", max_windows=3)
    for received, scores in zip(again.predict(CHOICES, verbose=0), expected):
        np.testing.assert_array_equal(received, scores)


@pytest.mark.parametrize("kind", [embedder, chooser])
def test_rejects_invalid_settings(kind, tmp_path):
    with pytest.raises(InputError, match="long_texts must be one of"):
        kind("middle")
    model = kind("mean")
    model.save_pretrained(tmp_path)
    for argument in ("doc_stride", "max_windows", "head_tokens"):
        with pytest.raises(InputError, match="LongTexts\\(.*" + argument):
            type(model).from_pretrained(tmp_path, **{argument: 3})
