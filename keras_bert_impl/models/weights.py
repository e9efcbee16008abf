"""Moves weights between Keras variables and the tensors of a model directory."""

import logging

import numpy as np

from keras_bert_impl.errors import InputError

_log = logging.getLogger(__name__)


def load_weights(model, directory, names):
    """Assigns the tensors of a model directory to a model's variables.

    Args:
        model: `keras.Model`, built.
        directory: `interop.ModelDirectory`.
        names: list of `interop.huggingface.TensorName`.

    Returns:
        list of str: paths of variables that keep their fresh values.

    Raises:
        InputError: a tensor is missing or of another shape; names it.
    """
    variables = _by_path(model)
    fresh = []
    for name in names:
        variable = variables[name.variable]
        tensor = directory.read(name.tensor)
        if tensor is None:
            if not name.optional:
                raise InputError(f"{directory.path}: tensor {name.tensor} is missing.")
            fresh.append(name.variable)
            continue
        tensor = tensor.T if name.transpose else tensor
        if tuple(tensor.shape) != tuple(variable.shape):
            expected = tuple(variable.shape)[:: -1 if name.transpose else 1]
            received = tuple(tensor.shape)[:: -1 if name.transpose else 1]
            raise InputError(
                f"{directory.path}: tensor {name.tensor} must have shape {expected}. "
                f"Received: {received}"
            )
        variable.assign(tensor)
    if fresh:
        _log.warning("%s: newly made, to be trained: %s", directory.path, ", ".join(fresh))
    unread = [name for name in directory.unread() if not name.endswith("position_ids")]
    if unread:
        _log.warning("%s: not loaded: %s", directory.path, ", ".join(unread))
    return fresh


def tensors_of(model, names, prefix=""):
    """The arrays of a model's variables under the names of a model directory.

    Args:
        model: `keras.Model`, built.
        names: list of `interop.huggingface.TensorName`.
        prefix: str. Put before each name.

    Returns:
        dict of str to float32 numpy array.
    """
    variables = _by_path(model)
    tensors = {}
    for name in names:
        array = np.asarray(variables[name.variable].numpy(), dtype="float32")
        tensors[prefix + name.tensor] = array.T if name.transpose else array
    return tensors


def _by_path(model):
    return {variable.path: variable for variable in model.weights}
