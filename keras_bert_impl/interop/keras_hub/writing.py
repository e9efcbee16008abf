"""Writes KerasHub presets: a backbone or task, with its tokenizer."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.interop.huggingface import all_tensors, encoder_config, tensor_prefix
from keras_bert_impl.interop.keras_hub.heads import NOTES, head_of
from keras_bert_impl.interop.keras_hub.models import assign, fit_encoder, to_keras_hub
from keras_bert_impl.interop.keras_hub.names import arguments_of
from keras_bert_impl.interop.source import Tensors
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_directory

_log = logging.getLogger(__name__)


def write_keras_hub_preset(
    directory: str | Path, described: dict[str, Any], tensors: Tensors, tokenizer: Any = None
) -> Tensors:
    """Writes a directory that the `from_preset` of KerasHub models and tokenizers loads.

    A head that a KerasHub task computes the same way is written too, with a preprocessor if a
    tokenizer is given: `TextClassifier.from_preset` and `MaskedLM.from_preset` then accept raw
    strings, up to the encoder's maximum length. Other heads are left out with a warning.

    Args:
        described: The content of a `config.json`.
        tensors: Tensors by Hugging Face name, with or without the prefix that the encoder's names
            have in models with a head.
        tokenizer: KerasHub tokenizer, as created by `tokenizers.keras_hub_saving.to_keras_hub`.

    Returns:
        The tensors written, as they are read back.

    Raises:
        InputError: no backbone supports the configuration (names the unsupported fields), or the
            directory is not writable.

    Example:
        import keras_hub
        from keras_bert_impl.interop import write_keras_hub_preset
        write_keras_hub_preset("preset", described, tensors)
        keras_hub.models.TextClassifier.from_preset("preset")
    """
    config = encoder_config(described)
    kind, _ = arguments_of(config)
    encoder, others = _parts(config, tensors)
    encoder = fit_encoder(config, encoder)
    head = _head(kind, config, described, others)
    dtypes = {np.asarray(array).dtype.name for array in encoder.values()}
    model = to_keras_hub(config, encoder, dtypes.pop() if len(dtypes) == 1 else None)
    written = encoder
    if head:
        model = _task(model, head, others, tokenizer, config.max_length)
        names = [location.name.tensor for location in head.locations]
        written = {tensor_prefix(config) + name: array for name, array in encoder.items()}
        written |= {name: others.pop(name) for name in names}
    if others:
        _log.warning(
            "%s: has no variables for: %s", type(model).__name__, ", ".join(sorted(others))
        )
    with replace_directory(directory) as temporary:
        try:
            model.save_to_preset(str(temporary))
            if tokenizer is not None:
                tokenizer.save_to_preset(str(temporary))
        except OSError as error:  # h5py does not always state the error code
            raise InputError(f"cannot write {directory}: {error}.".replace("\n", " ")) from error
        if head:
            _write_notes(temporary / "task.json", described)
    return written


def _parts(config, tensors):
    """Returns the encoder's tensors, without a prefix, and the heads' tensors."""
    heads = {name.tensor for name in all_tensors(config)[1]} & set(tensors)
    prefix = tensor_prefix(config)
    encoder = {name.removeprefix(prefix): tensors[name] for name in tensors if name not in heads}
    return encoder, {name: tensors[name] for name in heads}


def _head(kind, config, described, tensors):
    """Returns the `Head`, or None if KerasHub does not compute it the same way."""
    head = head_of(kind, config, described, tensors)
    if head and not head.name:
        _log.warning("only the encoder is written: %s", head.reason)
        return None
    return head


def _task(backbone, head, tensors, tokenizer, max_length):
    """Creates the KerasHub task with a head; given a tokenizer, it accepts raw strings."""
    import keras_hub

    preprocessor = None
    if tokenizer is not None:
        kind = getattr(keras_hub.models, f"{head.task}Preprocessor")
        preprocessor = kind(tokenizer, sequence_length=max_length)
    kind = getattr(keras_hub.models, head.task)
    task = kind(backbone=backbone, preprocessor=preprocessor, **head.arguments)
    assign(task, head.locations, tensors)
    return task


def _write_notes(path, described):
    """Adds to task.json what only this package needs, such as the class names."""
    notes = {name: described[name] for name in NOTES if name in described}
    settings = json.loads(path.read_text(encoding="utf-8"))
    text = json.dumps(settings | {"keras_bert_impl": notes}, indent=4)
    path.write_text(text, encoding="utf-8")
