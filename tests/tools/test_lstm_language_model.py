"""tools/bench/lstm_language_model.py: what its states and predictions see."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.tasks.helpers import examples, tokenizer


@pytest.fixture(scope="module")
def bench(bench):
    return bench("lstm_language_model")


@pytest.fixture(scope="module")
def model(bench):
    keras.utils.set_random_seed(0)
    return bench.language_model(20, 8, 3)


def outputs(model, ids, mask=(1, 1, 1, 1, 0)):
    return model({"token_ids": np.array([ids]), "padding_mask": np.array([mask])})


def test_each_direction_predicts_from_one_side(model):
    before = outputs(model, [2, 5, 6, 3, 0])
    for place in range(4):
        ids = [2, 5, 6, 3, 0]
        ids[place] = 9
        after = outputs(model, ids)
        changed = {
            name: np.any(np.not_equal(before[name], after[name]), axis=-1)[0, :4]
            for name in ("next", "previous", "states")
        }
        positions = np.arange(4)
        np.testing.assert_array_equal(changed["next"], positions >= place)
        np.testing.assert_array_equal(changed["previous"], positions <= place)
        assert changed["states"].all()
    padded = outputs(model, [2, 5, 6, 3, 9])["states"]
    np.testing.assert_array_equal(padded[:, :4], before["states"][:, :4])


def test_labels_are_the_neighbors_within_an_example(bench):
    features = {"token_ids": [[2, 5, 3, 2, 6, 3, 0]], "example_ids": [[1, 1, 1, 2, 2, 2, 0]]}
    features = {name: tf.constant(values) for name, values in features.items()}
    following = tf.constant([[5, 3, 0, 6, 3, 0, 0]])
    weights = tf.constant([[1.0, 1, 0, 1, 1, 0, 0]])
    inputs, labels, weights = bench.batch_of(
        features, {"left_to_right": following}, {"left_to_right": weights}
    )
    np.testing.assert_array_equal(inputs["padding_mask"], [[1, 1, 1, 1, 1, 1, 0]])
    np.testing.assert_array_equal(weights["previous"], [[0, 1, 1, 0, 1, 1, 0]])
    previous = labels["previous"].numpy()[0]
    assert [previous[n] for n in (1, 2, 4, 5)] == [2, 5, 2, 6]


def test_weights_are_counted(bench, model):
    assert model.count_params() - 20 * 8 <= 2000
    units = bench.units_of(8, model.count_params() - 20 * 8)
    assert units == 3  # the size of the model
    assert bench.units_of(8, model.count_params() - 20 * 8 - 1) == 2


def test_a_tagger_trains_the_language_model(bench, model):
    tagger = bench.tagger(model, tokenizer(), labels=["a", "b"], max_length=12)
    texts = [text.split() for text in examples(16)[0]]
    labels = [["a" if word < "g" else "b" for word in text] for text in texts]
    before = [weight.copy() for weight in model.get_weights()]
    tagger.compile(keras.optimizers.Adam(0.01), metrics=[])
    tagger.fit(texts, labels, batch_size=8, epochs=1, verbose=0)
    moved = [np.any(old != new) for old, new in zip(before, model.get_weights(), strict=True)]
    lstms = ["lstm" in weight.path for weight in model.weights]
    assert all(is_moved for is_moved, is_lstm in zip(moved, lstms, strict=True) if is_lstm)
