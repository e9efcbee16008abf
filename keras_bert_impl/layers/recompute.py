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


def recomputed(function: Callable, inputs: Any) -> Any:
    """Returns `function(inputs)`; inside `recomputation` it is recomputed in the backward pass."""
    if not _on.value:
        return function(inputs)
    # `keras.remat` alone would draw other dropout units the second time, and the gradient would be
    # that of another function.
    return keras.remat(repeated(function))(inputs)
