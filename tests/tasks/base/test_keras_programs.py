"""What programs do with Keras models beyond `fit`: regularizers, copies, features, other floats."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.tasks import (
    FeatureTagger,
    MaskedLM,
    TextClassifier,
    TextEmbedder,
    TokenClassifier,
)
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import GOOD, classifier, encoder, examples, tokenizer

TEXTS, LABELS = examples(count=16)
WORDS = [text.split() for text in TEXTS]
TAGS = [["B-X" if word in GOOD else "O" for word in row] for row in WORDS]
PAIRS, SCORES = list(zip(TEXTS, TEXTS[::-1])), np.linspace(-1, 1, 16)


def tagger(**arguments):
    return TokenClassifier(encoder(dropout=0.0), tokenizer(), labels=["O", "B-X"], **arguments)


def embedder(**arguments):
    return TextEmbedder(encoder(dropout=0.0), tokenizer(), **arguments)


TASKS = {
    "classifier": (lambda: classifier(dropout=0.0), TEXTS, LABELS),
    "tagger": (tagger, WORDS, TAGS),
    "crf": (lambda: tagger(crf=True), WORDS, TAGS),
    "pairs": (embedder, PAIRS, SCORES),
    "in batch": (lambda: embedder(loss="multiple_negatives"), PAIRS, None),
    "masked lm": (lambda: MaskedLM(encoder(dropout=0.0), tokenizer()), TEXTS, None),
}


@pytest.mark.parametrize("task", TASKS)
def test_regularizers_are_part_of_the_loss(task):
    build, x, y = TASKS[task]
    model = build()
    model.compile(keras.optimizers.SGD(0.0), metrics=[])
    before = model.evaluate(x, y, verbose=0)
    model.encoder.embeddings.trainable_variables[0].regularizer = keras.regularizers.L2(1.0)
    added = float(sum(model.losses))
    assert added > 0.01
    model.compile(keras.optimizers.SGD(0.0), metrics=[])
    assert model.evaluate(x, y, verbose=0) - before == pytest.approx(added, rel=1e-3)
    if task != "masked lm":  # whose training draws other masks
        model.compile(keras.optimizers.SGD(0.0), metrics=[], accumulation_steps=3)
        loss = model.fit(x, y, batch_size=16, verbose=0).history["loss"][0]
        assert loss - before == pytest.approx(added, rel=1e-3)


@pytest.mark.parametrize("weight", [-5.0, np.nan, np.inf])
def test_weights_of_data_sets_are_checked(weight):
    model = classifier()
    model.compile("sgd", run_eagerly=True)
    data = tf.data.Dataset.from_tensors((TEXTS[:2], [0, 1], [1.0, weight]))
    for call in (model.fit, model.evaluate):
        with pytest.raises(InputError, match="sample_weight must be from 0 to"):
            call(data, verbose=0)
    assert not np.isnan(model.get_weights()[0]).any()
    assert model.predict(data, verbose=0).shape == (2, 2)  # weights have no meaning there


def test_weights_of_data_sets_may_be_masks_or_none():
    model = classifier(dropout=0.0)
    model.compile("sgd", metrics=[], run_eagerly=True)
    expected = model.evaluate(TEXTS[:1], LABELS[:1], verbose=0)
    numbers = [["negative", "positive"].index(label) for label in LABELS[:2]]
    data = tf.data.Dataset.from_tensors((TEXTS[:2], numbers))
    masked = data.map(lambda x, y: (x, y, tf.constant([True, False])))
    assert model.evaluate(masked, verbose=0) == pytest.approx(expected / 2, rel=1e-5)
    without = data.map(lambda x, y: (x, y, None))
    assert model.evaluate(without, verbose=0) == model.evaluate(data, verbose=0)


@pytest.mark.parametrize(
    "build",
    [
        classifier,
        tagger,
        lambda: FeatureTagger(
            encoder(), tokenizer(), labels=["O", "X"], features="mix", lstm_dim=8
        ),
        lambda: TextClassifier(encoder(), tokenizer(), num_classes=2, long_texts="mean"),
    ],
)
def test_models_can_be_cloned(build):
    model = build()
    clone = keras.models.clone_model(model)
    shapes = [[w.shape for w in network.trainable_weights] for network in (model, clone)]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize(
    "build", [lambda: MaskedLM(encoder(), tokenizer()), lambda: embedder(num_layers=2)]
)
def test_models_with_shared_parts_say_how_to_copy_them(build):
    with pytest.raises(InputError, match=r"Write copy.deepcopy\(model\)"):
        keras.models.clone_model(build())


def test_ragged_features_are_refused():
    ragged = {"token_ids": tokenizer().tokenize(TEXTS[:2])}
    model = classifier()
    model.compile("sgd")
    data = tf.data.Dataset.from_tensors((ragged, [0, 1]))
    for call in (
        lambda: model.predict(ragged, verbose=0),
        lambda: model(ragged),
        lambda: model.encoder(ragged),
        lambda: model.fit(data, verbose=0),
    ):
        with pytest.raises(InputError, match="(?i)pad the"):
            call()


@pytest.mark.parametrize("floatx", ["float64", "bfloat16"])
def test_trains_whatever_keras_floats_are(floatx):
    expected = classifier(dropout=0.0).evaluate(TEXTS, LABELS, verbose=0)[0]
    keras.config.set_floatx(floatx)
    try:
        model = classifier(dtype="float32", dropout=0.0)
        model.compile(keras.optimizers.SGD(0.0), metrics=[], run_eagerly=True)
        loss = float(model.fit(TEXTS, LABELS, verbose=0).history["loss"][0])
    finally:
        keras.config.set_floatx("float32")
    # Keras averages the losses of batches in these floats.
    assert loss == pytest.approx(expected, rel=1e-4 if floatx == "float64" else 2**-7)


# === Settings ===


@pytest.mark.parametrize(
    "arguments",
    [
        {"steps_per_execution": 0},
        {"steps_per_execution": 2.5},
        {"run_eagerly": "no"},
        {"jit_compile": "yes"},
        {"auto_scale_loss": 3},
    ],
)
def test_settings_of_keras_are_checked(arguments):
    (name,) = arguments
    with pytest.raises(InputError, match=f"{name} must be"):
        classifier().compile(keras.optimizers.SGD(0.1), **arguments)


@pytest.mark.parametrize("weight", [10**400, 1e38, -1.0])
def test_weights_that_would_overflow_are_rejected(weight):
    model = classifier()
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    with pytest.raises(InputError, match="class_weight of 0 must be from 0 to 1e.09"):
        model.fit(TEXTS, LABELS, class_weight={0: weight}, verbose=0)
    with pytest.raises(InputError, match="sample_weight"):
        model.fit(TEXTS, LABELS, sample_weight=[weight] * 16, verbose=0)


def test_class_weight_0_leaves_a_class_out():
    model = classifier(dropout=0.0)
    model.compile(keras.optimizers.SGD(0.0), metrics=[], run_eagerly=True)
    loss = model.fit(TEXTS, LABELS, class_weight={"negative": 0}, verbose=0).history["loss"][0]
    weights = [float(label == "positive") for label in LABELS]
    assert loss == pytest.approx(model.evaluate(TEXTS, LABELS, sample_weight=weights, verbose=0))


def test_an_optimizer_of_other_weights_is_rejected():
    model, optimizer = classifier(), keras.optimizers.SGD(0.1)
    model.encoder.blocks[0].trainable = False
    model.compile(optimizer, metrics=[], run_eagerly=True)
    model.fit(TEXTS[:2], LABELS[:2], verbose=0)
    model.encoder.blocks[0].trainable = True
    with pytest.raises(InputError, match=r"a new optimizer: compile\(optimizer=SGD\(...\)\)"):
        model.compile(optimizer)
    model.compile(keras.optimizers.SGD(0.1), metrics=[], run_eagerly=True)
    assert model.fit(TEXTS[:2], LABELS[:2], verbose=0).history["loss"]


# === Strings in graphs ===


@pytest.mark.on_tensorflow
def test_models_take_strings_in_graphs():
    model, texts = classifier(dropout=0.0), tf.constant(TEXTS[:3])
    expected = np.asarray(model(texts))
    np.testing.assert_allclose(tf.function(model)(texts), expected, atol=1e-5)
    (mapped,) = tf.data.Dataset.from_tensors(texts).map(model)
    np.testing.assert_allclose(mapped, expected, atol=1e-5)
    pairs = texts, texts[::-1]
    np.testing.assert_allclose(tf.function(model)(pairs), model(pairs), atol=1e-5)


def test_a_string_input_is_rejected_with_the_line_to_write():
    symbol = keras.Input((), dtype="string")
    with pytest.raises(InputError, match=r"features = model.tokenizer\(texts, length=32\)"):
        classifier()(symbol)
    with pytest.raises(InputError, match=r"dataset.map\(lambda texts: tokenizer\(texts, length"):
        tokenizer()(symbol)
    with pytest.raises(
        Exception, match="InputError: the model cannot tokenize strings in this graph"
    ):
        tf.function(tagger())(tf.constant(TEXTS[:3]))


def test_encoders_with_names_stand_in_one_functional_model(tmp_path):
    encoder().save_pretrained(tmp_path)
    first, second = (Encoder.from_pretrained(tmp_path, name=name) for name in ("first", "second"))
    inputs = keras.Input((4,), dtype="int32")
    pooled = [layer({"token_ids": inputs})["pooled_output"] for layer in (first, second)]
    model = keras.Model(inputs, keras.layers.Subtract()(pooled))
    assert not np.asarray(model(np.full((2, 4), 5))).any()
