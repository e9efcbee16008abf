"""Sparse categorical cross-entropy, in pure `keras.ops`."""

from typing import Any

from keras import ops

from keras_bert_impl.layers.basic import own_gradient


def cross_entropy(labels: Any, logits: Any) -> Any:
    """Computes `-log softmax(logits)[label]` at each position.

    Args:
        labels: integers `[...]`.
        logits: float32 `[..., classes]`.

    Returns:
        float32 `[...]`, in nats.
    """
    labels, logits = ops.cast(labels, "int32"), ops.convert_to_tensor(logits)
    flat = ops.reshape(logits, (-1, logits.shape[-1]))
    return ops.reshape(_cross_entropy(ops.reshape(labels, (-1,)), flat), ops.shape(labels))


def _cross_entropy(labels, logits):
    """Computes `cross_entropy` for labels `[positions]` and logits `[positions, classes]`."""

    @own_gradient
    def losses(logits):
        highest = ops.max(logits, axis=-1, keepdims=True)
        shares = ops.exp(logits - highest)  # kept for the gradient: softmax times `total`
        total = ops.sum(shares, axis=-1, keepdims=True)
        own = ops.take_along_axis(logits, labels[:, None], axis=-1) - highest

        def gradient(*args, upstream=None):  # Keras's backends differ in how they call it
            if upstream is None:
                (upstream,) = args
            upstream = upstream[:, None]
            places = ops.stack([ops.arange(ops.shape(labels)[0], dtype="int32"), labels], axis=-1)
            at_labels = (ops.exp(own) / total - 1.0) * upstream
            # The softmax, minus 1 at the label.
            return ops.scatter_update(shares * (upstream / total), places, at_labels[:, 0])

        return (ops.log(total) - own)[:, 0], gradient

    return losses(logits)
