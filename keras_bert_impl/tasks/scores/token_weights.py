"""Token labels of a tagger: their check, and their weights in the loss and the metrics."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.data.labels import class_indices
from keras_bert_impl.tasks.scores.counting import Accuracy


def check_token_labels(labels: Any, mask: np.ndarray, sample_weight: Any, names: list[str]) -> None:
    """Raises an `InputError` unless labels have the shape of the features and none is on padding.

    Args:
        labels: numbers [batch, length], negative for tokens without a label; or one-hot rows.
        mask: [batch, length], 0 for padding.
        sample_weight: [batch], [batch, length] or None. A label of weight 0 may be on padding.
    """
    if all(np.ndim(row) == 2 for row in labels):
        labels = class_indices(labels)
    shapes = [np.shape(row) for row in labels]
    if shapes != [mask.shape[1:]] * len(mask):
        raise InputError(
            f"labels must have the shape of the features, {list(mask.shape)}, and be negative "
            "for unlabeled tokens."
        )
    learned = np.asarray(labels) >= 0
    if sample_weight is not None:
        learned &= np.broadcast_to(np.asarray(sample_weight).T, mask.T.shape).T != 0
    at_padding = np.argwhere(learned & (mask == 0))
    if len(at_padding):
        row, column = at_padding[0]
        raise InputError(
            f"labels, row {row}, position {column}: label {names[labels[row][column]]!r} "
            f"is on padding, like {len(at_padding)} in all; labels of padding must be negative."
        )


def token_weights(y: Any, sample_weight: Any) -> Any:
    """Computes the weight of each token, float32 `[batch, length]`; 0 for tokens without a label.

    Args:
        y: int `[batch, length]`, negative for tokens without a label; or one-hot rows
            `[batch, length, classes]`, zeros for such tokens.
        sample_weight: `[batch]`, `[batch, length]` or None.
    """
    weights = ops.cast(y >= 0 if len(y.shape) == 2 else ops.any(y > 0, axis=-1), "float32")
    if sample_weight is None:
        return weights
    sample_weight = ops.cast(sample_weight, "float32")
    return weights * (sample_weight[:, None] if len(sample_weight.shape) == 1 else sample_weight)


@keras.saving.register_keras_serializable("keras_bert_impl")
class TokenAccuracy(Accuracy):
    """Fraction of labeled tokens whose label has the highest logit."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(y_true, y_pred, token_weights(y_true, sample_weight))
