"""Names inside of Keras that this package relies on, all of them in this module.

Keras can change them in any release. `setup.cfg` bounds its version, and
`tests/test_keras_internals.py` fails when one of them changes.
"""

from collections.abc import Callable

import keras
from keras.src.backend.common import global_state

# === Models and layers ===


def all_layers(model: keras.Model, include_self: bool = False) -> list[keras.layers.Layer]:
    """The layers of a model and those inside them; each before its own."""
    return list(model._flatten_layers(include_self=include_self, recursive=True))


def track_layer(model: keras.Model, layer: keras.layers.Layer) -> None:
    """Adds a layer that the graph of a functional model does not reach.

    Keras 3.12 looks at the layers of the graph alone; later versions find it as an attribute.
    """
    if not any(layer is tracked for tracked in model._layers):
        model._layers.append(layer)


def call(model: keras.Model, x, training: bool):
    """Calls a model, with `training` if it has that argument."""
    return model(x, training=training) if model._call_has_training_arg else model(x)


def track_loss(model: keras.Model, loss, weight) -> None:
    """Adds the loss of a batch to the mean that `fit` and `evaluate` report."""
    model._loss_tracker.update_state(loss, sample_weight=weight)


class KnowsBuilding:
    """A model that knows while Keras builds its metrics from what a symbolic call returns."""

    is_building = False

    def _symbolic_build(self, *args, **kwargs):
        self.is_building = True
        try:
            return super()._symbolic_build(*args, **kwargs)
        finally:
            self.is_building = False


class BuildsUnderStrategy:
    """A TensorFlow model that is built from the shapes of its data under a `tf.distribute` strategy.

    Keras averages the first batch over the replicas, which fails for strings and for batches that do
    not divide; and it reads a batch that a generator gives only once.
    """

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        import tensorflow as tf

        if self._distribute_strategy is None:
            return
        if iterator is not None:
            spec = iterator._distributed_dataset.element_spec
            data_batch = tf.nest.map_structure(_spec_of_a_replica, spec)
        with self._distribute_strategy.scope():
            self._symbolic_build(data_batch=data_batch)


def _spec_of_a_replica(spec):
    spec = getattr(spec, "_value_specs", [spec])[0]
    return spec if hasattr(spec, "shape") else None


# === Optimizers ===


class OptimizerHooks:
    """An optimizer whose hooks have public names; the defaults do what Keras does."""

    def before_update(self, trainable_variables: list) -> None:
        """Called before the variables with gradients are updated."""

    def clip(self, gradients: list) -> list:
        """The clipped gradients."""
        return super()._clip_gradients(gradients)

    def use_averages(self, trainable_variables: list) -> None:
        """Gives variables their moving averages."""
        super()._overwrite_model_variables_with_average_value(trainable_variables)

    def _backend_apply_gradients(self, grads, trainable_variables):
        self.before_update(trainable_variables)
        super()._backend_apply_gradients(grads, trainable_variables)

    def _clip_gradients(self, grads):
        return self.clip(grads)

    def _overwrite_model_variables_with_average_value(self, trainable_variables):
        self.use_averages(trainable_variables)


def index_of(optimizer: keras.optimizers.Optimizer, variable) -> int:
    """The place of a variable among those that an optimizer was built with."""
    return optimizer._get_variable_index(variable)


def variables_of(optimizer: keras.optimizers.Optimizer) -> list:
    """The variables that an optimizer was built with."""
    return optimizer._trainable_variables


def averages_of(optimizer: keras.optimizers.Optimizer) -> list:
    """The moving averages of `variables_of`, with `use_ema`; None where a variable has none."""
    return optimizer._model_variables_moving_average


def iterations_of(optimizer: keras.optimizers.Optimizer):
    """The variable that counts `apply`, micro-batches of accumulation included."""
    return optimizer._iterations


def learning_rate_of(optimizer: keras.optimizers.Optimizer):
    """The schedule or variable that an optimizer was given as its learning rate."""
    return optimizer._learning_rate


def take_over_reduction(
    optimizer: keras.optimizers.Optimizer, strategy, use_averages: Callable
) -> bool:
    """Leaves the sum of gradients over replicas, and the use of averages, to the caller.

    Args:
        optimizer: Keras optimizer on TensorFlow.
        strategy: `tf.distribute` strategy of the model.
        use_averages: function of the trainable variables.

    Returns:
        Whether the optimizer was created under the strategy; if not, nothing has changed.
    """
    if optimizer._distribution_strategy is not strategy:
        return False
    optimizer._all_reduce_sum_gradients = list
    optimizer._overwrite_model_variables_with_average_value = use_averages
    return True


# === Variables without values ===


def has_value(variable: keras.Variable) -> bool:
    """Whether a variable has its first value; without one in a `StatelessScope`."""
    return variable._value is not None


def set_first_value(variable: keras.Variable, initializer: Callable | None = None) -> None:
    """Gives a variable without a value its first one.

    Args:
        initializer: function of shape and dtype. Default: the variable's own.
    """
    if initializer is not None:
        variable._initializer = initializer
    variable._deferred_initialize()


def forget_variables_without_values() -> None:
    """Keeps Keras from filling, at the end of the next scope, variables that `StatelessScope` left."""
    global_state.set_global_attribute("uninitialized_variables", [])
