"""Layers that are made frozen."""

import keras


def freeze_parts(layer: keras.layers.Layer) -> None:
    """Freezes the layers inside of a layer that was made with `trainable=False`.

    Keras's constructor sets the flag before there are any, so that they would learn in a model
    around the layer. Call it at the end of `build`.
    """
    if not layer.trainable:
        layer.trainable = True  # or TensorFlow's setter would see no change
        layer.trainable = False
