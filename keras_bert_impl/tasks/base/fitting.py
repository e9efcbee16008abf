"""Converts arguments of `fit` and `predict` of a task model to arguments of Keras."""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.data.batches import batching
from keras_bert_impl.data.batches.batching import list_of_batches, sorted_batches, takes_any_shape
from keras_bert_impl.data.batches.blocks import blocks, in_blocks
from keras_bert_impl.data.tables.label_checks import with_class_weights
from keras_bert_impl.tasks.base import user_data
from keras_bert_impl.tasks.base.compile_arguments import about_keras_2
from keras_bert_impl.tasks.base.feature_rows import FeatureRows
from keras_bert_impl.tasks.base.user_data import DEFAULT_BATCH_SIZE, CheckedExamples
from keras_bert_impl.training.optimizers.schedules import reset, set_run_length
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.internals import learning_rate_of
from keras_bert_impl.utils.one_graph import any_shape, compiled
from keras_bert_impl.utils.settings import NonNegativeInt, PositiveInt, Range, validate

_SET_RATE = (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)
_SCHEDULE = keras.optimizers.schedules.LearningRateSchedule


@dataclasses.dataclass(frozen=True)
class FitSizes:
    """Validates the numeric arguments of `keras.Model.fit`."""

    batch_size: PositiveInt | None
    epochs: NonNegativeInt
    initial_epoch: NonNegativeInt
    validation_split: Annotated[float, Range(least=0, below=1)] | None
    steps_per_epoch: PositiveInt | None
    validation_steps: PositiveInt | None
    validation_batch_size: PositiveInt | None
    validation_freq: PositiveInt | tuple[PositiveInt, ...]

    def __post_init__(self):
        user_data.checked_sizes(self.batch_size)
        validate(self)
        frequency = self.validation_freq
        size = self.batch_size or DEFAULT_BATCH_SIZE
        for name, value in {
            "batch_size": size,
            "validation_batch_size": self.validation_batch_size or size,
            # Keras requires a list.
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
    """Converts arguments of `TaskModel.fit` to arguments of `keras.Model.fit`."""
    callbacks = _check_callbacks(callbacks, model.optimizer)
    check_frozen_layers(model)
    data_position = _DataPosition(model.batches_done, sizes)
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
            _warn_of_sorted_labels(data.labels, held_out.labels)
            validation_data = held_out.for_evaluation(
                model, sizes.validation_batch_size, validation_steps
            )
            validation_steps = None
        rows, targets = data.rows(model)
        first_batch = data_position.first_batch
        labels, seed = data.labels, model.compile_arguments()["seed"]
        steps = sizes.steps_per_epoch or batching.num_batches(rows, sizes.batch_size)
        remaining_steps = steps - model.batches_done
        x = batching.training_batches(
            rows, targets, sizes.batch_size, seed, shuffle, first_batch, remaining_steps
        )
        x = model.completed(x, first_batch)
        steps_per_epoch = None  # each epoch's dataset has this number of batches
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
    _prepare_default_optimizer(model, steps, sizes)
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


def _warn_of_sorted_labels(labels: Any, held_out: Any) -> None:
    if not isinstance(labels, np.ndarray) or labels.ndim > 1 or labels.dtype.kind not in "iu":
        return
    trained, validated = set(labels.tolist()), set(held_out.tolist())
    is_one_class = len(validated) == 1 and len(held_out) > 1 and len(trained | validated) > 1
    if is_one_class or validated - trained:
        problem = "are all of one class" if is_one_class else "have classes without training texts"
        warnings.warn(
            f"validation_split holds out the last {len(held_out)} texts, which {problem}, as if the "
            "texts were sorted by label. Shuffle texts and labels, or pass validation_data.",
            stacklevel=4,
        )


def _check_callbacks(callbacks: Any, optimizer: Any) -> list[keras.callbacks.Callback]:
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks = callbacks.callbacks
    rate = learning_rate_of(getattr(optimizer, "inner_optimizer", optimizer))
    callbacks = keras.tree.flatten(callbacks or [])
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            name = getattr(callback, "__name__", None)
            line = f" Write {name}(...)." if isinstance(callback, type) else ""
            raise InputError(
                f"callbacks must be objects of keras.callbacks. Received: {callback!r:.60}."
                f"{line}{about_keras_2(callback)}"
            )
        if isinstance(callback, _SET_RATE) and isinstance(rate, _SCHEDULE):
            raise InputError(
                f"{type(callback).__name__} sets the learning rate, but the optimizer has a "
                "schedule. First call compile(optimizer=AdamW(3e-5)), with a constant rate."
            )
    return callbacks


def check_frozen_layers(model: Any) -> None:
    """Raises if layers were frozen or unfrozen after training."""
    if not model.trainable_weights:
        warnings.warn("The model does not have any trainable weights.", stacklevel=4)
    if model.uses_default_optimizer:
        return
    if model.train_function is None:
        model.note_trained_variables()
    elif model.trains_other_variables:
        raise InputError(
            "layers were frozen or unfrozen after training. Call compile(...) again before fit."
        )


def _prepare_default_optimizer(model, steps, sizes):
    """Starts the default optimizer again, unless `initial_epoch` continues a run."""
    if not model.uses_default_optimizer or sizes.epochs <= sizes.initial_epoch:
        return
    if steps < 1:
        raise InputError(
            "the default learning-rate schedule needs the number of batches, which is unknown. "
            "Pass steps_per_epoch, or compile with an optimizer."
        )
    if model.trains_other_variables:
        model.compile(**model.compile_arguments())
    if not sizes.initial_epoch:
        reset(model.optimizer)


class _DataPosition(keras.callbacks.Callback):
    """At each epoch, sets `first_batch` to the number of batches since the start of training.

    The callback also sets the length of the default schedule. It is the last callback, because
    `BackupAndRestore` loads the optimizer state.
    """

    steps_per_epoch = 0

    def __init__(self, batches_done: int, sizes: FitSizes) -> None:
        super().__init__()
        self._batches_done = batches_done
        self._sizes = sizes
        self.first_batch = tf.Variable(0, trainable=False, dtype=tf.int64)
        self._has_begun = False

    def has_begun(self) -> bool:
        return self._has_begun

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        initial_epoch = self.model._initial_epoch or self._sizes.initial_epoch
        if self.model.uses_default_optimizer and initial_epoch < self._sizes.epochs:
            set_run_length(
                self.model.optimizer, self.steps_per_epoch, self._sizes.epochs, initial_epoch
            )

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._has_begun = True
        self.first_batch.assign(epoch * self.steps_per_epoch + self._batches_done)


def predict(model: Any, x: Any, batch_size: int, steps: int | None, **kwargs: Any) -> Any:
    """Implements `RawTextTrainer.predict` for valid arguments."""
    if user_data.gives_batches(x):
        batches = user_data.text_batches(x, steps, getattr(model, "labels", ()))
        return joined(predict(model, texts, batch_size, None, **kwargs) for texts in batches)
    texts = user_data.read_texts(model, x)
    if isinstance(texts, tf.data.Dataset):
        return model.predict_features(texts, steps=steps, **kwargs)
    texts = user_data.first_batches(texts, batch_size, steps)
    if isinstance(texts, FeatureRows):
        return predict_sorted(model, model.predict_features, texts, batch_size, **kwargs)
    limits = model.block_texts, model.block_characters
    if len(next(blocks(texts, *limits))) == len(texts):
        return _predict_block(model, batch_size, texts, **kwargs)
    verbose = kwargs["verbose"]
    progress = keras.utils.Progbar(len(texts), verbose=1 if verbose == "auto" else verbose)
    each = functools.partial(_predict_block, model, batch_size, **kwargs | {"verbose": 0})
    return in_blocks(each, texts, *limits, done=progress.add)


def joined(parts: Iterable) -> Any:
    parts = list(parts)
    if not parts:
        raise InputError("there are no batches to predict.")
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else sum(parts, [])


def _predict_block(model, batch_size, texts, **kwargs):
    rows, _ = model.rows(texts)
    if not rows.num_texts:
        return model.joined(_make_empty_scores(model), texts, rows)
    outputs = predict_sorted(model, model.predict_batches, rows, batch_size, **kwargs)
    return model.joined(outputs, texts, rows)


def _make_empty_scores(model):
    # Some layers do not support empty batches.
    features = {
        name: tf.zeros([1, *(size or 2 for size in symbol.shape[1:])], symbol.dtype)
        for name, symbol in model.input.items()
    }
    outputs = model.scores(model(features, training=False))
    return keras.tree.map_structure(lambda scores: np.asarray(scores)[:0], outputs)


def predict_sorted(
    model: Any, predict_batches: Callable, rows: Any, batch_size: int, **kwargs: Any
) -> Any:
    """Predicts in batches of similar length; returns the outputs in the original order."""
    is_one_device = model.distribute_strategy.num_replicas_in_sync == 1
    is_few = rows.num_texts <= batch_size and is_one_device and not kwargs.get("callbacks")
    batches = list_of_batches if is_few else functools.partial(sorted_batches, targets=())
    data, order = batches(rows, batch_size=batch_size, any_shape=takes_any_shape(model))
    outputs = predict_batches(data, **kwargs)
    back = np.argsort(order)
    return keras.tree.map_structure(lambda scores: scores[back], outputs)


def predict_list(
    model: keras.Model,
    batches: list[tuple],
    verbose: int | str = "auto",
    callbacks: None | list = None,
) -> Any:
    progress = keras.utils.Progbar(len(batches), verbose=1 if verbose == "auto" else verbose)
    outputs = []
    for (features,) in batches:
        outputs.append(predict_one(model, features))
        progress.add(1)
    return keras.tree.map_structure(lambda *parts: np.concatenate(parts), *outputs)


def predict_one(model: keras.Model, features: dict[str, Any]) -> Any:
    """Runs `keras.Model.predict_on_batch` on a dict of TensorFlow tensors, with any backend."""
    trace_for_any_shape(model, (features,))
    tensors = keras.tree.map_structure(
        lambda feature: keras.ops.convert_to_tensor(feature.numpy()), features
    )
    return keras.Model.predict_on_batch(model, tensors)


def outputs_of_batch(model: Any, features: dict[str, Any]) -> Any:
    if model.outputs_function is None:
        signature = keras.tree.map_structure(any_shape, features)
        model.outputs_function = compiled(
            lambda features: model(features, training=False), model, [signature]
        )
    return model.outputs_function(features)


def trace_for_any_shape(model: Any, batch: tuple) -> None:
    is_traced = model.predict_function is not None
    several = model.steps_per_execution > 1 or model.distribute_strategy.num_replicas_in_sync > 1
    if is_traced or several or model.run_eagerly or not takes_any_shape(model):
        return
    # By default, Keras traces the shape of the first batch.
    model.make_predict_function()
    model.predict_function.get_concrete_function([keras.tree.map_structure(any_shape, batch)])
