"""Logits over a vocabulary in factors, for a loss that never holds them whole, on JAX."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import keras

from keras_bert_impl.thread_value import ThreadValue

Tensor = Any  # of any Keras backend
_on = ThreadValue(False)


@dataclasses.dataclass(frozen=True)
class VocabularyLogits:
    """The logits `states @ table^T + bias`, not computed.

    Attributes:
        states: `[..., width]`, in the compute dtype.
        table: `[vocabulary, width]`, in the variable dtype.
        bias: float32 `[vocabulary]`.
    """

    states: Tensor
    table: Tensor
    bias: Tensor


@dataclasses.dataclass(frozen=True)
class VocabularyScores:
    """What a loss and its metrics read of `VocabularyLogits`.

    Attributes:
        losses: float32 `[...]`, the cross-entropy at each position, in nats.
        hits: float32 `[...]`, 1 where the label has the largest logit.
    """

    losses: Tensor
    hits: Tensor


if keras.backend.backend() == "jax":
    import jax

    # Only for JAX. For Keras each is a single value, like a tensor of logits.
    jax.tree_util.register_dataclass(VocabularyLogits, ["states", "table", "bias"], [])
    jax.tree_util.register_dataclass(VocabularyScores, ["losses", "hits"], [])


@contextlib.contextmanager
def factored_logits() -> Iterator[None]:
    """Context in which heads with `factored=True` return `VocabularyLogits`, on JAX."""
    with _on.set(keras.backend.backend() == "jax"):
        yield


def are_logits_factored() -> bool:
    """Returns whether the call is inside `factored_logits`, on JAX."""
    return _on.value
