"""The data that reaches `keras.Model.fit`, as loggers that wrap it see it."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.tasks import MaskedLM
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import classifier, encoder, examples, tokenizer

TEXTS, LABELS = examples(count=20)


class Endless(keras.utils.PyDataset):
    num_batches = None

    def __getitem__(self, number):
        return TEXTS[:4], LABELS[:4]


def batches():
    return ((TEXTS[i : i + 4], LABELS[i : i + 4]) for i in itertools.cycle(range(0, 20, 4)))


@pytest.fixture
def looked_at(monkeypatch):
    """Lets a logger iterate over the data of each `fit`; yields the list of its batch counts."""
    counts, fit = [], keras.Model.fit

    def patched(model, *args, **kwargs):
        for data in (args[0] if args else kwargs["x"], kwargs["validation_data"]):
            # More than any epoch here, less than forever.
            counts.append(data and sum(1 for _ in itertools.islice(iter(data), 1000)))
        return fit(model, *args, **kwargs)

    monkeypatch.setattr(keras.Model, "fit", patched)
    return counts


def trained(x=TEXTS, y=LABELS, **arguments):
    model = classifier(dropout=0.0)
    model.compile(keras.optimizers.SGD(0.5), metrics=[])
    history = model.fit(x, y, batch_size=4, epochs=2, verbose=0, **arguments).history
    return model, history["loss"]


@pytest.mark.parametrize(
    "arguments, counts",
    [
        ({}, [5, None]),
        ({"validation_data": (TEXTS[:8], LABELS[:8])}, [5, 2]),
        ({"steps_per_epoch": 3}, [3, None]),
        ({"steps_per_epoch": 7}, [7, None]),
        ({"x": batches, "y": None, "steps_per_epoch": 3}, [1, None]),
        ({"validation_data": batches, "validation_steps": 2}, [5, 1]),
    ],
)
def test_loggers_see_finite_data_and_change_nothing(looked_at, monkeypatch, arguments, counts):
    def given():
        return {name: value() if callable(value) else value for name, value in arguments.items()}

    model, losses = trained(**given())
    assert looked_at == counts
    monkeypatch.undo()
    alone, expected = trained(**given())
    np.testing.assert_array_equal(losses, expected)
    for weight, weight_alone in zip(model.get_weights(), alone.get_weights()):
        np.testing.assert_array_equal(weight, weight_alone)


def test_callbacks_know_the_number_of_steps():
    counts = []

    class Watch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            counts.append((self.params["steps"], self.params["epochs"]))

    trained(callbacks=[Watch()])
    assert counts == [(5, 2)] * 2


def test_masks_are_other_ones_in_each_epoch(looked_at):
    losses = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            losses.append(logs["loss"])

    model = MaskedLM(encoder(dropout=0.0), tokenizer())
    model.compile(AdamW(0.0), metrics=[])
    model.fit(TEXTS, batch_size=20, epochs=3, verbose=0, callbacks=[Watch()])
    assert looked_at == [1, None] and len(set(losses)) == 3


@pytest.mark.parametrize("data", [batches, lambda: Endless(), None])
def test_endless_data_to_evaluate_on_needs_steps(data):
    model = classifier()
    model.compile(keras.optimizers.SGD(0.1), metrics=[], run_eagerly=True)
    repeated = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(4).repeat()
    endless = data() if data else repeated
    with pytest.raises(InputError, match="infinitely many batches. Pass validation_steps="):
        model.fit(TEXTS, LABELS, validation_data=endless, verbose=0)
    if data is not batches:  # a generator that ends may be evaluated
        with pytest.raises(InputError, match="infinitely many batches. Pass steps="):
            model.evaluate(endless, verbose=0)
        with pytest.raises(InputError, match="infinitely many batches. Pass steps="):
            model.predict(endless, verbose=0)
    assert model.evaluate(data() if data else repeated, steps=1, verbose=0) > 0
