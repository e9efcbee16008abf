import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_bert_impl.layers.basic import Dropout
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.utils.errors import InputError
from tests.helpers import mirrored
from tests.training import work
from tests.training.helpers import (
    ROOT,
    ROUNDING,
    Classifier,
    MaskedTokenModel,
    adamw,
    build,
    cross_entropy,
    dataset,
    distance,
    examples,
    last_json,
    run_workers,
    sgd,
    train,
    weights,
)

# Batches of 16, 16 and 9; the last one is split into 5 + 4 or 3 + 3 + 3 + 0.
UNEVEN = {"batch_size": 16, "count": 41}


@pytest.fixture(scope="module")
def reference():
    """One device, no accumulation, one step per execution."""
    return train(data=dataset(**UNEVEN))


@pytest.mark.parametrize("replicas", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_replicas_reach_the_weights_of_one_device(reference, replicas):
    model, history = train(replicas, data=dataset(**UNEVEN))
    assert int(model.optimizer.iterations.numpy()) == 6
    assert distance(model, reference[0]) < ROUNDING
    np.testing.assert_allclose(history["loss"], reference[1]["loss"], rtol=1e-6)


@pytest.mark.slow
def test_moving_average_of_weights():
    """`fit` ends with the averages, recomputed here from Adam's steps, as the model's weights."""
    momentum = 0.7
    path = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            path.append(weights(self.model))

    def averaging():
        return adamw(use_ema=True, ema_momentum=momentum)

    model, _ = train(optimizer=averaging, callbacks=[Watch()])
    average = path[0]
    for values in path[1:]:
        average = [momentum * a + (1 - momentum) * v for a, v in zip(average, values)]
    for mine, expected in zip(weights(model), average, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=0, atol=ROUNDING)
    assert distance(train(2, optimizer=averaging)[0], model) < ROUNDING


@pytest.mark.parametrize("replicas", [1, 2, pytest.param(4, marks=pytest.mark.slow)])
def test_accumulation_in_executions_of_several_steps(reference, replicas):
    # Each of four replicas splits its 4 rows into 2 + 2 + 0; executions have 2 steps, then 1.
    model, history = train(
        replicas, data=dataset(**UNEVEN), accumulation_steps=3, steps_per_execution=2
    )
    assert int(model.optimizer.iterations.numpy()) == 6
    assert distance(model, reference[0]) < ROUNDING
    np.testing.assert_allclose(history["loss"], reference[1]["loss"], rtol=1e-6)


def train_in_bfloat16(replicas):
    model = {"dtype": "mixed_bfloat16"}
    return train(replicas, model=model, optimizer=sgd, data=dataset(**UNEVEN))[0]


@pytest.fixture(scope="module")
def one_in_bfloat16():
    return train_in_bfloat16(1)


@pytest.mark.parametrize("replicas", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_bfloat16(one_in_bfloat16, replicas):
    # A gradient of up to 0.05 (the clip) is a sum of bfloat16 parts, each accurate to 2**-9: 1e-4,
    # times the rate of 0.5, in each of 6 steps. Unclipped or summed twice it would be off by 0.05.
    assert distance(one_in_bfloat16, train_in_bfloat16(replicas)) < 3e-4


@pytest.mark.slow
def test_keras_loss_metrics_and_evaluation_of_uneven_batches():
    results = []
    for replicas in (1, 4):
        data = dataset(kind=Classifier, **UNEVEN)
        model, history = train(replicas, Classifier, data, metrics=["accuracy"], optimizer=sgd)
        features, labels = examples(41, Classifier)
        predictions = model.predict(features, batch_size=16, verbose=0)
        results.append((model, history, model.evaluate(data, verbose=0), predictions))
        # The mean over all examples, each counted once, equals that of `predict`.
        loss, accuracy = results[-1][2]
        losses = keras.losses.sparse_categorical_crossentropy(labels, predictions, from_logits=True)
        assert loss == pytest.approx(float(np.mean(losses)), rel=1e-6)
        assert accuracy == pytest.approx(float(np.mean(predictions.argmax(-1) == labels)))
    for model, history, evaluation, predictions in results[1:]:
        assert distance(model, results[0][0]) < ROUNDING
        np.testing.assert_allclose(history["loss"], results[0][1]["loss"], rtol=1e-6)
        np.testing.assert_allclose(history["accuracy"], results[0][1]["accuracy"], rtol=1e-6)
        np.testing.assert_allclose(evaluation, results[0][2], rtol=1e-6)
        np.testing.assert_allclose(predictions, results[0][3], atol=1e-5)


def test_one_device_equals_keras():
    class Stock(keras.Model):
        pass

    def optimizer():  # no clipping: Keras computes the norm of an embedding's IndexedSlices wrongly
        return keras.optimizers.SGD(0.5)

    data = dataset(kind=Classifier, **UNEVEN)
    model, history = train(1, Classifier, data, optimizer=optimizer)
    stock = build(Classifier)
    stock = Stock(stock.inputs, stock.outputs[0])
    stock.compile(optimizer=optimizer(), loss=cross_entropy(), jit_compile=False)
    stock_history = stock.fit(data, epochs=2, verbose=0).history
    assert distance(model, stock) < ROUNDING
    np.testing.assert_allclose(history["loss"], stock_history["loss"], rtol=1e-6)


class MeanSquare(keras.layers.Layer):
    def call(self, inputs):
        self.add_loss(0.1 * ops.mean(ops.square(inputs)))
        return inputs


def test_sample_weights_and_add_loss():
    features = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
    labels, sample_weight = np.arange(32) % 3, np.linspace(0, 2, 32).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((features, labels, sample_weight)).batch(12)
    trained = []
    for replicas, accumulation_steps in ((1, 1), (2, 2)):
        with mirrored(replicas).scope():
            keras.utils.set_random_seed(0)
            inputs = keras.Input((4,))
            model = Classifier(inputs, MeanSquare()(keras.layers.Dense(3)(inputs)))
            model.compile(
                keras.optimizers.SGD(0.5),
                loss=cross_entropy(),
                accumulation_steps=accumulation_steps,
                jit_compile=False,
            )
        model.fit(data, epochs=2, verbose=0)
        trained.append(model)
    assert distance(*trained) < ROUNDING


@pytest.mark.parametrize("clip", ["clipnorm", "global_clipnorm", "clipvalue"])
def test_clips_the_reduced_gradient(clip):
    def clipped():
        return keras.optimizers.SGD(1.0, **{clip: 1e-3})

    data = dataset(kind=Classifier, batch_size=16, count=16)
    single, _ = train(1, Classifier, data, epochs=1, optimizer=clipped)
    two, _ = train(2, Classifier, data, epochs=1, optimizer=clipped)
    assert distance(single, two) < 1.2e-7  # weights near 1 are rounded by 2**-24, twice
    # The clip is active: the largest change equals the clip value, or is below it for clipped
    # norms.
    assert 1e-5 < distance(single, build(Classifier)) <= 1.001e-3


class Overflows(MaskedTokenModel):
    """Returns an infinite loss on the last replica in the third step."""

    def loss_share(self, *arguments):
        context = tf.distribute.get_replica_context()
        last = tf.equal(context.replica_id_in_sync_group, context.num_replicas_in_sync - 1)
        third = tf.equal(self.calls, 2) & last
        share = super().loss_share(*arguments)
        self.calls.assign_add(1)
        return share * tf.where(third, np.inf, 1.0)


def test_loss_scaling_skips_a_step_that_overflows_on_another_replica():
    with mirrored(2).scope():
        model = build(Overflows)
        model.calls = keras.Variable(0, trainable=False, dtype="int32", aggregation="none")
        inner = keras.optimizers.SGD(0.1)
        model.compile(keras.optimizers.LossScaleOptimizer(inner), jit_compile=False)
    model.fit(dataset(16, 80), verbose=0)
    assert all(np.isfinite(array).all() for array in weights(model))
    assert int(model.optimizer.iterations.numpy()) == 4
    assert float(model.optimizer.dynamic_scale.numpy()) == 2.0**14


def dropped(replicas, seed, steps_before=0, accumulation_steps=1):
    """Returns the units that each row of a batch of 8 keeps in one training step, [8, 64]."""
    units = []
    with mirrored(replicas).scope():
        inputs = keras.Input((64,))
        outputs = keras.layers.Dense(1, use_bias=False)(Dropout(0.5, name="dropout")(inputs))
        model = Classifier(inputs, outputs)
        model.compile(
            keras.optimizers.SGD(1.0),
            loss="mean_absolute_error",
            dropout_seed=seed,
            accumulation_steps=accumulation_steps,
            jit_compile=False,
        )
        model.optimizer.iterations.assign(steps_before)
    for row in range(8):
        # The gradient of |w x - 1e6| is -dropout(x), so one row at a time reveals the units kept.
        model.set_weights([np.zeros((64, 1), "float32")])
        model.optimizer.iterations.assign(steps_before)
        features = np.eye(8, dtype="float32")[row][:, None] * np.ones((8, 64), "float32")
        data = tf.data.Dataset.from_tensor_slices((features, np.full((8, 1), 1e6))).batch(8)
        model.fit(data, verbose=0)
        units.append(model.get_weights()[0][:, 0] > 0)
    return np.array(units)


def test_replicas_and_micro_batches_drop_different_units():
    by_replica = dropped(2, seed=1)
    assert by_replica.mean() == pytest.approx(0.5, abs=0.1)  # 4.5 deviations of 512 draws
    # If the seed did not depend on the replica, the second half would repeat the first.
    assert (by_replica[:4] != by_replica[4:]).mean() > 0.3
    by_micro_batch = dropped(1, seed=1, accumulation_steps=2)
    assert (by_micro_batch[:4] != by_micro_batch[4:]).mean() > 0.3


def test_seed_and_step_determine_the_dropped_units():
    first = dropped(1, seed=1, steps_before=5)
    np.testing.assert_array_equal(dropped(1, seed=1, steps_before=5), first)
    assert (dropped(1, seed=1, steps_before=6) != first).mean() > 0.3
    assert (dropped(1, seed=2, steps_before=5) != first).mean() > 0.3


@pytest.mark.slow
def test_two_worker_processes_agree_with_one(tmp_path):
    script = ROOT / "tests" / "training" / "work.py"
    chief, worker = map(last_json, run_workers(script, tmp_path / "two", "auto"))
    single = work.run(tmp_path / "one", "one_device")
    assert [chief["replicas"], worker["replicas"], single["replicas"]] == [2, 2, 1]
    assert [chief["chief"], worker["chief"]] == [True, False]
    for result in (chief, worker):
        assert result["evaluation"] == pytest.approx(single["evaluation"], rel=1e-6)
        for name, values in single["history"].items():
            np.testing.assert_allclose(result["history"][name], values, rtol=1e-6)
        np.testing.assert_allclose(result["predictions"], single["predictions"], atol=1e-5)
        for mine, expected in zip(result["weights"], single["weights"], strict=True):
            np.testing.assert_allclose(mine, expected, rtol=0, atol=ROUNDING)
    saved = {name: sorted(p.name for p in (tmp_path / name).iterdir()) for name in ("one", "two")}
    assert saved["two"] == saved["one"]


def test_keras_still_has_the_reduction_hook():
    """`compile` overrides this private method; otherwise gradients would be reduced twice."""
    with mirrored(2).scope():
        optimizer = AdamW(1e-3)
        assert callable(type(optimizer)._all_reduce_sum_gradients)
        assert "_all_reduce_sum_gradients" in type(optimizer)._backend_update_step.__code__.co_names


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"accumulation_steps": 0}, "accumulation_steps must be a positive integer"),
        ({"loss": cross_entropy(reduction="sum")}, "reduction 'sum'; only a mean over examples"),
        (
            {"optimizer": keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)},
            "use compile",
        ),
    ],
)
def test_compile_rejects_invalid_options(settings, message):
    with pytest.raises(InputError, match=message):
        build(Classifier).compile(**({"optimizer": "sgd", "loss": cross_entropy()} | settings))


def test_rejects_an_optimizer_of_another_strategy():
    optimizer = keras.optimizers.SGD(0.1)
    with mirrored(2).scope():
        model = build(Classifier)
    with pytest.raises(InputError, match="inside the strategy.scope"):
        model.compile(optimizer=optimizer, loss=cross_entropy())


@pytest.mark.parametrize("settings", [{"accumulation_steps": 3}, {"steps_per_execution": 2}])
def test_eager_steps_with_an_odd_last_batch(reference, settings):
    data = dataset(batch_size=8, count=26)  # the last batch has 2 rows, fewer than micro-batches
    graph, _ = train(data=data, epochs=1, **settings)
    eager, _ = train(data=data, epochs=1, run_eagerly=True, **settings)
    assert distance(graph, eager) < ROUNDING


@pytest.mark.parametrize("optimizer", [AdamW, keras.optimizers.Adam])
def test_each_trainable_variable_keeps_its_own_average(optimizer):
    """Keras pairs weights and averages by position, even if some were frozen in between."""
    model = build(Classifier)
    model.compile(optimizer(1e-2, use_ema=True), loss=cross_entropy(), jit_compile=False)
    averages = {}

    class Freeze(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            self.model.layers[-1].kernel.trainable = False
            self.model.get_layer("token_embeddings").trainable = False
            self.model.make_train_function(force=True)

        def on_epoch_end(self, epoch, logs=None):
            of_optimizer = self.model.optimizer
            for variable in self.model.trainable_variables:
                index = of_optimizer._get_variable_index(variable)
                average = of_optimizer._model_variables_moving_average[index]
                averages[variable.path] = average.numpy()

    before = {variable.path: variable.numpy() for variable in model.variables}
    model.fit(dataset(kind=Classifier), verbose=0, callbacks=[Freeze()])
    assert len(averages) == len(before) - 2
    for variable in model.weights:
        expected = averages.get(variable.path, before[variable.path])
        np.testing.assert_array_equal(variable.numpy(), expected)
