"""Functions that use private attributes and methods of Keras.

Private names may change in any release of Keras. `setup.cfg` limits the versions of Keras, and
`tests/utils/test_internals.py` fails if a name changes.
"""

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras.src.backend.common import global_state

from keras_bert_impl.utils.lazy import PACKAGE, register_classes

register_classes()  # Keras is imported now

# === Models and layers ===


def checks_its_inputs(cls: type) -> type:
    """Class decorator: a functional model that accepts more inputs than its graph has."""
    cls._assert_input_compatibility = lambda self, *args, **kwargs: None  # type: ignore[attr-defined]
    return cls


def all_layers(model: keras.Model, include_self: bool = False) -> list[keras.layers.Layer]:
    """Returns all layers of a model, including nested layers. Parents precede children."""
    return list(model._flatten_layers(include_self=include_self, recursive=True))


def track_layer(model: keras.Model, layer: keras.layers.Layer) -> None:
    """Adds a layer to a functional model without connecting the layer to the graph."""
    if not any(layer is tracked for tracked in model._layers):
        model._layers.append(layer)


def call(model: keras.Model, x: Any, training: bool) -> Any:
    """Calls a model, passing `training` if the model accepts it."""
    return model(x, training=training) if model._call_has_training_arg else model(x)


def compiled_loss(model: keras.Model, y: Any, y_pred: Any, sample_weight: Any) -> Any:
    """Returns the loss that was passed to `compile`, without losses from `add_loss`."""
    if model._compile_loss is None:
        # Keras raises an error if there is no loss.
        return 0.0 if model.losses else keras.Model.compute_loss(model)
    return model._compile_loss(y, y_pred, sample_weight)


def compute_loss(
    model: keras.Model, x: Any, y: Any, y_pred: Any, sample_weight: Any, training: bool
) -> Any:
    """Calls `compute_loss`, passing `training` if the method accepts it."""
    return model._compute_loss(x, y, y_pred, sample_weight, training=training)


def track_loss(model: keras.Model, loss: Any, weight: Any) -> None:
    """Adds the loss of a batch to the mean that `fit` and `evaluate` report."""
    model._loss_tracker.update_state(loss, sample_weight=weight)


def is_writing_file() -> bool:
    """Returns whether Keras is reading the configs of a model that it writes to a file."""
    return global_state.get_global_attribute("shared_objects/id_to_config_map") is not None


def requirement(obj: object) -> dict[str, str]:
    """Returns an entry for a config in a file: the import that Keras needs to load the object.

    Keras prints the config if the class is unknown.
    """
    if not is_writing_file() or not is_of_package(type(obj)):
        return {}
    name = type(obj).__name__
    return {"requires": f"import {PACKAGE} after keras, or from {PACKAGE} import {name}"}


def is_of_package(method: Callable) -> bool:
    """Returns whether a method is defined in this package, not in a user's subclass."""
    return getattr(method, "__module__", "").startswith(f"{PACKAGE}.")


def results_or_logs(cls: type) -> type:
    """Class decorator: steps of subclasses may return logs without updating the metrics."""

    def get_results_or_logs(self, logs):
        if not (is_of_package(self.train_step) and is_of_package(self.test_step)):
            metrics, count = self._compile_metrics, self._loss_tracker.count
            if not (metrics is None or metrics.built) or not keras.ops.convert_to_numpy(count):
                return logs
        return super(cls, self)._get_metrics_result_or_logs(logs)

    cls._get_metrics_result_or_logs = get_results_or_logs  # type: ignore[attr-defined]
    return cls


def knows_building(cls: type) -> type:
    """Class decorator: `is_building` is True while Keras builds metrics with symbolic tensors."""

    def symbolic_build(self, *args, **kwargs):
        self.is_building = True
        try:
            return super(cls, self)._symbolic_build(*args, **kwargs)
        finally:
            self.is_building = False

    cls.is_building = False  # type: ignore[attr-defined]  # any model class
    cls._symbolic_build = symbolic_build  # type: ignore[attr-defined]
    return cls


def builds_under_strategy(cls: type) -> type:
    """Class decorator: builds a TensorFlow model in the scope of its distribution strategy.

    The shapes of the inputs come from the data set, so no training step is executed.
    """

    def maybe_symbolic_build(self, iterator=None, data_batch=None):
        import tensorflow as tf

        if self._distribute_strategy is None:
            return
        if iterator is not None:
            spec = iterator._distributed_dataset.element_spec
            data_batch = tf.nest.map_structure(_find_replica_spec, spec)
        with self._distribute_strategy.scope():
            self._symbolic_build(data_batch=data_batch)

    cls._maybe_symbolic_build = maybe_symbolic_build  # type: ignore[attr-defined]
    return cls


def builds_from_spec(cls: type) -> type:
    """Class decorator for JAX models: adds the method `build_from_spec`.

    The method builds the metrics and the optimizer with the shapes in `data.element_spec`, without
    reading a batch.
    """

    def symbol(spec):
        if not hasattr(spec, "shape"):  # The value is None, as for missing sample weights.
            return None
        return keras.KerasTensor([size or 2 for size in spec.shape], spec.dtype.name)

    def build_from_spec(self, data):
        self._is_built_from_spec = hasattr(data, "element_spec")
        if self._is_built_from_spec:
            batch = keras.tree.map_structure(symbol, data.element_spec)
            self._symbolic_build(data_batch=batch)

    def symbolic_build(self, iterator=None, data_batch=None):
        if iterator is None or not self._is_built_from_spec:
            super(cls, self)._symbolic_build(iterator=iterator, data_batch=data_batch)

    def maybe_symbolic_build(self, iterator=None, data_batch=None):  # used since Keras 3.16
        if iterator is None or not self._is_built_from_spec:
            super(cls, self)._maybe_symbolic_build(iterator=iterator, data_batch=data_batch)

    cls.build_from_spec = build_from_spec  # type: ignore[attr-defined]  # any model class
    cls._symbolic_build = symbolic_build  # type: ignore[attr-defined]
    cls._maybe_symbolic_build = maybe_symbolic_build  # type: ignore[attr-defined]
    cls._is_built_from_spec = False  # type: ignore[attr-defined]
    return cls


@contextlib.contextmanager
def state_kept(model: keras.Model) -> Iterator[None]:
    """Restores the variables of a JAX model if the `with` block raises an exception."""
    variables = [*model.variables, *model.non_trainable_variables, *model.metrics_variables]
    variables += model.optimizer.variables if model.compiled and model.optimizer else []
    values = [(variable, variable._value) for variable in variables]
    try:
        yield
    except BaseException:
        model.jax_state_sync()
        for variable, value in values:
            if variable._value is None and value is not None and not value.is_deleted():
                variable._value = value
        raise


def _find_replica_spec(spec):
    spec = getattr(spec, "_value_specs", [spec])[0]
    return spec if hasattr(spec, "shape") else None


# === Optimizers ===


class OptimizerHooks:
    """Optimizer mixin with public methods that replace private methods of Keras's optimizers."""

    # The superclass is an optimizer, which mypy does not know.

    def before_update(self, trainable_variables: list) -> None:
        """Does nothing. Override this method to run code before each update of the variables."""

    def clip(self, gradients: list) -> list:
        return super()._clip_gradients(gradients)  # type: ignore[misc]

    def use_averages(self, trainable_variables: list) -> None:
        super()._overwrite_model_variables_with_average_value(trainable_variables)  # type: ignore[misc]

    def slot_layout(self, shape: Any, layout: Any) -> Any:
        """Returns the `TensorLayout` of the optimizer state of a variable."""
        return layout

    def add_variable_from_reference(
        self, reference_variable: Any, *args: Any, **kwargs: Any
    ) -> keras.Variable:
        reference_layout = getattr(reference_variable, "_layout", None)
        layout = self.slot_layout(reference_variable.shape, reference_layout)
        if layout is not reference_layout:
            reference_variable = types.SimpleNamespace(
                path=reference_variable.path,
                shape=reference_variable.shape,
                dtype=reference_variable.dtype,
                _layout=layout,
            )
        return super().add_variable_from_reference(reference_variable, *args, **kwargs)  # type: ignore[misc]

    def _backend_apply_gradients(self, grads, trainable_variables):
        self.before_update(trainable_variables)
        super()._backend_apply_gradients(grads, trainable_variables)

    def _clip_gradients(self, grads):
        return self.clip(grads)

    def _overwrite_model_variables_with_average_value(self, trainable_variables):
        self.use_averages(trainable_variables)


def index_of(optimizer: keras.optimizers.Optimizer, variable: Any) -> int:
    return optimizer._get_variable_index(variable)


def variables_of(optimizer: keras.optimizers.Optimizer) -> list:
    """Returns the trainable variables of an optimizer."""
    return optimizer._trainable_variables


def averages_of(optimizer: keras.optimizers.Optimizer) -> list:
    """Returns the moving average of each trainable variable; None without `use_ema`."""
    return optimizer._model_variables_moving_average


def iterations_of(optimizer: keras.optimizers.Optimizer) -> Any:
    """Returns the number of `apply` calls, including calls that only accumulate gradients."""
    return optimizer._iterations


def learning_rate_of(optimizer: keras.optimizers.Optimizer) -> Any:
    """Returns the learning rate of an optimizer: a schedule or a variable."""
    return optimizer._learning_rate


def take_over_reduction(
    optimizer: keras.optimizers.Optimizer, strategy: Any, use_averages: Callable
) -> bool:
    """Disables the all-reduce of gradients in an optimizer.

    `use_averages` replaces the method that copies the moving averages to the variables. If the
    optimizer does not belong to `strategy`, nothing is changed and the return value is False.
    """
    if optimizer._distribution_strategy is not strategy:
        return False
    optimizer._all_reduce_sum_gradients = list
    optimizer._overwrite_model_variables_with_average_value = use_averages
    return True


# === Variables without values ===


def has_value(variable: keras.Variable) -> bool:
    """Returns whether a variable has a value.

    A variable that was created in a `StatelessScope` may not have a value yet.
    """
    return variable._value is not None


def set_first_value(variable: keras.Variable, initializer: Callable | None = None) -> None:
    if initializer is not None:
        variable._initializer = initializer
    variable._deferred_initialize()


def forget_variables_without_values() -> None:
    """Clears the list of variables whose initialization Keras has deferred."""
    global_state.set_global_attribute("uninitialized_variables", [])
