"""How steps are executed: compiled, traced for a TPU, several at a time, to the end of the data."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.utils.errors import InputError
from tests.helpers import mirrored
from tests.training.helpers import (
    ROUNDING,
    Classifier,
    adamw,
    build,
    cross_entropy,
    dataset,
    distance,
    examples,
    result_of,
    sgd,
    start,
    train,
)


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_jit_compile_changes_nothing(replicas):
    data = dataset(16, 32)
    plain, _ = train(1, data=data)
    compiled, _ = train(replicas, data=data, jit_compile=True, accumulation_steps=2)
    assert distance(plain, compiled) < ROUNDING


def encoder_classifier():
    keras.utils.set_random_seed(0)
    config = EncoderConfig(40, 16, 1, 2, 32, max_length=8, dropout=0.0, attention_dropout=0.0)
    names = ("token_ids", "padding_mask")
    inputs = {name: keras.Input((8,), dtype="int32", name=name) for name in names}
    model = Classifier(inputs, keras.layers.Dense(3)(Encoder(config)(inputs)["pooled_output"]))
    model.compile(adamw(), loss=cross_entropy(), jit_compile=False, accumulation_steps=2)
    return model


@pytest.mark.slow
def test_xla_compiles_the_whole_step_of_an_encoder():
    data = dataset(16, 16, Classifier, drop_remainder=True)
    plain, whole = encoder_classifier(), encoder_classifier()
    plain.fit(data, verbose=0)
    whole.optimizer.build(whole.trainable_variables)
    step = tf.function(whole.train_step, jit_compile=True, autograph=False)
    step(next(iter(data)))
    assert distance(plain, whole) < ROUNDING


@pytest.fixture(scope="module")
def operations_on_tpu():
    return result_of(start("trace_on_tpu.py", 1, 2))


@pytest.mark.parametrize("accumulation_steps", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_step_traces_under_tpu_strategy(operations_on_tpu, accumulation_steps):
    operations = operations_on_tpu[str(accumulation_steps)]
    # One sum for each of 15 gradients, one for the loss, one each for the numbers of masked tokens and
    # of rows. A second reduction of the gradients would double them.
    assert operations["CrossReplicaSum"] == 18
    assert operations["TPUReplicateMetadata"] == 1
    assert operations.get("While", 0) == accumulation_steps - 1
    assert not {"If", "StatelessIf", "PyFunc", "EagerPyFunc", "Assert", "Print"} & set(operations)
    words = ("Ragged", "String", "Unique", "Where", "Host", "Collective")
    assert not [name for name in operations if any(word in name for word in words)]


@pytest.fixture(scope="module")
def loss_of_known_length():
    return train(data=dataset(8, drop_remainder=True))[1]["loss"]


@pytest.mark.parametrize("replicas", [1, 2])
def test_end_of_data_of_unknown_length_is_not_a_step(loss_of_known_length, replicas):
    # Counts of rows and steps need no data, so they must not advance after its end.
    sized = dataset(8, drop_remainder=True)
    unsized = sized.filter(lambda x, y: True)
    model, history = train(replicas, data=unsized)
    assert int(model.optimizer.iterations.numpy()) == 2 * 6
    np.testing.assert_allclose(history["loss"], loss_of_known_length, rtol=1e-6)
    np.testing.assert_allclose(
        model.evaluate(unsized, verbose=0), model.evaluate(sized, verbose=0), rtol=1e-6
    )


def test_strings_train_under_a_strategy():
    with mirrored(2).scope():
        texts = keras.Input((), dtype="string")
        lengths = keras.layers.Lambda(
            lambda text: tf.cast(tf.strings.length(text), "float32")[:, None], output_shape=(1,)
        )
        model = Classifier(texts, keras.layers.Dense(3)(lengths(texts)))
        model.compile(keras.optimizers.SGD(0.1), loss=cross_entropy(), jit_compile=False)
    data = tf.data.Dataset.from_tensor_slices((["a", "bb", "ccc"], [0, 1, 2])).batch(3)
    history = model.fit(data, verbose=0).history
    assert np.isfinite(history["loss"][0])


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_executions_stay_within_their_epoch(replicas):
    """Three steps per epoch, two per execution: the second execution of each epoch has one."""
    data = dataset(8, 48, Classifier)
    plain, _ = train(replicas, Classifier, data.take(3), epochs=1, optimizer=sgd)
    with mirrored(replicas).scope():
        model = build(Classifier)
        model.compile(sgd(), loss=cross_entropy(), steps_per_execution=2, jit_compile=False)
    ends = []

    class Watch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            ends.append((int(self.model.optimizer.iterations.numpy()), distance(model, plain)))

    model.fit(data.repeat(), steps_per_epoch=3, epochs=2, verbose=0, callbacks=[Watch()])
    assert [steps for steps, _ in ends] == [3, 6]
    assert ends[0][1] < ROUNDING
    # Evaluation too, and then calls without a number of steps.
    rows, labels = examples(48, Classifier)
    first = {name: feature[:24] for name, feature in rows.items()}, labels[:24]
    expected = model.evaluate(*first, batch_size=24, verbose=0)
    assert model.evaluate(data.repeat(), steps=3, verbose=0) == pytest.approx(expected, rel=1e-6)
    model.fit(data, verbose=0)
    assert int(model.optimizer.iterations.numpy()) == 12


def test_xla_reports_batches_it_cannot_accumulate():
    with pytest.raises(InputError, match="must be a multiple of accumulation_steps=4"):
        train(1, data=dataset(8, 10), accumulation_steps=4, jit_compile=True, epochs=1)


@pytest.mark.slow
def test_rejects_a_static_batch_not_divisible_by_accumulation():
    with pytest.raises(
        InputError, match="multiple of accumulation_steps=3. Received: a batch of 16"
    ):
        train(1, data=dataset(16, 16, drop_remainder=True), accumulation_steps=3)


def test_train_on_batch():
    model = build(Classifier)
    model.compile(sgd(), loss=cross_entropy(), jit_compile=False)
    features, labels = examples(16, Classifier)
    trained, _ = train(1, Classifier, dataset(16, 16, Classifier), epochs=1, optimizer=sgd)
    model.train_on_batch(features, labels)
    assert distance(model, trained) < ROUNDING
