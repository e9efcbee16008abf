"""The training step on JAX: one program for the global batch, on all JAX devices.

JAX can only distribute a batch whose size is a multiple of the number of devices. Other batches,
such as the last batch of an epoch, are padded with rows. The step removes the padding rows before
any computation, so that the result does not change.

Micro-batch i of n contains every n-th row, starting with row i, so that all devices work on each
micro-batch.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.extend
import keras
import numpy as np
from keras import ops

from keras_bert_impl.layers.basic import dropout_seed as dropout_seed_scope
from keras_bert_impl.layers.basic import recomputation
from keras_bert_impl.training.jax_devices import JaxDevices, num_hosts
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.internals import (
    all_layers,
    builds_from_spec,
    call,
    state_kept,
    track_loss,
)

_BATCH, _ROWS = "batch", "rows"


def padded_for_devices(data: Any) -> Any:
    """Adds rows to the batches of a `tf.data.Dataset`, so that they can be divided evenly.

    Returns:
        Dataset of dicts with the padded batch, `batch`, and an int8 tensor `rows` with the shape
        [number of devices, original batch size]. The compiled program reads the original batch size
        from this shape.

        `data` is returned unchanged if it is not a dataset, if there is only one device, or if
        there are several processes, each of which reads only a part of a batch.
    """
    parts = JaxDevices().num_replicas_in_sync
    if parts == 1 or num_hosts() > 1:
        return data
    import tensorflow as tf

    if not isinstance(data, tf.data.Dataset):
        return data

    @tf.autograph.experimental.do_not_convert
    def add_rows(*batch):
        batch = batch if len(batch) > 1 else batch[0]
        count = tf.shape(tf.nest.flatten(batch)[0])[0]

        def pad_leaf(leaf):
            padding = [[0, -count % parts]] + [[0, 0]] * (leaf.shape.rank - 1)
            return tf.pad(leaf, padding)

        return {
            _BATCH: tf.nest.map_structure(pad_leaf, batch),
            _ROWS: tf.zeros([parts, count], tf.int8),
        }

    return data.map(add_rows)


def without_padding(data: Any) -> Any:
    """Removes the rows added by `padded_for_devices`."""
    if not isinstance(data, dict) or data.keys() != {_BATCH, _ROWS}:
        return data
    count = data[_ROWS].shape[1]
    return keras.tree.map_structure(lambda leaf: leaf[:count], data[_BATCH])


def over_micro_batches(add: Callable, sums: Any, batch: Any, count: int) -> Any:
    """Calls `sums = add(sums, rows, index)` for each micro-batch `rows`. Returns the last sums."""
    num_rows = jax.tree.leaves(batch)[0].shape[0]
    if count > 1 and num_rows % count == 0:
        split = jax.tree.map(lambda leaf: _split(leaf, count), batch)
        parts = split, jax.numpy.arange(count)
        return jax.lax.scan(lambda sums, part: (add(sums, *part), None), sums, parts)[0]
    for index in range(min(count, num_rows)):
        sums = add(sums, _take_every(batch, index, count), index)
    return sums


def of_micro_batches(function: Callable, batch: Any, count: int) -> Any:
    """Calls `function(rows, index)` for each micro-batch.

    Returns the outputs of the whole batch.
    """
    num_rows = jax.tree.leaves(batch)[0].shape[0]
    if num_rows % count == 0:
        split = jax.tree.map(lambda leaf: _split(leaf, count), batch)
        micro_outputs = jax.lax.map(lambda part: function(*part), (split, jax.numpy.arange(count)))
        return micro_outputs.swapaxes(0, 1).reshape(num_rows, *micro_outputs.shape[2:])
    outputs = None
    for index in range(min(count, num_rows)):
        micro_outputs = function(_take_every(batch, index, count), index)
        if outputs is None:
            outputs = jax.numpy.zeros((num_rows, *micro_outputs.shape[1:]), micro_outputs.dtype)
        outputs = outputs.at[index::count].set(micro_outputs)
    return outputs


def _split(rows, count):
    return rows.reshape(-1, count, *rows.shape[1:]).swapaxes(0, 1)


def _take_every(batch, first, count):
    return jax.tree.map(lambda leaf: leaf[first::count], batch)


def are_always_zero(function: Callable, *arguments: Any) -> list[bool]:
    """Returns, for each output of a function, whether it is 0 for all values of the arguments."""
    program = jax.make_jaxpr(function)(*arguments)
    variables: set[Any] = set(program.jaxpr.invars)
    made_by: dict[Any, Any] = {}  # output -> equation that computes it
    constants = dict(zip(program.jaxpr.constvars, program.consts))
    for step in program.jaxpr.eqns:
        if any(_is_variable(value) and value in variables for value in step.invars):
            variables.update(step.outvars)
        else:
            made_by |= dict.fromkeys(step.outvars, step)

    def compute(value):
        if not _is_variable(value):
            return value.val
        if value not in constants:
            step = made_by[value]
            results = step.primitive.bind(*map(compute, step.invars), **step.params)
            results = results if step.primitive.multiple_results else [results]
            constants.update(zip(step.outvars, results))
        return constants[value]

    with jax.ensure_compile_time_eval():
        return [
            not (_is_variable(value) and value in variables) and not np.any(compute(value))
            for value in program.jaxpr.outvars
        ]


def _is_variable(value):
    return not isinstance(value, jax.extend.core.Literal)


_Mixin: Any = object  # The methods use attributes of `keras.Model`, which is a later base class.


def num_replicas() -> int:
    """Returns 1, because a step on JAX processes the global batch."""
    return 1


@builds_from_spec
class JaxStep(_Mixin):
    """Training and evaluation steps of `ReplicatedTrainer` on JAX."""

    step_watch = None  # On JAX, waits for data overlap with the steps, so they are not measured.
    distribute_strategy = JaxDevices()
    after_fit = None  # an `ExitStack` during `fit`, for cleanup by callbacks, even after an error
    _connected: Any = None  # (ids of the trainable variables, whether the loss depends on each)

    def _compile(self, options, *args, **kwargs):
        self._objective, self._connected = options.objective, None
        if any(layer.compute_dtype == "float16" for layer in all_layers(self)):
            raise InputError("float16 needs the TensorFlow backend; use mixed_bfloat16.")
        # Without compilation, JAX runs each operation separately. TensorFlow is fast without XLA.
        super().compile(*args, **kwargs | {"jit_compile": True})
        self._accumulation_steps = options.accumulation_steps
        self._dropout_seed = options.dropout_seed
        self._remat = options.remat
        self._gradient_norm = self._highest_loss = None
        if options.watch_steps:
            self._gradient_norm = keras.metrics.Mean(name="gradient_norm")
            self._highest_loss = _Highest(name="highest_loss")

    @property
    def non_trainable_variables(self) -> list[keras.Variable]:
        """Non-trainable variables of the model and `read_variables` of the objective."""
        variables = super().non_trainable_variables
        read = getattr(self._objective, "read_variables", ())
        return [*variables, *read]

    @contextlib.contextmanager
    def _prepare_fit(self, arguments):
        steps_per_epoch = arguments.get("steps_per_epoch")
        if steps_per_epoch and steps_per_epoch % self.steps_per_execution:
            raise InputError(
                f"on the JAX backend, steps_per_epoch={steps_per_epoch} must be a multiple of "
                f"steps_per_execution={self.steps_per_execution}."
            )
        self.build_from_spec(arguments["x"])
        padded = {
            name: padded_for_devices(arguments[name])
            for name in ("x", "validation_data")
            if name in arguments
        }
        try:
            with state_kept(self), contextlib.ExitStack() as self.after_fit:
                yield arguments | padded
        finally:
            del self.after_fit

    def evaluate(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        # Keras sets it inside `fit`, where this method has already been called
        if not kwargs.get("_use_cached_eval_dataset"):
            self.build_from_spec(x)
            x = padded_for_devices(x)
        with state_kept(self):
            return super().evaluate(x, *args, **kwargs)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        with state_kept(self):
            return super().predict(padded_for_devices(x), *args, **kwargs)

    def train_step(self, state: tuple, data: Any) -> tuple[dict[str, Any], tuple]:
        """Runs one optimizer step; returns (metric results, new state)."""
        trainable, non_trainable, optimizer_values, metric_values = state
        batch = keras.utils.unpack_x_y_sample_weight(without_padding(data))
        totals = self._compute_totals(*batch, training=True)
        seed = self._compute_step_seed(optimizer_values)
        loss, gradients, non_trainable, metric_values = self._sum_micro_batches(
            trainable, non_trainable, metric_values, batch, totals, seed
        )
        trainable, optimizer_values = self._apply_gradients(
            trainable, non_trainable, optimizer_values, gradients
        )
        logs, metric_values = self._update_logs(metric_values, batch, loss, gradients)
        return logs, (trainable, non_trainable, optimizer_values, metric_values)

    def test_step(self, state: tuple, data: Any) -> tuple[dict[str, Any], tuple]:
        """Returns (loss and metrics of the global batch, new state)."""
        batch = x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(without_padding(data))
        variables = self.trainable_variables, self.non_trainable_variables, self.metrics_variables
        with _replace_values(sum(variables, []), sum(map(list, state), [])) as scope:
            y_pred = self._forward(x, training=False)
            totals = self._compute_totals(*batch, training=False)
            loss = self._compute_loss_share(x, y, y_pred, sample_weight, totals, training=False)
            self._update_metrics(x, y, y_pred, sample_weight)
            self._record_loss(loss, batch)
            logs = self._check_logs(self.get_metrics_result())
        logs = {name: logs[name] for name in logs if name not in _TRAINING_ALONE}
        return logs, tuple(_read_values(scope, part) for part in variables)

    def predict_step(self, state: tuple, data: Any) -> tuple[Any, Any]:
        """Returns (predictions for the global batch, non-trainable values)."""
        outputs, non_trainable = super().predict_step(state, without_padding(data))
        return self.scores(outputs), non_trainable

    _forward = call

    def _record_loss(self, loss, batch):
        # As in Keras, a batch is weighted by its number of examples in the mean over an epoch.
        track_loss(self, loss, jax.tree.leaves(batch)[0].shape[0])

    def _compute_step_seed(self, optimizer_values):
        with _replace_values(self.optimizer.variables, optimizer_values):
            step = ops.convert_to_tensor(self.optimizer.iterations)
        return jax.random.fold_in(jax.random.PRNGKey(self._dropout_seed), step)

    def _sum_micro_batches(self, trainable, non_trainable, metric_values, batch, totals, seed):
        """Returns (loss, gradients, non-trainable values, metric values)."""
        share_and_gradients = jax.value_and_grad(self._compute_share_and_state, has_aux=True)

        def add(sums, rows, index):
            loss, gradients, non_trainable, metric_values = sums
            (share, (y_pred, non_trainable)), micro_gradients = share_and_gradients(
                trainable, non_trainable, rows, totals, jax.random.fold_in(seed, index)
            )
            x, y, sample_weight = rows
            # A metric, such as those for a CRF, may read the weights.
            weights = [*self.trainable_variables, *self.non_trainable_variables]
            variables = [*self.metrics_variables, *weights]
            with _replace_values(
                variables, [*metric_values, *trainable, *non_trainable]
            ) as metrics:
                self._update_metrics(x, y, y_pred, sample_weight)
            gradients = [a + b for a, b in zip(gradients, micro_gradients)]
            metric_values = _read_values(metrics, self.metrics_variables)
            return loss + share, gradients, non_trainable, metric_values

        sums = 0.0, [ops.zeros_like(value) for value in trainable], non_trainable, metric_values
        loss, gradients, *state = over_micro_batches(add, sums, batch, self._accumulation_steps)
        is_connected = self._are_connected(trainable, non_trainable, batch, totals, seed)
        gradients = [g if connected else None for g, connected in zip(gradients, is_connected)]
        return loss, gradients, *state

    def _are_connected(self, *arguments):
        """Returns whether the loss depends on each trainable variable."""
        key = [id(variable) for variable in self.trainable_variables]
        if self._connected is None or self._connected[0] != key:
            gradients = jax.grad(lambda *inputs: self._compute_share_and_state(*inputs)[0])
            is_zero = are_always_zero(gradients, *arguments)
            self._connected = key, [not zero for zero in is_zero]
        return self._connected[1]

    def _apply_gradients(self, trainable, non_trainable, optimizer_values, gradients):
        """Returns the values of trainable and optimizer variables after an update."""
        weights, optimizer = self.trainable_variables, self.optimizer
        variables = [*weights, *self.non_trainable_variables, *optimizer.variables]
        with _replace_values(variables, [*trainable, *non_trainable, *optimizer_values]) as scope:
            optimizer.apply(gradients, weights)
        return _read_values(scope, weights), _read_values(scope, optimizer.variables)

    def _compute_share_and_state(self, trainable, non_trainable, batch, totals, seed):
        """Returns (loss of this micro-batch, (predictions, non-trainable values))."""
        x, y, sample_weight = batch
        with self._open_training_scope(trainable, non_trainable, seed) as scope:
            y_pred = self._forward(x, training=True)
            share = self._compute_loss_share(x, y, y_pred, sample_weight, totals, training=True)
        values = _read_values(scope, self.non_trainable_variables)
        return ops.cast(share, "float32"), (y_pred, values)

    @contextlib.contextmanager
    def _open_training_scope(self, trainable, non_trainable, seed):
        variables = [*self.trainable_variables, *self.non_trainable_variables]
        with _replace_values(variables, [*trainable, *non_trainable]) as scope:
            with dropout_seed_scope(seed), recomputation(self._remat):
                yield scope

    def _update_logs(self, metric_values, batch, loss, gradients):
        """Updates the loss and the step statistics. Returns (metric results, new metric values)."""
        with _replace_values(self.metrics_variables, metric_values) as metrics:
            self._record_loss(loss, batch)
            if self._highest_loss is not None:
                connected_gradients = [gradient for gradient in gradients if gradient is not None]
                norm = ops.sqrt(
                    sum(ops.sum(ops.square(gradient)) for gradient in connected_gradients)
                )
                has_norm = ops.isfinite(norm)
                self._gradient_norm.update_state(
                    ops.where(has_norm, norm, 0.0), sample_weight=ops.cast(has_norm, "float32")
                )
                is_fine = ops.logical_and(ops.isfinite(loss), has_norm)
                self._highest_loss.update_state(ops.where(is_fine, loss, float("inf")))
            logs = self._check_logs(self.get_metrics_result())
        return logs, _read_values(metrics, self.metrics_variables)


_TRAINING_ALONE = ("gradient_norm", "highest_loss")


class _Highest(keras.metrics.Metric):
    """Maximum of the values so far; 0 before the first value."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self._highest = self.add_variable((), initializer="zeros", name="highest")

    def update_state(self, value: Any) -> None:
        self._highest.assign(ops.maximum(self._highest, value))

    def result(self) -> Any:
        return ops.convert_to_tensor(self._highest)


def _replace_values(variables, values):
    """Returns a scope in which `variables` have `values`. Assignments have no effect outside."""
    return keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True)))


def _read_values(scope, variables):
    return [scope.get_current_value(variable) for variable in variables]
