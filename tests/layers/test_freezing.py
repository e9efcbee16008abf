"""Layers created with `trainable=False` inside another model."""

import keras
import pytest

from keras_bert_impl.checkpoints.config import Adapter
from keras_bert_impl.layers import Pooler, TransformerBlock
from keras_bert_impl.layers.heads import ClassificationHead

_BLOCK = {"num_heads": 2, "intermediate_dim": 8}
_BIAS = keras.Input((1, None, None))


@pytest.mark.parametrize(
    "layer",
    [
        lambda **kwargs: TransformerBlock(**_BLOCK, **kwargs),
        lambda **kwargs: TransformerBlock(**_BLOCK, adapter=Adapter("lora"), **kwargs),
        lambda **kwargs: TransformerBlock(**_BLOCK, adapter=Adapter("houlsby"), **kwargs),
        lambda **kwargs: Pooler(**kwargs),
        lambda **kwargs: ClassificationHead(3, **kwargs),
    ],
)
def test_a_frozen_layer_stays_frozen_in_another_model(layer):
    states = keras.Input((None, 8))
    inputs = [states, _BIAS] if "block" in layer().name else [states]
    learns, frozen = (
        keras.Model(inputs, instance(*inputs)) for instance in (layer(), layer(trainable=False))
    )
    assert len(learns.trainable_weights) == len(learns.weights) > 0
    assert frozen.trainable_weights == []
    again = keras.Model.from_config(frozen.get_config())
    assert again.trainable_weights == []
