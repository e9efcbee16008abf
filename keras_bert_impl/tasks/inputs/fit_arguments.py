"""Checks the sizes and counts passed to `fit`, `evaluate` and `predict` of a task model."""

import dataclasses
from typing import Annotated, Any

import keras
import tensorflow as tf

from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.settings import NonNegativeInt, PositiveInt, Range, check, validate
from keras_bert_impl.tasks.inputs import streams

DEFAULT_BATCH_SIZE = 32
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
        for name, value in {
            "batch_size": self.batch_size or DEFAULT_BATCH_SIZE,
            "validation_batch_size": (
                self.validation_batch_size or self.batch_size or DEFAULT_BATCH_SIZE
            ),
            # Keras takes a list.
            "validation_freq": list(frequency) if isinstance(frequency, tuple) else frequency,
        }.items():
            object.__setattr__(self, name, value)


def checked_sizes(batch_size: int | None, steps: int | None = None) -> tuple[int, int | None]:
    """Checks `batch_size` and `steps` of `evaluate` and `predict`; applies the default size."""
    batch_size = check("batch_size", batch_size, PositiveInt | None)
    return batch_size or DEFAULT_BATCH_SIZE, check("steps", steps, PositiveInt | None)


def is_batched(x: Any) -> bool:
    """Whether `x` is a dataset, a generator or a `PyDataset`, whose items are batches."""
    return isinstance(x, tf.data.Dataset) or streams.gives_batches(x)


def check_batches_alone(x: Any, **beside: Any) -> None:
    """Checks that batches, which contain labels and weights, are the only data argument.

    Args:
        x: see `is_batched`.
        **beside: other arguments by name; None if not given.

    Raises:
        InputError: another argument is given, which would be ignored.
    """
    given = [name for name, value in beside.items() if value is not None]
    if not given:
        return
    raise InputError(
        f"x is a {type(x).__name__}, whose batches hold labels and weights: leave out "
        f"{listed(given)}, and give batches of (texts, labels) or (texts, labels, sample_weight)."
    )


def first_batches(x: Any, batch_size: int, steps: int | None) -> Any:
    """Returns the part of a sequence in the first `steps` batches; all of it for None."""
    return x if x is None or steps is None else x[: steps * batch_size]


def check_callbacks(callbacks: Any, optimizer: Any) -> None:
    """Checks the callbacks of `fit` before training starts.

    Args:
        callbacks: see `keras.Model.fit`.
        optimizer: optimizer of the model.

    Raises:
        InputError: an entry is not a callback, or a callback sets the learning rate although the
            optimizer has a schedule; some of these fail only after epochs.
    """
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks = callbacks.callbacks
    rate = getattr(getattr(optimizer, "inner_optimizer", optimizer), "_learning_rate", None)
    for callback in keras.tree.flatten(callbacks or []):
        if not isinstance(callback, keras.callbacks.Callback):
            name = getattr(callback, "__name__", None)
            line = f" Write {name}(...)." if isinstance(callback, type) else ""
            raise InputError(
                f"callbacks must be keras.callbacks. Received: {callback!r:.60}.{line}"
            )
        if isinstance(callback, _SET_RATE) and isinstance(rate, _SCHEDULE):
            raise InputError(
                f"{type(callback).__name__} sets the learning rate, which a schedule decides here: "
                "write compile(optimizer=AdamW(3e-5)), with a number, first."
            )
