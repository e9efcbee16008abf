"""Models inside models, for `.keras` files."""

import keras


def deserialize_parts(config, *names, custom_objects=None):
    """The configuration of a model, in which the values of some names are objects again.

    Args:
        config: dict, what `get_config` returned.
        *names: str. Keys whose values `keras.saving.serialize_keras_object` made.
        custom_objects: dict, as of `keras.saving`.
    """
    return config | {
        name: keras.saving.deserialize_keras_object(config[name], custom_objects)
        for name in names
    }
