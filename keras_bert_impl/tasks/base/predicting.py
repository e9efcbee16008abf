"""Predictions of a task model for what a user gives to `predict`."""

import functools
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.tasks.inputs import batching, model_data, streams
from keras_bert_impl.tasks.inputs.blocks import blocks, in_blocks
from keras_bert_impl.tasks.inputs.feature_rows import FeatureRows
from keras_bert_impl.tasks.inputs.model_data import encode_dataset, first_batches


def predict(model: Any, x: Any, batch_size: int, steps: int | None, **kwargs: Any) -> Any:
    """Predicts as `RawTextTrainer.predict`, whose arguments are checked before.

    Args:
        **kwargs: arguments of `keras.Model.predict`, with `verbose`.
    """
    if streams.gives_batches(x):
        batches = streams.text_batches(x, steps, getattr(model, "labels", ()))
        return streams.joined(
            predict(model, texts, batch_size, None, **kwargs) for texts in batches
        )
    x = model_data.read(model, x)
    if isinstance(x, tf.data.Dataset):
        data = encode_dataset(model, x, with_labels=False)
        return model.predict_features(data, steps=steps, **kwargs)
    if isinstance(x, dict):
        rows = FeatureRows(model_data.completed_features(model, x))
        rows = first_batches(rows, batch_size, steps)
        return model.predict_features(batching.sorted_batches(rows, (), batch_size)[0], **kwargs)
    texts = first_batches(model.as_texts(x), batch_size, steps)
    limits = model.block_texts, model.block_characters
    if len(next(blocks(texts, *limits))) == len(texts):
        return _predict_block(model, batch_size, texts, **kwargs)
    verbose = kwargs["verbose"]
    progress = keras.utils.Progbar(len(texts), verbose=1 if verbose == "auto" else verbose)
    each = functools.partial(_predict_block, model, batch_size, **kwargs | {"verbose": 0})
    return in_blocks(each, texts, *limits, done=progress.add)


def _predict_block(model, batch_size, texts, **kwargs):
    rows, _ = model.rows(texts)
    if not rows.num_texts:
        return model.joined(model_data.scores_of_nothing(model), texts, rows)
    data, order = batching.sorted_batches(rows, (), batch_size)
    outputs = model.predict_batches(data, **kwargs)
    back = np.argsort(order)
    outputs = keras.tree.map_structure(lambda scores: scores[back], outputs)
    return model.joined(outputs, texts, rows)
