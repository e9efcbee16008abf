"""Converts the arguments of `fit` of a task model to those of `keras.Model.fit`."""

import dataclasses
import warnings
from typing import Annotated, Any

import keras
import tensorflow as tf

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.settings import NonNegativeInt, PositiveInt, Range, validate
from keras_bert_impl.keras_internals import learning_rate_of
from keras_bert_impl.tasks.base.task_compile import about_keras_2
from keras_bert_impl.tasks.data.label_checks import with_class_weights
from keras_bert_impl.tasks.inputs import batching, user_data
from keras_bert_impl.tasks.inputs.user_data import DEFAULT_BATCH_SIZE, CheckedExamples
from keras_bert_impl.training.optimizers.run_schedule import restart

_SET_RATE = (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)
_SCHEDULE = keras.optimizers.schedules.LearningRateSchedule


@dataclasses.dataclass(frozen=True)
class FitSizes:
    """Numeric arguments of `fit`; see `keras.Model.fit`."""

    batch_size: PositiveInt | None
    epochs: NonNegativeInt
    initial_epoch: NonNegativeInt
    validation_split: Annotated[float, Range(least=0, below=1)] | None
    steps_per_epoch: PositiveInt | None
    validation_steps: PositiveInt | None
    validation_batch_size: PositiveInt | None
    validation_freq: PositiveInt | tuple[PositiveInt, ...]

    def __post_init__(self):
        validate(self)
        frequency = self.validation_freq
        size = self.batch_size or DEFAULT_BATCH_SIZE
        for name, value in {
            "batch_size": size,
            "validation_batch_size": self.validation_batch_size or size,
            # Keras takes a list.
            "validation_freq": list(frequency) if isinstance(frequency, tuple) else frequency,
        }.items():
            object.__setattr__(self, name, value)


def fit_arguments(
    model: Any,
    x: Any,
    y: Any,
    sample_weight: Any,
    class_weight: Any,
    validation_data: Any,
    shuffle: bool,
    callbacks: Any,
    sizes: FitSizes,
) -> dict[str, Any]:
    """Returns the arguments of `keras.Model.fit`, with data sets of features."""
    callbacks = _checked_callbacks(callbacks, model.optimizer)
    check_frozen_layers(model)
    data_position = _DataPosition()
    validation_steps = sizes.validation_steps
    if user_data.is_batched(x):
        split = sizes.validation_split or None
        user_data.check_batches_alone(x, validation_split=split)
    data = user_data.read(
        model, x, y, sample_weight, True, shuffle, has_begun=data_position.has_begun
    )
    if isinstance(data, CheckedExamples):
        if sizes.validation_split and validation_data is None:
            data, held_out = data.split(sizes.validation_split)
            validation_data = held_out.for_evaluation(
                model, sizes.validation_batch_size, validation_steps
            )
            validation_steps = None
        rows, targets = data.rows(model)
        first_batch = data_position.first_batch
        labels, seed = data.labels, model.compile_arguments()["seed"]
        steps = sizes.steps_per_epoch or batching.num_batches(rows, sizes.batch_size)
        x = batching.training_batches(
            rows, targets, sizes.batch_size, seed, shuffle, first_batch, steps
        )
        x = model.completed(x, first_batch)
        steps_per_epoch = None  # the data set of an epoch has that many batches
    else:
        x, labels, steps_per_epoch = data, None, sizes.steps_per_epoch
        steps = steps_per_epoch or int(x.cardinality())
    if class_weight is not None:
        x = with_class_weights(x, model.class_factors(class_weight, labels))
    if validation_data is not None:
        in_steps = user_data.is_batched(validation_data)
        user_data.check_ends(validation_data, validation_steps, "validation_steps")
        validation_data = user_data.read_validation(
            model,
            validation_data,
            sizes.validation_batch_size,
            validation_steps,
            data_position.has_begun,
        )
        validation_steps = validation_steps if in_steps else None
    _restart_schedule(model, steps, sizes.epochs - sizes.initial_epoch)
    data_position.steps_per_epoch = steps
    return {
        "x": x,
        "epochs": sizes.epochs,
        "callbacks": [*callbacks, data_position],
        "validation_data": validation_data,
        "shuffle": False,  # the dataset determines the order
        "initial_epoch": sizes.initial_epoch,
        "steps_per_epoch": steps_per_epoch,
        "validation_steps": validation_steps,
        "validation_freq": sizes.validation_freq,
    }


def _checked_callbacks(callbacks: Any, optimizer: Any) -> list[keras.callbacks.Callback]:
    """Returns the callbacks of `fit` as a list, checked before training starts."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks = callbacks.callbacks
    rate = learning_rate_of(getattr(optimizer, "inner_optimizer", optimizer))
    callbacks = keras.tree.flatten(callbacks or [])
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            name = getattr(callback, "__name__", None)
            line = f" Write {name}(...)." if isinstance(callback, type) else ""
            raise InputError(
                f"callbacks must be of keras.callbacks. Received: {callback!r:.60}."
                f"{line}{about_keras_2(callback)}"
            )
        if isinstance(callback, _SET_RATE) and isinstance(rate, _SCHEDULE):
            raise InputError(
                f"{type(callback).__name__} sets the learning rate, but the optimizer has a "
                "schedule. Write compile(optimizer=AdamW(3e-5)), with a constant rate, first."
            )
    return callbacks


def check_frozen_layers(model: Any) -> None:
    """Raises if training would not follow a change of `trainable`, since its graph is traced."""
    if not model.trainable_weights:
        warnings.warn("The model does not have any trainable weights.", stacklevel=4)
    if model.uses_default_optimizer:
        return
    if model.train_function is None:
        model.note_trained_variables()
    elif model.trains_other_variables:
        raise InputError(
            "layers were frozen or unfrozen after training: call compile(...) again before fit."
        )


def _restart_schedule(model, steps, epochs):
    """Restarts the default optimizer with a learning rate over all steps of `epochs`."""
    if not model.uses_default_optimizer or epochs < 1:
        return
    if steps < 1:
        raise InputError(
            "the length of the data set is unknown, and the default learning rate depends on "
            "it: pass steps_per_epoch, or compile with an optimizer."
        )
    if model.trains_other_variables:
        model.compile(**model.compile_arguments())
    restart(model.optimizer, steps * epochs)


class _DataPosition(keras.callbacks.Callback):
    """Sets the first batch of the data set of each epoch."""

    steps_per_epoch = 0

    def __init__(self) -> None:
        super().__init__()
        self.first_batch = tf.Variable(0, trainable=False, dtype=tf.int64)
        self._has_begun = False

    def has_begun(self) -> bool:
        """Whether the first epoch has begun."""
        return self._has_begun

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._has_begun = True
        self.first_batch.assign(epoch * self.steps_per_epoch)
