"""Converts a user's `tf.data.Dataset` of texts or features to features and labels."""

from typing import Any

import keras
import tensorflow as tf

from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.tasks.data.user_input import NO_TEXTS
from keras_bert_impl.tasks.inputs.feature_rows import complete
from keras_bert_impl.training.steps.data_options import without_autotuner


def encode_dataset(
    model: Any, dataset: tf.data.Dataset, with_labels: bool = True
) -> tf.data.Dataset:
    """Encodes the batches of a dataset for the model's network.

    Args:
        model: `RawTextTrainer`.
        dataset: dataset of batches `(x, labels)` or `(x, labels, sample_weight)`, where x is a
            string tensor `[batch]`, a tuple of two, or a dict of features.
        with_labels: bool. Whether to keep the labels. Default True.

    Raises:
        InputError: the batches have another form.
    """
    x, y, _ = _parts(dataset.element_spec)
    with_labels = with_labels and (model.needs_labels or y is not None)
    _check(model, x, y, with_labels)

    @tf.autograph.experimental.do_not_convert
    def encode(x, y=None, *weights):
        if isinstance(x, dict):
            x = complete(x, model.tokenizer.pad_id, model.feature_names, model.config)
        else:
            x = model.features_in_graph(x)
        return (x, model.label_tensor(y), *weights) if with_labels else x

    encoded = dataset.map(encode, num_parallel_calls=tf.data.AUTOTUNE)
    return without_autotuner(encoded.prefetch(tf.data.AUTOTUNE))


def _parts(spec):
    """Splits a batch spec into (x, y or None, sample_weight or None).

    Raises:
        InputError: the batch has other parts; the message gives the line that converts it.
    """
    if isinstance(spec, tuple) and len(spec) > 3:
        raise InputError(
            f"a data set must give (texts, labels) or (texts, labels, sample_weight). Received: "
            f"{len(spec)} parts"
        )
    x, y, weights = keras.utils.unpack_x_y_sample_weight(spec)
    if isinstance(x, dict) and any(part.dtype == tf.string for part in tf.nest.flatten(x)):
        texts = next((name for name, part in x.items() if _is_string(part)), "text")
        labels = next((name for name in x if str(name).lower() in NO_TEXTS), "label")
        part = f"row[{texts!r}]"
        line = f"lambda row, y: ({part}, y)"
        if y is None:
            line = f"lambda row: ({part}, row[{labels!r}])"
        raise InputError(
            f"a data set gives rows with {listed(x)}: write data.map({line}), or to predict "
            f"data.map(lambda row: {part})."
        )
    return x, y, weights


def _check(model, x, y, with_labels):
    if model.has_several_rows and not isinstance(x, dict):
        raise InputError(
            "a data set of strings has a row for each text, but windows and choices need several: "
            "give texts as a list, or a data set of features."
        )
    for part in tf.nest.flatten(x):
        if part.dtype == tf.string and part.shape.rank != model.text_rank:
            shape = "[batch]" if model.text_rank == 1 else "[batch, group]"
            raise InputError(
                f"a data set must give batches of texts, string {shape}. Received: {part}"
            )
    if with_labels and y is None:
        raise InputError("the data set has no labels; it must give (texts, labels).")
    if not with_labels and _is_string(x) and _is_string(y):
        raise InputError(
            "the data set gives (string, string), which is a text and its label; for pairs of "
            "segments it must give ((first, second),)."
        )


def _is_string(spec):
    return isinstance(spec, tf.TensorSpec) and spec.dtype == tf.string
