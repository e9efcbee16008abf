"""`predict` of few texts needs no data set, of many no second trace, and gives the same scores."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.batches import batching
from keras_bert_impl.tasks.base import fitting, user_data
from tests.tasks.helpers import classifier, examples

TEXTS, _ = examples(count=40)
ON_TENSORFLOW = keras.backend.backend() == "tensorflow"


@pytest.fixture
def many_shapes(monkeypatch):
    """Every length is a batch of its own."""
    monkeypatch.setattr(batching, "_TOKENS_OF_A_BATCH", 0)


def test_few_texts_get_the_scores_of_many(many_shapes):
    model = classifier()
    many = model.predict(TEXTS, batch_size=7, verbose=0)
    few = model.predict(TEXTS, batch_size=len(TEXTS), verbose=0)
    alone = [model.predict(text, verbose=0)[0] for text in TEXTS[:5]]
    np.testing.assert_allclose(few, many, atol=1e-6)
    np.testing.assert_allclose(alone, many[:5], atol=1e-6)


def test_few_texts_need_no_data_set(monkeypatch):
    model = classifier()
    expected = model.predict(TEXTS, batch_size=7, verbose=0)
    features = model.tokenizer(TEXTS[:3], length=16)
    monkeypatch.setattr(fitting, "sorted_batches", None)
    np.testing.assert_allclose(model.predict(TEXTS, batch_size=40, verbose=0), expected, atol=1e-6)
    scores = model.predict(features, verbose=0)
    np.testing.assert_allclose(scores, expected[:3], atol=1e-6)
    np.testing.assert_allclose(model.predict_on_batch(TEXTS[:3]), expected[:3], atol=1e-6)
    pairs = TEXTS[:5], TEXTS[5:10]
    np.testing.assert_allclose(
        model.predict_on_batch(pairs), model.predict([*zip(*pairs)], verbose=0), atol=1e-6
    )


@pytest.mark.skipif(not ON_TENSORFLOW, reason="JAX compiles each shape")
@pytest.mark.parametrize("batch_size", [7, 40])
def test_all_shapes_share_a_trace(many_shapes, batch_size):
    model = classifier()
    for _ in range(2):
        model.predict(TEXTS, batch_size=batch_size, verbose=0)
    assert model.predict_function.experimental_get_tracing_count() == 1
    model.predict("good", verbose=0)
    assert model.predict_function.experimental_get_tracing_count() == 1


def test_callbacks_see_the_batches_of_few_texts():
    batch_numbers = []
    callback = keras.callbacks.LambdaCallback()
    callback.on_predict_batch_end = lambda batch, logs=None: batch_numbers.append(batch)
    classifier().predict(TEXTS[:3], callbacks=[callback], verbose=0)
    assert batch_numbers == [0]


def test_an_unknown_argument_is_refused_for_few_texts_as_for_many():
    for batch_size in (2, 8):
        with pytest.raises(TypeError, match="unexpected keyword argument 'workers'"):
            classifier().predict(TEXTS[:3], batch_size=batch_size, workers=2, verbose=0)


def test_few_texts_show_progress(capsys):
    classifier().predict(TEXTS[:3], verbose=1)
    assert "1/1" in capsys.readouterr().out


@pytest.mark.skipif(not ON_TENSORFLOW, reason="JAX compiles each shape")
def test_evaluation_cuts_batches_short_unless_the_loss_compares_their_examples(many_shapes):
    model = classifier()
    data = user_data.CheckedExamples(TEXTS, np.zeros(len(TEXTS), "int32"))

    def sizes():
        batches = data.for_evaluation(model, 16)
        return [tf.shape(labels)[0].numpy() for _, labels in batches]

    assert max(sizes()) <= 16 and len(sizes()) > 3
    model.compares_examples = True
    assert sizes() == [16, 16, 8]
