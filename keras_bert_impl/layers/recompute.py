"""Activation checkpointing (rematerialization)."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras

from keras_bert_impl.layers.dropout import repeated
from keras_bert_impl.thread_value import ThreadValue

_on = ThreadValue(False)


@contextlib.contextmanager
def recomputation(on: bool = True) -> Iterator[None]:
    """Context in which every `TransformerBlock` stores only its inputs for the backward pass.

    Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", section 3.
    """
    with _on.set(on):
        yield


def is_recomputed() -> bool:
    """Returns whether the call is inside `recomputation`, and not inside `recomputed`."""
    return _on.value


def recomputed(function: Callable, inputs: Any) -> Any:
    """Returns `function(inputs)`, which is computed again in the backward pass."""

    def outputs(inputs):
        with _on.set(False):
            return function(inputs)

    # `keras.remat` alone would draw other dropout units the second time, and the gradient would be
    # that of another function.
    return keras.remat(repeated(outputs))(inputs)
