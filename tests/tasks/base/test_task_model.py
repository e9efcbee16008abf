"""Behavior common to all task models, tested with a `TextClassifier`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.tasks import TextClassifier
from keras_bert_impl.utils.errors import InputError
from tests.helpers import mirrored
from tests.tasks.helpers import classifier, encoder, examples, tokenizer, weights

TEXTS, LABELS = examples(count=40)


def sgd():
    """Unlike Adam, SGD does not amplify the rounding of float32 sums in another order."""
    return keras.optimizers.SGD(0.05)


def fitted(strategy=None, **fit):
    strategy = strategy or tf.distribute.get_strategy()
    with strategy.scope():
        model = classifier(dropout=0.0)
        model.compile(optimizer=sgd(), seed=7)
    model.fit(TEXTS, LABELS, **{"batch_size": 16, "epochs": 2, "verbose": 0} | fit)
    return model


@pytest.fixture(scope="module")
def model():
    return fitted()


def test_learns_from_raw_strings():
    model = classifier(dropout=0.0)
    model.compile(optimizer=keras.optimizers.Adam(1e-2))
    history = model.fit(TEXTS, LABELS, epochs=15, batch_size=8, verbose=0).history
    # One word decides the label; chance is the fraction of the majority class.
    assert history["accuracy"][-1] > 0.95


@pytest.mark.on_tensorflow
def test_default_compile_warms_up_and_decays_over_the_run():
    model = classifier()
    rates = []
    note = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: rates.append(float(model.optimizer.learning_rate))
    )
    model.fit(TEXTS, LABELS, batch_size=4, epochs=2, callbacks=[note], verbose=0)
    # 20 steps: 2 of warm-up, then 18 of decay to 0.
    expected = [1 / 2, 1] + [1 - step / 18 for step in range(18)]
    np.testing.assert_allclose(rates, 3e-5 * np.array(expected), rtol=1e-6)
    assert model.optimizer.global_clipnorm == 1.0 and model.optimizer.weight_decay == 0.01


def test_compile_overrides_any_part():
    model = classifier()
    model.compile(metrics=[], accumulation_steps=2)
    assert list(model.fit(TEXTS, LABELS, verbose=0).history) == ["loss"]
    assert model.optimizer.weight_decay == 0.01


@pytest.mark.slow
def test_seed_determines_order_and_dropout():
    def run(seed):
        model = classifier()
        model.compile(optimizer=sgd(), seed=seed)
        model.fit(TEXTS, LABELS, batch_size=8, verbose=0)
        return weights(model)

    once = run(1)
    np.testing.assert_array_equal(once, run(1))
    assert np.abs(once - run(2)).max() > 1e-6


@pytest.mark.parametrize("replicas", [2])
def test_replicas_reach_the_same_weights(model, replicas):
    # 40 texts in batches of 16: one batch of each epoch has 8, and it may be any of them.
    replicated = fitted(mirrored(replicas), validation_data=(TEXTS[:7], LABELS[:7]))
    np.testing.assert_allclose(weights(replicated), weights(model), atol=1e-6)
    np.testing.assert_allclose(
        replicated.predict(TEXTS[:9], verbose=0), model.predict(TEXTS[:9], verbose=0), atol=1e-6
    )


@pytest.mark.slow
def test_features_and_data_sets_train_like_texts(model):
    features = {name: np.asarray(f) for name, f in tokenizer()(TEXTS).items()}
    numbers = np.array([int(label == "positive") for label in LABELS])
    of_texts = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(16)
    of_features = tf.data.Dataset.from_tensor_slices((features, numbers)).batch(16)
    expected = weights(fitted(shuffle=False))
    for x, y in ((of_texts, None), (of_features, None), (features, numbers)):
        trained = classifier(dropout=0.0)
        trained.compile(optimizer=sgd(), seed=7)
        size = None if y is None else 16
        trained.fit(x, y, batch_size=size, epochs=2, shuffle=False, verbose=0)
        np.testing.assert_allclose(weights(trained), expected, atol=1e-6)


def test_takes_pairs_in_all_forms(model):
    seconds = TEXTS[::-1]
    expected = model.predict(list(zip(TEXTS, seconds)), verbose=0)
    data = tf.data.Dataset.from_tensor_slices(((TEXTS, seconds),)).batch(8)
    for x in ((TEXTS, seconds), data):
        np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-6)
    assert np.abs(model.predict(TEXTS, verbose=0) - expected).max() > 1e-3


def test_predict_keeps_the_order_at_any_batch_size(model):
    one_by_one = np.concatenate([model.predict([text], verbose=0) for text in TEXTS[:5]])
    whole = model.predict(TEXTS, batch_size=7, verbose=0)
    np.testing.assert_allclose(whole[:5], one_by_one, atol=1e-6)
    assert whole.dtype == np.float32 and whole.shape == (40, 2)
    np.testing.assert_allclose(whole.sum(axis=1), 1, atol=1e-6)
    assert model.predict([], verbose=0).shape == (0, 2)


def test_evaluate_agrees_with_predict(model):
    scores = model.predict(TEXTS, verbose=0)
    numbers = np.array([label == "positive" for label in LABELS], int)
    result = model.evaluate(TEXTS, LABELS, batch_size=7, return_dict=True, verbose=0)
    assert result["accuracy"] == pytest.approx(np.mean(scores.argmax(axis=1) == numbers))
    log_likelihood = np.log(scores[np.arange(40), numbers])
    assert result["loss"] == pytest.approx(-log_likelihood.mean(), abs=1e-5)


def test_validation_equals_evaluate():
    model = classifier()
    model.compile(optimizer=sgd())
    fit = {"epochs": 1, "verbose": 0, "batch_size": 8}
    held_out = model.fit(TEXTS, LABELS, validation_split=0.25, **fit).history
    result = model.evaluate(TEXTS[30:], LABELS[30:], return_dict=True, verbose=0)
    assert held_out["val_loss"][-1] == pytest.approx(result["loss"], abs=1e-6)
    history = model.fit(TEXTS, LABELS, validation_data=(TEXTS[:9], LABELS[:9]), **fit).history
    result = model.evaluate(TEXTS[:9], LABELS[:9], return_dict=True, verbose=0)
    assert history["val_loss"][-1] == pytest.approx(result["loss"], abs=1e-6)


def test_sample_and_class_weights():
    def run(**fit):
        model = classifier(dropout=0.0)
        model.compile(optimizer=sgd())
        model.fit(TEXTS, LABELS, batch_size=8, verbose=0, **fit)
        return weights(model)

    by_class = run(class_weight={0: 1.0, 1: 3.0})
    by_sample = run(sample_weight=[3.0 if label == "positive" else 1.0 for label in LABELS])
    np.testing.assert_allclose(by_class, by_sample, atol=1e-6)
    assert np.abs(by_class - run()).max() > 1e-4


@pytest.mark.slow
def test_steps_per_epoch_continues_where_the_last_epoch_ended():
    whole = fitted(epochs=2, batch_size=8)  # 2 epochs of 5 batches
    cut = fitted(epochs=5, steps_per_epoch=2, batch_size=8)
    np.testing.assert_array_equal(weights(cut), weights(whole))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"x": TEXTS, "y": None}, "labels are missing"),
        ({"x": [], "y": []}, "no texts"),
        ({"x": TEXTS, "y": LABELS[:3]}, "40 texts, but 3 labels"),
        ({"x": TEXTS, "y": LABELS, "sample_weight": [1.0]}, "sample_weight has shape"),
        ({"x": TEXTS, "y": LABELS, "validation_split": 0.99}, "leaves one set empty"),
        ({"x": tf.data.Dataset.from_tensor_slices((TEXTS, LABELS))}, "batches of texts"),
        ({"x": tf.data.Dataset.from_tensor_slices(TEXTS).batch(4)}, "no labels"),
        (
            {"x": tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(4).repeat()},
            "number of batches, which is unknown",
        ),
    ],
)
def test_fit_rejects_invalid_data(arguments, message):
    with pytest.raises(InputError, match=message):
        classifier().fit(**arguments, verbose=0)


def test_predict_rejects_two_strings_that_could_be_text_and_label(model):
    data = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(4)
    with pytest.raises(InputError, match=r"\(\(first, second\),\)"):
        model.predict(data, verbose=0)


def test_rejects_max_length_and_vocabulary_beyond_the_encoder():
    with pytest.raises(InputError, match="max_length must be from 3 to 32"):
        classifier(max_length=64)
    with pytest.raises(InputError, match="embeddings for 10"):
        TextClassifier(encoder(vocabulary_size=10), tokenizer(), num_classes=2)


@pytest.mark.parametrize(
    "problem_type",
    ["single_label_classification", pytest.param("regression", marks=pytest.mark.slow)],
)
def test_keras_file(tmp_path, problem_type):
    labels = ("value",) if problem_type == "regression" else ("negative", "positive")
    model = classifier(labels=labels, problem_type=problem_type, max_length=9, head_dropout=0.3)
    texts, _ = examples(count=5)
    expected = model.predict(texts, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(texts, verbose=0), expected)
    assert loaded.get_config() == model.get_config()
