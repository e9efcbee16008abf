"""Token weights in the loss and the metrics of a tagger."""

from typing import Any

import keras
from keras import ops


def token_weights(y: Any, sample_weight: Any) -> Any:
    """Computes the weight of each token, float32 `[batch, length]`; 0 for tokens without a label.

    Args:
        y: int `[batch, length]`, negative for tokens without a label.
        sample_weight: `[batch]`, `[batch, length]` or None.
    """
    weights = ops.cast(y >= 0, "float32")
    if sample_weight is None:
        return weights
    sample_weight = ops.cast(sample_weight, "float32")
    return weights * (sample_weight[:, None] if len(sample_weight.shape) == 1 else sample_weight)


@keras.saving.register_keras_serializable("keras_bert_impl")
class TokenAccuracy(keras.metrics.Mean):
    """Fraction of labelled tokens whose label has the highest logit."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:

        hits = ops.equal(ops.cast(ops.argmax(y_pred, axis=-1), y_true.dtype), y_true)
        weights = token_weights(y_true, sample_weight)
        # Flattened, because Keras would average each row first and give long rows less weight.
        hits, weights = (ops.reshape(x, (-1,)) for x in (ops.cast(hits, "float32"), weights))
        super().update_state(hits, weights)
