"""Activations that are computed again on the way back, in place of being kept."""

import contextlib

import keras

from keras_bert_impl.layers.dropout import repeated

_on = False


@contextlib.contextmanager
def recomputation(on=True):
    """Inside the block every `TransformerBlock` keeps its inputs alone for the gradient.

    Memory for activations then grows with the number of layers times the width of a state, for
    about a third more arithmetic. The gradient is taken inside the block and inside `dropout_seed`.

    Args:
        on: bool. False: does nothing.

    Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", section 3.
    """
    global _on
    before, _on = _on, on
    try:
        yield
    finally:
        _on = before


def recomputed(function, inputs):
    """`function(inputs)`, computed again for its gradient inside `recomputation`."""
    if not _on:
        return function(inputs)
    # Keras's own would drop other units the second time, and the gradient be of another function.
    return keras.remat(repeated(function))(inputs)
