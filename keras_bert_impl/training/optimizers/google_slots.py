"""Continuing the training that a checkpoint of Google's was left in."""

import logging

import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.keras_internals import averages_of, variables_of

_LOG = logging.getLogger(__name__)


def load_adam_slots(model, optimizer, tensors, names, prefix="bert"):
    """Sets the moments and the steps of an optimizer to those in a checkpoint of TensorFlow 1.

    The optimizer goes on as that of google-research/bert would if it has no bias correction:
    `AdamW(..., epsilon=1e-6, weight_decay=0.01, bias_correction=False)`.

    Args:
        model: `keras.Model`, built, with the weights of the checkpoint.
        optimizer: `training.AdamW`; it is built for the model's trainable variables if it is not.
        tensors: `GoogleTensors`, as `open_google_checkpoint` returns them.
        names: list of `TensorName`, those that the weights were loaded by.
        prefix: str. What the names of the encoder's tensors begin with in the checkpoint.

    Returns:
        list of str: paths of trainable variables without moments in the checkpoint; theirs are
        left as they are, and their bias is corrected from step 0.

    Raises:
        InputError: the checkpoint has no moments, no step, or moments of another shape.

    Example:
        config, tensors = open_google_checkpoint("path/to/model.ckpt-1000")
        encoder = Encoder.from_pretrained("path/to/model.ckpt-1000")
        optimizer = AdamW(1e-4, bias_correction=False)
        load_adam_slots(encoder, optimizer, tensors, encoder_tensors(encoder.config))
    """
    optimizer.build(model.trainable_variables)
    names = {name.variable: name for name in names}
    step, found, without = tensors.global_step, [], []
    for index, variable in enumerate(variables_of(optimizer)):
        slots = _slots(tensors, names.get(variable.path), prefix)
        if slots is None:
            without.append(variable.path)
            continue
        for slot in slots:
            if slot.shape != tuple(variable.shape):
                raise InputError(
                    f"{tensors.path}: the moments of {variable.path} must have shape "
                    f"{tuple(variable.shape)}. Received: {slot.shape}"
                )
        found.append((index, slots))
    if not found or step is None:
        raise InputError(
            f"{tensors.path} has no adam_m and adam_v with a global_step: only checkpoints of a "
            "training run have them, and published ones do not."
        )
    for index, (mean, square) in found:
        optimizer._momentums[index].assign(mean)
        optimizer._velocities[index].assign(square)
    optimizer.iterations.assign(step)
    has_moments = np.isin(np.arange(len(variables_of(optimizer))), [i for i, _ in found])
    optimizer.steps.assign(np.where(has_moments, step, 0))
    if optimizer.use_ema:
        # Keras begins the averages with the weights at step 0 alone.
        for variable, average in zip(
            variables_of(optimizer), averages_of(optimizer), strict=True
        ):
            average.assign(variable)
    if without:
        _LOG.warning("%s: no moments for %s", tensors.path, ", ".join(without))
    return without


def _slots(tensors, name, prefix):
    if name is None:
        return None
    spellings = (name.tensor, f"{prefix}.{name.tensor}")
    tensor = next((known for known in spellings if known in tensors.header), None)
    if tensor is None:
        return None
    slots = [tensors.read_slot(tensor, slot) for slot in ("adam_m", "adam_v")]
    if any(slot is None for slot in slots):
        return None
    return [slot.T if name.transpose else slot for slot in slots]
