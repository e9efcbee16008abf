"""Predictions of a task model for what a user gives to `predict`."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.one_graph import any_shape
from keras_bert_impl.tasks.inputs import user_data
from keras_bert_impl.tasks.inputs.batching import list_of_batches, sorted_batches, takes_any_shape
from keras_bert_impl.tasks.inputs.blocks import blocks, in_blocks
from keras_bert_impl.tasks.inputs.feature_rows import FeatureRows
from keras_bert_impl.training.steps.compiled import compiled


def predict(model: Any, x: Any, batch_size: int, steps: int | None, **kwargs: Any) -> Any:
    """Predicts as `RawTextTrainer.predict`, whose arguments are checked before."""
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
    """Joins the return values of `predict` for each batch to one array or list."""
    parts = list(parts)
    if not parts:
        raise InputError("there are no batches to predict.")
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else sum(parts, [])


def _predict_block(model, batch_size, texts, **kwargs):
    rows, _ = model.rows(texts)
    if not rows.num_texts:
        return model.joined(_scores_of_nothing(model), texts, rows)
    outputs = predict_sorted(model, model.predict_batches, rows, batch_size, **kwargs)
    return model.joined(outputs, texts, rows)


def _scores_of_nothing(model):
    """Returns the scores of no texts, arrays with 0 rows."""
    # Not every layer accepts a batch of 0 rows.
    one = {
        name: tf.zeros([1, *(size or 2 for size in symbol.shape[1:])], symbol.dtype)
        for name, symbol in model.input.items()
    }
    outputs = model.scores(model(one, training=False))
    return keras.tree.map_structure(lambda scores: np.asarray(scores)[:0], outputs)


def predict_sorted(
    model: Any, predict_batches: Callable, rows: Any, batch_size: int, **kwargs: Any
) -> Any:
    """Predicts rows in batches of similar length; returns the outputs in the order of the rows."""
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
    """Predicts a few batches; returns the joined outputs."""
    progress = keras.utils.Progbar(len(batches), verbose=1 if verbose == "auto" else verbose)
    outputs = []
    for (features,) in batches:
        outputs.append(predict_one(model, features))
        progress.add(1)
    return keras.tree.map_structure(lambda *parts: np.concatenate(parts), *outputs)


def predict_one(model: keras.Model, features: dict[str, Any]) -> Any:
    """Predicts the features of one batch, TensorFlow's tensors, as Keras's `predict_on_batch`."""
    trace_for_any_shape(model, (features,))
    of_backend = keras.tree.map_structure(
        lambda feature: keras.ops.convert_to_tensor(feature.numpy()), features
    )
    return keras.Model.predict_on_batch(model, of_backend)


def outputs_of_batch(model: Any, features: dict[str, Any]) -> Any:
    """Computes the outputs of the network for one batch, of which `predict` returns the `scores`."""
    if model.outputs_function is None:
        signature = keras.tree.map_structure(any_shape, features)
        model.outputs_function = compiled(
            lambda features: model(features, training=False), model, [signature]
        )
    return model.outputs_function(features)


def trace_for_any_shape(model: Any, batch: tuple) -> None:
    """Traces the prediction of batches once, where Keras would trace it for the first shape, and
    again at the second.
    """
    is_traced = model.predict_function is not None
    several = model.steps_per_execution > 1 or model.distribute_strategy.num_replicas_in_sync > 1
    if is_traced or several or model.run_eagerly or not takes_any_shape(model):
        return
    model.make_predict_function()
    model.predict_function.get_concrete_function([keras.tree.map_structure(any_shape, batch)])
