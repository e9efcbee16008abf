"""Models inside models, and what is frozen in them, for `.keras` files."""

import keras

from keras_bert_impl.keras_internals import all_layers


def deserialize_parts(config, *names, custom_objects=None):
    """The configuration of a model, in which the values of some names are objects again.

    Args:
        config: dict, what `get_config` returned.
        *names: str. Keys whose values `keras.saving.serialize_keras_object` made.
        custom_objects: dict, as in `keras.saving`.
    """
    return config | {
        name: keras.saving.deserialize_keras_object(config[name], custom_objects)
        for name in names
    }


def frozen(model: keras.Model) -> dict[str, list[int]]:
    """The layers and the weights of a model that do not learn, by their number in it.

    A model that makes its layers in its constructor has this in its configuration, or all of them
    would learn again after it was copied or loaded.
    """
    return {
        "layers": [n for n, layer in enumerate(_layers(model)) if not layer.trainable],
        "weights": [n for n, weight in enumerate(model.weights) if not weight.trainable],
    }


def set_frozen(model: keras.Model, state: dict[str, list[int]] | None) -> None:
    """Freezes what `frozen` found, and unfreezes all else.

    Args:
        model: built as the one that `frozen` was called with.
        state: what `frozen` returned; with None nothing changes.
    """
    if state is None:
        return
    for number, layer in enumerate(_layers(model)):  # a layer comes before those inside it
        layer.trainable = number not in state["layers"]
    for number, weight in enumerate(model.weights):
        weight.trainable = number not in state["weights"]


def _layers(model):
    return all_layers(model, include_self=True)
