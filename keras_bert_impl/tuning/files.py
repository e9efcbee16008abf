"""Saving of only those weights of a model that were fine-tuned."""

import os
from pathlib import Path

import keras
import numpy as np

from keras_bert_impl.cards import write_card
from keras_bert_impl.interop import (
    encoder_tensors,
    open_model,
    read_encoder_config,
    tensor_prefix,
    write_tuned,
)
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_directory
from keras_bert_impl.io.paths import expanded, local_path
from keras_bert_impl.models.weights import added_names, tensors_of


def save_tuned(model: keras.Model, directory: str | Path, base: str | Path) -> None:
    """Saves the fine-tuned weights, the head and a reference to the base model.

    `from_pretrained` of the model's class, or `tasks.load_tuned`, reads the directory. LoRA weights
    are in the layout of the `peft` library, which can also load them onto the base model.

    Args:
        model: The trainable weights of its encoder and its head are written.
        directory: Files with the same names are replaced.
        base: The model that was fine-tuned; see `interop.open_model`. Its name and the checksum of
            its weights are saved.

    Raises:
        InputError: frozen weights differ from those of the base, or the directory is that of the
            base.

    Example:
        adapter = Adapter("lora", size=8)
        model = TextClassifier.from_pretrained("base", num_classes=2, adapter=adapter)
        model.fit(texts, labels)
        save_tuned(model, "tuned", "base")
        TextClassifier.from_pretrained("tuned")
    """
    base, directory = expanded(base), local_path(directory)
    source = open_model(base)
    if directory.is_dir() and directory.samefile(source.path):
        raise InputError(f"{directory} holds the base model; give another directory.")
    read_encoder_config(source)
    encoder = model.encoder
    trainable = {weight.path for weight in encoder.trainable_weights}
    names = encoder_tensors(encoder.config)
    learned = {n.tensor for n in names if n.variable in trainable or source.shape(n.tensor) is None}
    _check_kept(encoder, source, [name for name in names if name.tensor not in learned], base)
    changed = tensors_of(
        encoder,
        [name for name in names if name.tensor in learned],
        prefix=tensor_prefix(encoder.config),
    )
    with replace_directory(directory) as temporary:
        write_tuned(
            temporary,
            model.file_config(),
            encoder.config,
            model.head,
            tensors_of(encoder, added_names(encoder)),
            changed | tensors_of(model, model.head_names()),
            os.path.abspath(base) if os.path.isdir(base) else str(base),
            source,
        )
        model.save_more(temporary)
        write_card(model, temporary, directory, base)


def _check_kept(encoder, source, names, base):
    """Raises if the encoder's frozen weights differ from those of the base."""
    for tensor, array in tensors_of(encoder, names).items():
        original = source.read(tensor).astype(encoder.variable_dtype).astype("float32")
        if not np.array_equal(original, array):
            raise InputError(
                f"tensor {tensor} differs from that of {base}: the model was tuned from another "
                "base, or the tensor was not frozen."
            )
