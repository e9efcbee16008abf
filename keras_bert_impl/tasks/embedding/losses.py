"""Losses for sentence embeddings, and checks of their examples.

Shape legend: batch = number of examples; group = number of texts of an example; dim = embedding
size. Vectors are float32 `[batch, group, dim]`.
"""

from typing import Annotated, Any

from keras import ops

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import OneOf, check

LOSSES = ("cosine", "cosent", "triplet", "multiple_negatives")
SCORED = ("cosine", "cosent")  # losses with labels
_COMPARING = ("cosent", "multiple_negatives")  # losses that compare examples


def compares_examples(name: str) -> bool:
    return name in _COMPARING


def check_loss(name: str) -> None:
    check("loss", name, Annotated[str, OneOf(*LOSSES)])


def check_group(name: str, group: int | None) -> None:
    if group is None:
        raise InputError(
            "the number of texts per example is unknown for a generator or PyDataset. Pass a list "
            "of tuples, or a tuple of lists."
        )
    expected = {"triplet": "three texts (anchor, positive, negative)"}.get(name, "two texts")
    fits = group == (3 if name == "triplet" else 2)
    if name == "multiple_negatives":
        expected, fits = "two texts (anchor, positive) or more (hard negatives)", group >= 2
    if not fits:
        raise InputError(
            f"the loss {name!r} takes examples of {expected}. Received: {group} text(s)"
        )


def cosine_similarities(first: Any, second: Any) -> Any:
    """Computes cosines of vectors `[..., dim]`; 0 for zero vectors."""
    return ops.sum(_normalize(first) * _normalize(second), axis=-1)


def cosine_losses(vectors: Any, labels: Any) -> Any:
    """Returns squared differences between cosines and labels, `[batch]`.

    Source: Reimers and Gurevych 2019, "Sentence-BERT", section 3, the regression objective.
    """
    return ops.square(cosine_similarities(vectors[:, 0], vectors[:, 1]) - labels)


def triplet_losses(vectors: Any, margin: float) -> Any:
    """Returns `max(|anchor - positive| - |anchor - negative| + margin, 0)`, `[batch]`.

    Source: Reimers and Gurevych 2019, "Sentence-BERT", section 3, the triplet objective.
    """
    anchor, positive, negative = (vectors[:, number] for number in range(3))
    return ops.relu(
        _compute_distances(anchor, positive) - _compute_distances(anchor, negative) + margin
    )


def cosent_loss(vectors: Any, labels: Any, scale: float) -> Any:
    """Returns `log(1 + sum(exp(scale * (cosine_i - cosine_j))))`.

    The sum is over all pairs (i, j) in which label i is lower than label j.

    Source: Su 2022, "CoSENT: a more efficient sentence vector scheme than Sentence-BERT".
    """
    scores = scale * cosine_similarities(vectors[:, 0], vectors[:, 1])  # [batch]
    labels = ops.reshape(labels, (-1,))
    differences = scores[:, None] - scores[None, :]  # [batch, batch]
    differences = ops.where(labels[:, None] < labels[None, :], differences, float("-inf"))
    return ops.logsumexp(ops.concatenate([ops.zeros(1), ops.reshape(differences, (-1,))]))


def multiple_negatives_loss(vectors: Any, scale: float) -> Any:
    """Returns the mean cross-entropy of predicting the positive of each anchor.

    The classes are all positives and negatives of the batch.

    Source: Henderson et al. 2017, "Efficient Natural Language Response Suggestion for Smart Reply",
    on multiple negatives.
    """
    vectors = _normalize(vectors)
    anchors = vectors[:, 0]
    targets = ops.transpose(vectors[:, 1:], (1, 0, 2))  # [group - 1, batch, dim]
    candidates = ops.reshape(targets, (-1, ops.shape(vectors)[-1]))  # [batch * (group - 1), dim]
    logits = scale * ops.matmul(anchors, ops.transpose(candidates))
    positive_logits = scale * ops.sum(anchors * targets[0], axis=-1)
    return ops.mean(ops.logsumexp(logits, axis=-1) - positive_logits)


def _normalize(vectors):
    squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    return vectors * ops.rsqrt(ops.maximum(squares, 1e-24))


def _compute_distances(first, second):
    # The gradient at 0 is undefined without an offset; PyTorch uses the same value.
    return ops.sqrt(ops.sum(ops.square(first - second + 1e-6), axis=-1))
