"""Continues training from the optimizer state in a Google checkpoint."""

import logging
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from keras_bert_impl.checkpoints.interop.layouts.bert import TensorName
from keras_bert_impl.training.optimizers.adamw import MomentOptimizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.internals import averages_of, variables_of

_LOG = logging.getLogger(__name__)


def load_adam_slots(
    model: keras.Model,
    optimizer: MomentOptimizer,
    tensors: Any,
    names: Iterable[TensorName],
    prefix: str = "bert",
) -> list[str]:
    """Loads an optimizer's moments and steps from a TensorFlow 1 checkpoint."""
    optimizer.build(model.trainable_variables)
    tensor_names = {name.variable: name for name in names}
    step, indexed_slots, missing_paths = tensors.global_step, [], []
    for index, variable in enumerate(variables_of(optimizer)):
        slots = _read_slots(tensors, tensor_names.get(variable.path), prefix)
        if slots is None:
            missing_paths.append(variable.path)
            continue
        for slot in slots:
            if slot.shape != tuple(variable.shape):
                raise InputError(
                    f"{tensors.path}: the moments of {variable.path} must have shape "
                    f"{tuple(variable.shape)}. Received: {slot.shape}"
                )
        indexed_slots.append((index, slots))
    if not indexed_slots or step is None:
        raise InputError(
            f"{tensors.path} has no adam_m, adam_v and global_step. Published checkpoints "
            "contain no optimizer state. Use a checkpoint of a training run."
        )
    for index, (mean, square) in indexed_slots:
        optimizer._momentums[index].assign(mean)
        optimizer._velocities[index].assign(square)
    optimizer.iterations.assign(step)
    has_moments = np.isin(np.arange(len(variables_of(optimizer))), [i for i, _ in indexed_slots])
    optimizer.steps.assign(np.where(has_moments, step, 0))
    if optimizer.use_ema:
        # Keras initializes the averages from the weights, but only at step 0.
        for variable, average in zip(variables_of(optimizer), averages_of(optimizer), strict=True):
            average.assign(variable)
    if missing_paths:
        _LOG.warning("%s: no moments for %s", tensors.path, ", ".join(missing_paths))
    return missing_paths


def _read_slots(tensors, name, prefix):
    if name is None:
        return None
    spellings = (name.tensor, f"{prefix}.{name.tensor}")
    tensor = next((spelling for spelling in spellings if spelling in tensors.header), None)
    if tensor is None:
        return None
    slots = [tensors.read_slot(tensor, slot) for slot in ("adam_m", "adam_v")]
    if any(slot is None for slot in slots):
        return None
    return [slot.T if name.transpose else slot for slot in slots]
