"""What a student's outputs are from a teacher's: losses of distillation, in pure `keras.ops`.

Shape legend: batch = examples; length = tokens; ... = any axes, which stay.
"""

from keras import ops


def kl_divergence(targets, logits, temperature=1.0):
    """`T^2 * KL(softmax(targets / T) || softmax(logits / T))`.

    Its gradient is that of the cross-entropy with soft targets, and it is 0 where the two agree.
    The square keeps the gradient as large as it is without a temperature.

    Args:
        targets, logits: `[..., classes]`, of teacher and student.
        temperature: float, T.

    Returns:
        float32 `[...]`, in nats.

    Source: Hinton et al. 2015 (arXiv:1503.02531), section 2.

    Example:
        kl_divergence([[2.0, 0.0]], [[0.0, 2.0]], temperature=2.0)
    """
    targets, logits = (
        ops.log_softmax(ops.cast(x, "float32") / temperature, axis=-1) for x in (targets, logits)
    )
    return temperature**2 * ops.sum(ops.exp(targets) * (targets - logits), axis=-1)


def binary_kl_divergence(targets, logits, temperature=1.0):
    """The same for labels that are there or not, each by itself: the mean over the labels.

    Args:
        targets, logits: `[..., labels]`, of teacher and student.
        temperature: float.

    Returns:
        float32 `[...]`.
    """
    targets, logits = (ops.cast(x, "float32") / temperature for x in (targets, logits))
    divergences = sum(
        ops.sigmoid(sign * targets)
        * (ops.log_sigmoid(sign * targets) - ops.log_sigmoid(sign * logits))
        for sign in (1.0, -1.0)
    )
    return temperature**2 * ops.mean(divergences, axis=-1)


def squared_error(targets, outputs):
    """The mean of the squares of the differences.

    Args:
        targets, outputs: `[..., values]`.

    Returns:
        float32 `[...]`.
    """
    difference = ops.cast(outputs, "float32") - ops.cast(targets, "float32")
    return ops.mean(ops.square(difference), axis=-1)


def cosine_distance(targets, outputs):
    """One minus the cosine of the angle between vectors.

    Args:
        targets, outputs: `[..., values]`.

    Returns:
        float32 `[...]`, from 0 to 2.

    Source: Sanh et al. 2019 (arXiv:1910.01108), section 3.
    """
    targets, outputs = (
        ops.normalize(ops.cast(x, "float32"), axis=-1, order=2) for x in (targets, outputs)
    )
    return 1.0 - ops.sum(targets * outputs, axis=-1)


def mean_over_tokens(values, padding_mask):
    """The mean of what the real tokens of each example have.

    Args:
        values: float32 `[batch, length]`, such as the `squared_error` of hidden states.
        padding_mask: `[batch, length]`, 1 for a real token.

    Returns:
        float32 `[batch]`.
    """
    weights = ops.cast(padding_mask, "float32")
    return ops.sum(values * weights, axis=1) / ops.maximum(ops.sum(weights, axis=1), 1.0)


def attention_error(targets, logits, padding_mask):
    """The mean of the squares of the differences of attention, over heads and real tokens.

    Args:
        targets, logits: float32 `[batch, heads, length, length]`, of teacher and student: as
            `Encoder.with_outputs("attention_logits")` gives them, before the softmax.
        padding_mask: `[batch, length]`, 1 for a real token. Padding is left out, as what looks and
            as what is looked at.

    Returns:
        float32 `[batch]`.

    Source: Jiao et al. 2020, "TinyBERT", section 3, equation 7.
    """
    errors = ops.mean(ops.square(logits - targets), axis=1)  # [batch, length, length]
    weights = ops.cast(padding_mask, "float32")
    weights = weights[:, :, None] * weights[:, None, :]
    total = ops.maximum(ops.sum(weights, axis=(1, 2)), 1.0)
    return ops.sum(errors * weights, axis=(1, 2)) / total
