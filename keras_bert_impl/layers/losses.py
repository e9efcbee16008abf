"""Cross-entropy and distillation losses.

Shape legend: batch = examples; length = tokens; ... = any axes, which are preserved.
"""

from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.layers.basic import own_gradient
from keras_bert_impl.utils.errors import InputError


def cross_entropy(labels: Any, logits: Any) -> Any:
    """Computes `-log softmax(logits)[label]` in nats, float32 `[...]`.

    Args:
        labels: integers `[...]`.
        logits: float32 `[..., classes]`.
    """
    labels, logits = ops.cast(labels, "int32"), ops.convert_to_tensor(logits)
    flat = ops.reshape(logits, (-1, logits.shape[-1]))
    return ops.reshape(_compute_cross_entropy(ops.reshape(labels, (-1,)), flat), ops.shape(labels))


def _compute_cross_entropy(labels, logits):
    """Implements `cross_entropy` for labels `[positions]` and logits `[positions, classes]`."""

    @own_gradient
    def losses(logits):
        highest = ops.max(logits, axis=-1, keepdims=True)
        shares = ops.exp(logits - highest)  # the softmax times `total`, stored for the gradient
        total = ops.sum(shares, axis=-1, keepdims=True)
        label_logits = ops.take_along_axis(logits, labels[:, None], axis=-1) - highest

        def gradient(*args, upstream=None):  # Only some Keras backends pass `upstream` by name.
            if upstream is None:
                (upstream,) = args
            upstream = upstream[:, None]
            places = ops.stack([ops.arange(ops.shape(labels)[0], dtype="int32"), labels], axis=-1)
            at_labels = (ops.exp(label_logits) / total - 1.0) * upstream
            # The gradient is the softmax minus 1 at the label.
            return ops.scatter_update(shares * (upstream / total), places, at_labels[:, 0])

        return (ops.log(total) - label_logits)[:, 0], gradient

    return losses(logits)


Tensor = Any


def kl_divergence(targets: Tensor, logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Computes `T^2 * KL(softmax(targets / T) || softmax(logits / T))` in nats, float32 `[...]`.

    Args:
        targets, logits: `[..., classes]`, the logits of the teacher and the student.

    Source: Hinton et al. 2015 (arXiv:1503.02531), section 2.
    """
    targets, logits = (
        ops.log_softmax(ops.cast(x, "float32") / temperature, axis=-1) for x in (targets, logits)
    )
    return temperature**2 * ops.sum(ops.exp(targets) * (targets - logits), axis=-1)


def binary_kl_divergence(targets: Tensor, logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Computes the `kl_divergence` of independent binary labels, averaged over the last axis."""
    targets, logits = (ops.cast(x, "float32") / temperature for x in (targets, logits))
    divergences = sum(
        ops.sigmoid(sign * targets)
        * (ops.log_sigmoid(sign * targets) - ops.log_sigmoid(sign * logits))
        for sign in (1.0, -1.0)
    )
    return temperature**2 * ops.mean(divergences, axis=-1)


def squared_error(targets: Tensor, outputs: Tensor) -> Tensor:
    """Computes the mean squared error over the last axis, float32 `[...]`."""
    difference = ops.cast(outputs, "float32") - ops.cast(targets, "float32")
    return ops.mean(ops.square(difference), axis=-1)


def cosine_distance(targets: Tensor, outputs: Tensor) -> Tensor:
    """Computes one minus the cosine similarity over the last axis: float32 `[...]`, from 0 to 2.

    Source: Sanh et al. 2019 (arXiv:1910.01108), section 3.
    """
    targets, outputs = (
        ops.normalize(ops.cast(x, "float32"), axis=-1, order=2) for x in (targets, outputs)
    )
    return 1.0 - ops.sum(targets * outputs, axis=-1)


def mean_over_tokens(values: Tensor, padding_mask: Tensor) -> Tensor:
    """Averages values `[batch, length]` over the real tokens, float32 `[batch]`."""
    weights = ops.cast(padding_mask, "float32")
    return ops.sum(values * weights, axis=1) / ops.maximum(ops.sum(weights, axis=1), 1.0)


def attention_error(targets: Tensor, logits: Tensor, example_ids: Tensor) -> Tensor:
    """Computes the mean squared error of attention logits, over heads and pairs of real tokens.

    Args:
        targets, logits: float32 `[batch, heads, length, length]`, attention logits of the teacher
            and the student before the softmax, from `Encoder.with_outputs("attention_logits")`.
        example_ids: `[batch, length]`, 1-based index of each token's example, or 0 for padding. If
            examples are not packed, pass the padding mask. Pairs with padding and pairs of tokens
            from different examples do not count.

    Returns:
        float32 `[batch]`.

    Source: Jiao et al. 2020, "TinyBERT", section 3, equation 7.
    """
    errors = ops.mean(ops.square(logits - targets), axis=1)  # [batch, length, length]
    query_ids, key_ids = example_ids[:, :, None], example_ids[:, None, :]
    weights = ops.cast(ops.logical_and(query_ids > 0, ops.equal(query_ids, key_ids)), "float32")
    total = ops.maximum(ops.sum(weights, axis=(1, 2)), 1.0)
    return ops.sum(errors * weights, axis=(1, 2)) / total


def layer_errors(
    taught: dict[str, Any],
    learned: dict[str, Any],
    example_ids: Tensor,
    maps: Sequence[Callable[[Tensor], Tensor]] | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes the errors between a student's and a teacher's hidden states and attention.

    Returns:
        (states, attention): squared errors summed over the layers, float32 `[batch, length]` and
        `[batch]`.

    Source: Jiao et al. 2020, "TinyBERT", section 3, equations 7 to 9.
    """
    states = learned["hidden_states"]
    stride = (len(taught["hidden_states"]) - 1) // (len(states) - 1)
    if maps:
        map_embeddings, map_states = maps
        states = [map_embeddings(states[0]), *map(map_states, states[1:])]
    pairs = zip(taught["hidden_states"][::stride], states, strict=True)
    state_errors = sum(squared_error(*pair) for pair in pairs)
    logits = taught["attention_logits"][stride - 1 :: stride]
    pairs = zip(logits, learned["attention_logits"], strict=True)
    return state_errors, sum(attention_error(*pair, example_ids) for pair in pairs)


def check_layers(student: EncoderConfig, teacher: EncoderConfig) -> None:
    """Raises `InputError` if the layers of a student and a teacher cannot be matched."""
    if teacher.num_layers % student.num_layers:
        raise InputError(
            f"the teacher's number of layers, {teacher.num_layers}, must be a multiple of the "
            f"student's, {student.num_layers}."
        )
    if student.num_heads != teacher.num_heads:
        raise InputError(
            "attention distillation needs equal numbers of heads: the student has "
            f"{student.num_heads}, the teacher {teacher.num_heads}."
        )
