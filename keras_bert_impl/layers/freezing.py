"""Freezing of layers created with `trainable=False`."""

import keras


def freeze_parts(layer: keras.layers.Layer) -> None:
    """Freezes the sublayers of a layer that was created with `trainable=False`."""
    if not layer.trainable:
        layer.trainable = True  # otherwise TensorFlow's setter would see no change
        layer.trainable = False
