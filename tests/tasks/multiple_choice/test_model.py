"""Multiple choice: rows kept together, answers, files, replicas."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
import transformers

from keras_bert_impl.data.batches import batching
from keras_bert_impl.data.batches.batching import tokenize_texts
from keras_bert_impl.data.batches.windows import tokenize_groups
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.tasks import MultipleChoice, TextClassifier
from keras_bert_impl.utils.errors import InputError
from tests.helpers import mirrored, randomize
from tests.tasks import helpers
from tests.tasks.base.test_family import KINDS, config_of, tokenizer_of
from tests.tasks.helpers import GOOD, WORDS, choices

TOKENIZER = helpers.tokenizer()
BAD = [word for word in WORDS if word not in GOOD]


EXAMPLES, LABELS = choices()


def chooser(dropout=0.0, **arguments):
    return MultipleChoice(helpers.encoder(dropout=dropout), TOKENIZER, max_length=16, **arguments)


def fitted(strategy=None, **fit):
    strategy = strategy or tf.distribute.get_strategy()
    with strategy.scope():
        model = chooser()
        # SGD does not amplify the rounding of float32 sums in another order.
        model.compile(optimizer=keras.optimizers.SGD(0.05), seed=7)
    model.fit(EXAMPLES, LABELS, **{"batch_size": 12, "epochs": 1, "verbose": 0} | fit)
    return model


@pytest.fixture(scope="module")
def model():
    return fitted()


def tokenized(examples, max_length, widths=None):
    pairs = [[(prompt, ending) for ending in endings] for prompt, endings in examples]
    return tokenize_groups(
        pairs, lambda texts: tokenize_texts(texts, TOKENIZER, max_length, widths)
    )


def features_of(numbers):
    data = tokenized(EXAMPLES, 16)
    return data.features(tf.constant(list(numbers), tf.int64))


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


# === Rows ===


def test_rejects_a_causal_encoder():
    with pytest.raises(InputError, match="first token"):
        MultipleChoice(helpers.encoder(causal=True), TOKENIZER)


def test_features_equal_the_tokenizer_and_mask_padded_choices():
    data = tokenized(EXAMPLES, 8)
    numbers = [3, 0, 7]
    counts = [len(EXAMPLES[number][1]) for number in numbers]
    features = data.features(tf.constant(numbers, tf.int64))
    pairs = [(EXAMPLES[n][0], ending) for n in numbers for ending in EXAMPLES[n][1]]
    expected = {name: np.asarray(f) for name, f in TOKENIZER(pairs, length=8).items()}
    length = int(expected["padding_mask"].sum(axis=1).max())
    is_choice = np.arange(max(counts)) < np.array(counts)[:, None]
    for name, feature in features.items():
        feature = feature.numpy()
        assert feature.shape == (3, max(counts), length)
        np.testing.assert_array_equal(feature[is_choice], expected[name][:, :length])
        padding = TOKENIZER.pad_id if name == "token_ids" else 0
        assert (feature[~is_choice] == padding).all() and not is_choice.all()


def test_a_batch_is_as_wide_as_its_own_examples_need():
    examples = [("good " * 9, ["film"] * 2), ("a", ["film", "plot", "joy"])]
    data = tokenized(examples, 16)
    shapes = [data.features(tf.constant([i], tf.int64))["token_ids"].shape for i in range(2)]
    assert [tuple(shape) for shape in shapes] == [(1, 2, 13), (1, 3, 5)]
    # Sorts by the number of rows, then by the longest, of up to 16 tokens.
    assert data.lengths.numpy().tolist() == [2 * 16 + 13, 3 * 16 + 5]


def test_batches_examples_of_equal_size_together():
    examples, _ = choices(count=1200)
    data = tokenized(examples, 16)
    numbers = np.arange(1200, dtype="int32")
    epoch = list(batching.training_batches(data, (numbers,), 16, seed=0, steps=75))
    drawn = np.concatenate([rows.numpy() for _, rows in epoch])
    np.testing.assert_array_equal(np.sort(drawn), numbers)
    # 2 to 4 choices of 6 to 14 tokens, sorted within 256 examples: nearly all batches have a single
    # number of choices, and tokens fill over two thirds of them.
    masks = [features["padding_mask"].numpy() for features, _ in epoch]
    full = [mask.any(axis=2).all() for mask in masks]
    assert np.mean(full) > 0.8
    assert sum(mask.sum() for mask in masks) > sum(mask.size for mask in masks) * 2 / 3


@pytest.mark.parametrize("widths, counts", [(None, [3, 3]), ([16], [2, 3])])
def test_known_sizes_are_static_shapes(widths, counts):
    examples = [("a film", ["good"] * count) for count in counts]
    data = tokenized(examples, 16, widths)
    batches = batching.training_batches(data, (np.zeros(2, "int32"),), 2, seed=0)
    shape = batches.element_spec[0]["token_ids"].shape.as_list()
    assert shape == [None, 3, 16 if widths else None]


# === Training ===


def test_loss_is_the_mean_over_examples(model):
    logits = np.asarray(model(features_of(range(10))))
    losses = -np.log(softmax(logits)[np.arange(10), LABELS[:10]])
    results = model.evaluate(EXAMPLES[:10], LABELS[:10], verbose=0, return_dict=True)
    # Logarithms of float32 probabilities of magnitude 1.
    assert results["loss"] == pytest.approx(losses.mean(), abs=1e-6)
    assert results["accuracy"] == pytest.approx(np.mean(logits.argmax(axis=1) == LABELS[:10]))
    weights = np.arange(10.0)
    loss, _ = model.evaluate(EXAMPLES[:10], LABELS[:10], sample_weight=weights, verbose=0)
    assert loss == pytest.approx(np.mean(weights * losses), rel=1e-6)


@pytest.mark.slow
def test_two_replicas_reach_the_weights_of_one_device(model):
    # 40 examples in batches of 12: 6 for each replica, 2 in the last batch.
    replicated = fitted(mirrored(2))
    np.testing.assert_allclose(helpers.weights(replicated), helpers.weights(model), atol=1e-6)


@pytest.mark.slow
def test_learns_to_choose():
    model = chooser()
    model.compile(optimizer=keras.optimizers.Adam(1e-2))
    model.fit(EXAMPLES, LABELS, batch_size=8, epochs=20, verbose=0)
    # One word decides; chance is one in three.
    assert np.mean(np.array(model.choose(EXAMPLES)) == LABELS) > 0.9


# === Answers ===


def test_probabilities_do_not_depend_on_the_batch(model):
    together = model.predict(EXAMPLES[:9], batch_size=4, verbose=0)
    for example, row in zip(EXAMPLES, together):
        alone = TOKENIZER([(example[0], ending) for ending in example[1]])
        features = {name: feature[None] for name, feature in alone.items()}
        np.testing.assert_allclose(row, softmax(np.asarray(model(features)))[0], atol=1e-6)
        assert row.dtype == "float32" and row.shape == (len(example[1]),)
    assert model.choose(EXAMPLES[:9]) == [row.argmax() for row in together]
    assert model.predict([], verbose=0) == []


def test_features_and_data_sets_of_features(model):
    features = {name: feature.numpy() for name, feature in features_of(range(12)).items()}
    expected = softmax(np.asarray(model(features)))
    is_choice = features["padding_mask"].any(axis=2)
    assert not expected[~is_choice].any() and not is_choice.all()
    labels = np.array(LABELS[:12])
    loss = -np.mean(np.log(expected[np.arange(12), labels]))
    batches = tf.data.Dataset.from_tensor_slices((features, labels)).batch(6)
    for arguments in ((features, labels), (batches,)):
        np.testing.assert_allclose(model.predict(arguments[0], verbose=0), expected, atol=1e-6)
        assert model.evaluate(*arguments, verbose=0)[0] == pytest.approx(loss, abs=1e-6)


# === Errors ===


@pytest.mark.parametrize(
    "examples, message",
    [
        ("a film", "expected a list. Received: str"),
        (["a film"], "example 0 must be a .prompt, endings"),
        ([("a", ["good", "bad"]), ("a", "good")], "example 1 must have a list of two or more"),
        ([("a", ["good"])], "two or more endings"),
        ([("a", ["good", None])], "example 0: a text is missing"),
    ],
)
def test_rejects_invalid_examples(model, examples, message):
    with pytest.raises(InputError, match=message):
        model.predict(examples)


@pytest.mark.parametrize(
    "labels, message",
    [
        ([0, 2], "example 1 has 2 endings, but its 0-based label is 2"),
        ([0, -1], "numbers of the correct endings"),
        ([0, 0.5], "numbers of the correct endings"),
        (["a", "b"], "numbers of the correct endings"),
        ([0], "2 texts, but 1 labels"),
    ],
)
def test_rejects_invalid_labels(model, labels, message):
    with pytest.raises(InputError, match=message):
        model.fit([("a", ["good", "bad"])] * 2, labels, verbose=0)


def test_rejects_strings_in_a_data_set(model):
    data = tf.data.Dataset.from_tensor_slices((["a"], [0])).batch(1)
    with pytest.raises(InputError, match="windows and choices require several"):
        model.fit(data, verbose=0)


def test_needs_the_published_pooler():
    with pytest.raises(InputError, match="use_pooler=True"):
        MultipleChoice(helpers.encoder(use_pooler=False), TOKENIZER)


# === Files ===


def test_keras_file(model, tmp_path):
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == model.get_config()
    features = features_of(range(5))
    np.testing.assert_array_equal(loaded(features), model(features))


def test_from_pretrained_gives_the_same_model(tmp_path):
    model = chooser(head_dropout=0.3)
    model.save_pretrained(tmp_path)
    again = MultipleChoice.from_pretrained(tmp_path)
    np.testing.assert_array_equal(helpers.weights(again), helpers.weights(model))
    assert again.max_length == 16 and again.head_layer.dropout.rate == 0.3
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["BertForMultipleChoice"]


def test_classifier_with_other_classes_gets_a_new_head(tmp_path, caplog):
    classifier = TextClassifier(helpers.encoder(), TOKENIZER, num_classes=3)
    classifier.save_pretrained(tmp_path)
    model = MultipleChoice.from_pretrained(tmp_path)
    assert (
        "has a classifier for 3 classes; a new classifier for 1 classes is initialized"
        in caplog.text
    )
    np.testing.assert_array_equal(
        helpers.weights(model.encoder), helpers.weights(classifier.encoder)
    )


# Stands for the others, whose heads tests/checkpoints/interop compares.
FAST = ("roberta",)
SOME_SLOW = [pytest.param(kind, marks=[] if kind in FAST else [pytest.mark.slow]) for kind in KINDS]
ASKED = [
    ("what film, Zürich 日本", ["a good plot", "isn't it  awful", "dull"]),
    ("the plot", ["very bad", "a joy and great", "not"]),
]


@pytest.mark.parametrize("architecture", SOME_SLOW)
def test_transformers_and_ours_load_each_other(architecture, tmp_path):
    tokenizer = tokenizer_of(architecture, tmp_path)
    model = MultipleChoice(Encoder(config_of(architecture, tokenizer, num_layers=1)), tokenizer)
    randomize(model)
    model.save_pretrained(tmp_path / "ours")
    theirs = transformers.AutoModelForMultipleChoice.from_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer.save_pretrained(tmp_path / "theirs")
    pairs = [(prompt, ending) for prompt, endings in ASKED for ending in endings]
    features = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")(
        *map(list, zip(*pairs)),
        padding=True,
        return_tensors="pt",
        # Theirs for ALBERT returns them only on request.
        return_token_type_ids=model.config.num_segments > 1,
    )
    features = {name: value.reshape(2, 3, -1) for name, value in features.items()}
    with torch.no_grad():
        expected = theirs.double().eval()(**features).logits.numpy()
    rows, _ = model.rows(ASKED)
    logits = np.asarray(model(rows.features(tf.range(2, dtype=tf.int64))))
    # Ours computes in float32, theirs in float64; logits have magnitude 1.
    assert np.abs(logits - expected).max() < 1e-5
    again = MultipleChoice.from_pretrained(tmp_path / "theirs")
    np.testing.assert_array_equal(helpers.weights(again), helpers.weights(model))


def test_chooses_for_one_row_by_name(model):
    endings = ["good", "bad"]
    expected = model.choose(("film", endings))
    assert model.choose({"prompt": "film", "endings": endings}) == expected
    with pytest.raises(InputError, match="Write choose"):
        model.choose("film", endings)
    assert model.label_codec.encode([0.0, 1.0], 2).tolist() == [0, 1]
