"""What a student's outputs are from a teacher's: losses of distillation, in pure `keras.ops`.

Shape legend: batch = examples; length = tokens; ... = any axes, which stay.
"""

from keras import ops

from keras_bert_impl.io.errors import InputError


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


def attention_error(targets, logits, example_ids):
    """The mean of the squares of the differences of attention, over heads and real tokens.

    Args:
        targets, logits: float32 `[batch, heads, length, length]`, of teacher and student: as
            `Encoder.with_outputs("attention_logits")` gives them, before the softmax.
        example_ids: `[batch, length]`, of packed rows the number of each token's example, from 1,
            and 0 for padding; a padding mask says that all is one example. What looks at padding
            or at another example is left out, and so is what padding looks at.

    Returns:
        float32 `[batch]`.

    Source: Jiao et al. 2020, "TinyBERT", section 3, equation 7.
    """
    errors = ops.mean(ops.square(logits - targets), axis=1)  # [batch, length, length]
    looking, seen = example_ids[:, :, None], example_ids[:, None, :]
    weights = ops.cast(ops.logical_and(looking > 0, ops.equal(looking, seen)), "float32")
    total = ops.maximum(ops.sum(weights, axis=(1, 2)), 1.0)
    return ops.sum(errors * weights, axis=(1, 2)) / total


def layer_errors(taught, learned, example_ids, maps=None):
    """What a student's embeddings, layers and attention are from those of a teacher.

    Layer m of the student's M learns from layer `m * L / M` of the teacher's L.

    Args:
        taught, learned: dicts of teacher and student, as
            `Encoder.with_outputs("hidden_states", "attention_logits")` returns them.
        example_ids: as of `attention_error`.
        maps: two functions of the student's embeddings and of its hidden states to the teacher's
            width; None for states of one width.

    Returns:
        (states, attention): the sums over the layers of their squared errors, float32
        `[batch, length]` and `[batch]`.

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


def check_layers(student, teacher):
    """Refuses a student whose layers cannot be compared with those of a teacher.

    Args:
        student, teacher: `EncoderConfig`s.

    Raises:
        InputError: the layers do not divide, or the heads are not as many.
    """
    if teacher.num_layers % student.num_layers:
        raise InputError(
            f"the student's {student.num_layers} layers must divide the teacher's "
            f"{teacher.num_layers}."
        )
    if student.num_heads != teacher.num_heads:
        raise InputError(
            "to learn a teacher's attention takes as many heads: the student has "
            f"{student.num_heads}, the teacher {teacher.num_heads}."
        )
