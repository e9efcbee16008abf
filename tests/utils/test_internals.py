"""Keras still has the internals that `internals` relies on, and they still work."""

import re
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert_impl
from keras_bert_impl.utils import internals


def model_of(*layers):
    inputs = keras.Input((3,))
    return keras.Model(inputs, keras.Sequential(layers)(inputs))


def test_private_names_of_keras_are_in_one_module():
    package = Path(keras_bert_impl.__file__).parent
    private = re.compile(r"keras\.src|\._(flatten_layers|loss_tracker|layers\b|get_variable_index)")
    names = {
        path.name
        for path in package.rglob("*.py")
        if private.search(path.read_text()) and path.name != "internals.py"
    }
    assert names == set()


def test_all_layers_includes_nested_layers():
    dense = keras.layers.Dense(2)
    model = model_of(dense)
    layers = internals.all_layers(model, include_self=True)
    assert layers[0] is model and dense in layers
    assert model not in internals.all_layers(model)


def test_a_layer_that_no_graph_reaches_is_tracked_once():
    model, layer = model_of(keras.layers.Dense(2)), keras.layers.Dense(1)
    layer.build((None, 3))
    for _ in range(2):
        internals.track_layer(model, layer)
    assert internals.all_layers(model).count(layer) == 1
    assert sum(weight is layer.kernel for weight in model.weights) == 1


def test_call_passes_training_to_models_that_accept_it():
    class Plain(keras.Model):
        def call(self, inputs):
            return inputs + 1

    x = np.ones((2, 3), "float32")
    dropped = internals.call(model_of(keras.layers.Dropout(0.999, seed=0)), x, training=True)
    assert np.count_nonzero(dropped) < 6
    np.testing.assert_array_equal(internals.call(Plain(), x, training=True), x + 1)


def test_the_loss_is_a_weighted_mean():
    model = model_of(keras.layers.Dense(1))
    model.compile(loss="mse")
    internals.track_loss(model, 1.0, 1)
    internals.track_loss(model, 4.0, 2)
    assert float(model.get_metrics_result()["loss"]) == pytest.approx(3.0)


def test_building_is_known_in_a_symbolic_call():
    flags = []

    @internals.knows_building
    class Model(keras.Model):
        def call(self, inputs):
            flags.append(self.is_building)
            return inputs * 2.0

    model = Model()
    model.compile(loss="mse", metrics=["mae"])
    model(np.ones((2, 1), "float32"))
    model._symbolic_build(data_batch=(np.ones((2, 1)), np.ones((2, 1))))
    assert flags == [False, True] and model.is_building is False


def test_hooks_of_an_optimizer_are_called():
    called = []

    class Optimizer(internals.OptimizerHooks, keras.optimizers.SGD):
        def before_update(self, trainable_variables):
            called.append("before_update")

        def clip(self, gradients):
            called.append("clip")
            return super().clip(gradients)

        def use_averages(self, trainable_variables):
            called.append("use_averages")
            super().use_averages(trainable_variables)

    variables = [keras.Variable([1.0]), keras.Variable([2.0])]
    optimizer = Optimizer(0.5, global_clipnorm=1.0, use_ema=True, ema_momentum=0.5)
    optimizer.build(variables)
    optimizer.apply([tf.constant([3.0]), tf.constant([4.0])], variables)
    assert called == ["before_update", "clip"]
    np.testing.assert_allclose([v[0] for v in variables], [0.7, 1.6])
    assert internals.variables_of(optimizer) == variables
    assert [internals.index_of(optimizer, variable) for variable in variables] == [0, 1]
    assert int(internals.iterations_of(optimizer)) == 1
    assert float(internals.learning_rate_of(optimizer)) == 0.5
    averages = [float(average[0]) for average in internals.averages_of(optimizer)]
    optimizer.finalize_variable_values(variables)
    assert called[-1] == "use_averages"
    np.testing.assert_allclose([v[0] for v in variables], averages)


def test_takes_over_reduction_under_the_optimizers_strategy():
    strategy, used = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), []
    with strategy.scope():
        variable = keras.Variable([1.0])
        optimizer = keras.optimizers.SGD(1.0)
        optimizer.build([variable])
    assert not internals.take_over_reduction(keras.optimizers.SGD(1.0), strategy, used.append)
    assert internals.take_over_reduction(optimizer, strategy, used.append)
    strategy.run(lambda: optimizer.apply([tf.constant([0.25])], [variable]))
    assert float(variable[0]) == 0.75  # the gradients of the two replicas are not summed


def test_variables_without_values_are_initialized_once():
    with keras.StatelessScope(initialize_variables=False):
        first, second = (keras.Variable("ones", shape=(2,), dtype="float32") for _ in range(2))
    internals.forget_variables_without_values()
    with keras.StatelessScope():
        pass
    assert not internals.has_value(first)
    internals.set_first_value(first)
    internals.set_first_value(second, lambda shape, dtype: np.full(shape, 7, dtype))
    assert internals.has_value(first) and float(first[0]) == 1 and float(second[1]) == 7
