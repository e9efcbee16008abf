"""Serialization of nested models and of frozen layers and weights in `.keras` files."""

from pathlib import Path
from typing import Any

import keras

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.keras_internals import all_layers


def no_hdf5(cls: type) -> type:
    """Makes `save` refuse HDF5 files: Keras writes the model, but cannot load it again."""

    def save(self, filepath: str | Path, overwrite: bool = True, **kwargs: Any) -> None:
        if str(filepath).endswith((".h5", ".hdf5")):
            raise InputError(
                f"{filepath}: Keras cannot load this model from an HDF5 file. Write "
                'save("model.keras") or save_pretrained("directory").'
            )
        super(cls, self).save(filepath, overwrite, **kwargs)  # type: ignore[arg-type]  # any class

    save.__doc__ = keras.Model.save.__doc__
    cls.save = save  # type: ignore[attr-defined]  # any model class
    return cls


def deserialize_parts(config: dict, *names: str, custom_objects: dict | None = None) -> dict:
    """Returns a model's configuration with some of its values deserialized."""
    return config | {
        name: keras.saving.deserialize_keras_object(config[name], custom_objects) for name in names
    }


def frozen(model: keras.Model) -> dict[str, list[int]]:
    """Returns the indices of a model's frozen layers and weights."""
    return {
        "layers": [n for n, layer in enumerate(_layers(model)) if not layer.trainable],
        "weights": [n for n, weight in enumerate(model.weights) if not weight.trainable],
    }


def set_frozen(model: keras.Model, state: dict[str, list[int]] | None) -> None:
    """Freezes the layers and weights in `state` and unfreezes all others."""
    if state is None:
        return
    for number, layer in enumerate(_layers(model)):  # a layer comes before those inside it
        layer.trainable = number not in state["layers"]
    for number, weight in enumerate(model.weights):
        weight.trainable = number not in state["weights"]


def _layers(model):
    return all_layers(model, include_self=True)
