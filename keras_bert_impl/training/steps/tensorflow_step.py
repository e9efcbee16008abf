"""The training and evaluation steps on TensorFlow, under any `tf.distribute` strategy."""

import contextlib
import functools
import itertools
from typing import Any

import keras
import tensorflow as tf

from keras_bert_impl.layers.basic import dropout_seed as dropout_seed_scope
from keras_bert_impl.layers.basic import recomputation
from keras_bert_impl.training.optimizers.adamw import overwrite_with_averages
from keras_bert_impl.training.steps.tensorflow_parts import (
    StepWatch,
    assert_divisible,
    divisible_batches,
    may_be_empty,
    micro_batch,
    num_rows,
    unpack,
)
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.internals import (
    all_layers,
    builds_under_strategy,
    call,
    is_of_package,
    take_over_reduction,
    track_loss,
)


def num_replicas() -> int:
    """Returns the number of replicas on all workers."""
    return tf.distribute.get_strategy().num_replicas_in_sync


_Mixin: Any = object  # The methods use attributes of `keras.Model`, which is a later base class.


class _StepsLeft:
    """Splits the steps of an epoch into executions of at most `steps_per_execution` steps."""

    def __init__(self, steps: int | None) -> None:
        self._steps = self._left = steps

    def take(self, most: int) -> int:
        """Returns the number of steps to run next: `most`, or all remaining steps of the epoch."""
        if self._steps is None:
            return most
        steps = min(most, self._left)
        self._left = self._left - steps or self._steps
        return steps


@builds_under_strategy
class TensorFlowStep(_Mixin):
    """Training and evaluation steps of `ReplicatedTrainer` on TensorFlow."""

    step_watch = None
    after_fit = None  # an `ExitStack` during `fit`, for cleanup by callbacks, even after an error
    train_function: Any
    test_function: Any
    _training_steps = _test_steps = _StepsLeft(None)

    def _compile(self, options, *args, **kwargs):
        self._objective = options.objective
        _check_scope(self)
        with self.distribute_strategy.scope():
            super().compile(*args, **kwargs)
            if _has_float16_layers(self) and not _has_loss_scale(self.optimizer):
                self.optimizer = keras.optimizers.LossScaleOptimizer(self.optimizer)
            self.step_watch = StepWatch() if options.watch_steps else None
        _take_over_reduction(self.optimizer, self.distribute_strategy)
        _check_loss_is_a_mean(self.loss)
        self._accumulation_steps = options.accumulation_steps
        self._dropout_seed = options.dropout_seed
        self._remat = options.remat

    @contextlib.contextmanager
    def _prepare_fit(self, arguments):
        _check_scope(self)
        self._training_steps = _StepsLeft(arguments.get("steps_per_epoch"))
        try:
            with contextlib.ExitStack() as self.after_fit:
                self.after_fit.enter_context(divisible_batches(self._accumulation_steps))
                yield arguments
        finally:
            del self.after_fit, self._training_steps

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        self._test_steps = _StepsLeft(kwargs.get("steps"))
        try:
            return super().evaluate(*args, **kwargs)
        finally:
            del self._test_steps

    def make_train_function(self, force: bool = False) -> None:
        if self.train_function is None or force:
            if self.built and not self.optimizer.built:
                # The optimizer is built here, so that a checkpoint can be restored before the first
                # step
                with self.distribute_strategy.scope():
                    self.optimizer.build(self.trainable_variables)
            self.train_function = self._build_step_function(
                self.train_step, self._train_results, "_training_steps", self.step_watch
            )

    def make_test_function(self, force: bool = False) -> None:
        if self.test_function is None or force:
            self.test_function = self._build_step_function(
                self.test_step, self.get_metrics_result, "_test_steps"
            )

    def reset_metrics(self) -> None:
        super().reset_metrics()
        if self.step_watch is not None:
            self.step_watch.reset()

    def _train_results(self):
        watch_results = self.step_watch.results() if self.step_watch is not None else {}
        return self.get_metrics_result() | watch_results

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Runs one optimizer step on one replica; returns the `loss` of the global batch."""
        self._compiled.is_own_step = False
        batch = unpack(data)
        totals = _sum_over_replicas(self._compute_totals(*batch, training=True))
        compute = self._sum_micro_batches
        if self._compiles:
            # The reduction cannot be compiled on CPUs and GPUs; a TPU compiles the whole step.
            compute = tf.function(compute, jit_compile=True, autograph=False)
            if self._accumulation_steps > 1:
                assert_divisible(batch, self._accumulation_steps)
        loss, gradients = _sum_over_replicas(compute(batch, totals, self._compute_step_seed()))
        if self.step_watch is not None:
            self.step_watch.update(loss, gradients, self._read_loss_scale())
        self.optimizer.apply(gradients, self.trainable_variables)
        self._record_loss(loss, batch)
        return {"loss": loss}

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Returns the loss and metrics of one replica's batch."""
        self._compiled.is_own_step = False
        batch = x, y, sample_weight = unpack(data)
        totals = _sum_over_replicas(self._compute_totals(*batch, training=False))

        def evaluate():
            y_pred = self._forward(x, training=False)
            self._update_metrics(x, y, y_pred, sample_weight)
            return tf.cast(
                self._compute_loss_share(x, y, y_pred, sample_weight, totals, training=False),
                tf.float32,
            )

        if may_be_empty(batch, num_replicas()):
            share = tf.cond(num_rows(batch) > 0, evaluate, lambda: tf.constant(0.0))
        else:
            share = evaluate()
        loss = _sum_over_replicas(share)
        self._record_loss(loss, batch)
        return {"loss": loss}

    def predict_step(self, data: Any) -> Any:
        return self.scores(super().predict_step(data))

    @property
    def _compiles(self):
        return self.jit_compile and not _is_on_tpu()

    _forward = call

    def _read_loss_scale(self):
        return (
            self.optimizer.scale_loss(tf.constant(1.0)) if _has_loss_scale(self.optimizer) else None
        )

    def _record_loss(self, loss, batch):
        # As in Keras, a batch is weighted by its number of examples in the mean over an epoch.
        track_loss(self, loss, num_rows(batch))

    def _compute_step_seed(self):
        step = tf.cast(self.optimizer.iterations, tf.int32)
        seed = tf.stack([tf.constant(self._dropout_seed, tf.int32), step])  # [2]
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.random.experimental.stateless_fold_in(seed, tf.cast(replica, tf.int32))

    def _sum_micro_batches(self, batch, totals, seed):
        """Returns this replica's contribution to the loss, and its float32 gradients."""
        variables, count = self.trainable_variables, self._accumulation_steps
        if count == 1 and not may_be_empty(batch, num_replicas()):
            seed = tf.random.experimental.stateless_fold_in(seed, tf.constant(0))
            return self._compute_loss_and_gradients(batch, totals, seed)
        unconnected = set()

        def make_zeros():
            return tf.constant(0.0), [tf.zeros(v.shape, tf.float32) for v in variables]

        def compute_share(index):
            rows = micro_batch(batch, index, count, exact=self._compiles)
            micro_seed = tf.random.experimental.stateless_fold_in(seed, index)

            def compute():
                loss, gradients = self._compute_loss_and_gradients(rows, totals, micro_seed)
                unconnected.update(i for i, g in enumerate(gradients) if g is None)
                zeros = make_zeros()[1]
                return loss, [z if g is None else g for g, z in zip(gradients, zeros)]

            if not may_be_empty(rows, num_replicas() * count):
                return compute()
            return tf.cond(num_rows(rows) > 0, compute, make_zeros)

        def add_share(index, loss, gradients):
            more_loss, more_gradients = compute_share(index)
            return index + 1, loss + more_loss, [a + b for a, b in zip(gradients, more_gradients)]

        if count == 1:
            loss, gradients = compute_share(tf.constant(0))
        else:
            # With this sequential loop, neither the graph nor the memory grows with `count`.
            _, loss, gradients = tf.while_loop(
                lambda index, *_: index < count,
                add_share,
                (tf.constant(0), *make_zeros()),
                parallel_iterations=1,
            )
        return loss, [None if i in unconnected else g for i, g in enumerate(gradients)]

    def _compute_loss_and_gradients(self, rows, totals, seed):
        x, y, sample_weight = rows
        with dropout_seed_scope(seed), recomputation(self._remat):
            with tf.GradientTape() as tape:
                y_pred = self._forward(x, training=True)
                share = self._compute_loss_share(x, y, y_pred, sample_weight, totals, training=True)
                loss = tf.cast(share, tf.float32)
                scaled_loss = self.optimizer.scale_loss(loss)
            gradients = tape.gradient(scaled_loss, self.trainable_variables)
        self._update_metrics(x, y, y_pred, sample_weight)
        return loss, [None if g is None else _convert_to_float32(g) for g in gradients]

    def _build_step_function(self, step, results, attribute, watch=None):
        """Builds a function that runs `steps_per_execution` steps on an iterator."""
        strategy = self.distribute_strategy
        wait_for = watch.timed if watch is not None else _call_untimed

        def run_step(data):
            # At the end of the data, the iterator raises an error. Operations that do not need the
            # data, such as counting the step, must therefore run after the iterator.
            with tf.control_dependencies(_list_tensors(data)):
                self._compiled.is_own_step = True  # the steps of this class set it to False
                return self._select_own_logs(step, step(data))

        def reduce_logs(own_logs):
            if own_logs is None:
                return self._check_logs(results())
            return {
                name: tf.nest.map_structure(lambda v: strategy.reduce("MEAN", v, axis=None), value)
                for name, value in own_logs.items()
            }

        def run_batch(data):
            return reduce_logs(strategy.run(run_step, args=(data,)))

        def run_steps(iterator, most):
            def run_next(count, _):
                # A shorter last execution ends here, without losing a batch.
                batch = wait_for(lambda: _read_next_if_any(iterator))
                has_batch = batch.has_value()
                tf.cond(
                    has_batch,
                    lambda: strategy.run(run_step, args=(batch.get_value(),)),
                    lambda: None,
                )
                return count + tf.cast(has_batch, tf.int32), has_batch

            count, _ = tf.while_loop(
                lambda count, has_batch: has_batch & (count < most),
                run_next,
                (tf.constant(0), tf.constant(True)),
                parallel_iterations=1,
            )
            return count, self._check_logs(results())

        # A loop in the graph cannot return the logs of a subclass's step.
        is_single = self.steps_per_execution == 1 or not is_of_package(step)
        if is_single:

            def run_steps(iterator, most):  # noqa: F811 - keeps the static shapes a TPU needs
                data = wait_for(lambda: _read_next(iterator))
                return tf.constant(1), reduce_logs(strategy.run(run_step, args=(data,)))

        batch_function, iterator_function = run_batch, run_steps
        if not self.run_eagerly:
            batch_function = tf.function(run_batch, reduce_retracing=True, autograph=False)
            iterator_function = tf.function(run_steps, reduce_retracing=True, autograph=False)

        def run_execution(iterator):
            most = getattr(self, attribute).take(self.steps_per_execution)
            if not isinstance(iterator, (tf.data.Iterator, tf.distribute.DistributedIterator)):
                for data in itertools.islice(iterator, most):
                    logs = batch_function(data)
                return logs
            for number in range(most if is_single else 1):
                try:
                    count, logs = iterator_function(iterator, tf.constant(most))
                except tf.errors.OutOfRangeError:
                    if number == 0:
                        raise
                    break
                if count == 0:
                    raise StopIteration
            return logs

        return run_execution

    def _select_own_logs(self, step, logs):
        """Returns the logs of a step that a subclass wrote; None for the steps of this class."""
        if not self._compiled.is_own_step or not isinstance(logs, dict):
            return self._note_logs(logs)
        if num_replicas() > 1 and step == self.train_step:
            raise InputError(
                f"{type(self).__name__}.train_step does not sum gradients over replicas. Call "
                "super().train_step(data), or override loss_share(x, y, y_pred, sample_weight, "
                "totals) instead."
            )
        return logs


def _check_scope(model):
    """Raises `InputError` if a part of the model was created outside the strategy's scope."""
    made_by = model.distribute_strategy
    is_own = made_by.extended.variable_created_in_scope
    is_current = not tf.distribute.has_strategy() or tf.distribute.get_strategy() is made_by
    if not is_current or not all(is_own(weight.value) for weight in model.weights):
        raise InputError(
            "create the whole model, including the encoder, inside the scope of the strategy: "
            "with strategy.scope(): model = TextClassifier.from_pretrained(name)."
        )


def _take_over_reduction(optimizer, strategy):
    """Stops the optimizer from summing gradients over replicas. `train_step` does this instead."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if inner.gradient_accumulation_steps:
        raise InputError(
            "the optimizer has gradient_accumulation_steps, which counts micro-batches as steps; "
            "use compile(accumulation_steps=...) instead."
        )
    use_averages = functools.partial(overwrite_with_averages, inner)
    if not take_over_reduction(inner, strategy, use_averages):
        raise InputError("create the optimizer inside the strategy.scope() of the model.")


def _has_float16_layers(model):
    # Keras checks only the policy of the model. For a functional model, that is the global policy.
    return any(layer.compute_dtype == "float16" for layer in all_layers(model))


def _has_loss_scale(optimizer):
    return isinstance(optimizer, keras.optimizers.LossScaleOptimizer)


def _check_loss_is_a_mean(losses):
    for loss in keras.tree.flatten(losses):
        reduction = getattr(loss, "reduction", "sum_over_batch_size")
        if reduction not in ("sum_over_batch_size", "mean"):
            raise InputError(
                f"the loss {loss.name!r} has reduction {reduction!r}; only a mean over examples "
                "gives the same result on several replicas. Use the default reduction, or override "
                "loss_totals and loss_share."
            )


def _sum_over_replicas(values):
    if num_replicas() == 1:
        return values
    leaves = tf.nest.flatten(values)
    context = tf.distribute.get_replica_context()
    sums = iter(context.all_reduce("SUM", [leaf for leaf in leaves if leaf is not None]))
    return tf.nest.pack_sequence_as(
        values, [None if leaf is None else next(sums) for leaf in leaves]
    )


def _convert_to_float32(gradient):
    # An IndexedSlices with the same row twice would give a wrong gradient norm.
    return tf.cast(tf.convert_to_tensor(gradient), tf.float32)


def _list_tensors(data):
    leaves = tf.nest.flatten(data, expand_composites=True)
    return [leaf for leaf in leaves if tf.is_tensor(leaf)]


def _read_next(iterator):
    data = iterator.get_next()
    return data, _list_tensors(data)


def _read_next_if_any(iterator):
    batch = iterator.get_next_as_optional()
    return batch, [batch.has_value()]


def _call_untimed(get_next):
    return get_next()[0]


def _is_on_tpu():
    return isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)
