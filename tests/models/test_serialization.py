"""Files of whole models that Keras could not load are not written."""

import keras
import numpy as np
import pytest

from keras_bert_impl import Encoder, InputError
from keras_bert_impl.pretraining import Pretrainer
from tests.helpers import TINY
from tests.tasks.helpers import classifier


@pytest.mark.parametrize("suffix", [".h5", ".hdf5"])
@pytest.mark.parametrize(
    "build",
    [lambda: Encoder(TINY), lambda: Pretrainer(Encoder(TINY), ["masked_lm"]), classifier],
    ids=["Encoder", "Pretrainer", "TextClassifier"],
)
def test_hdf5_is_refused_before_anything_is_written(build, suffix, tmp_path):
    path = tmp_path / f"model{suffix}"
    with pytest.raises(InputError, match=r'save\("model.keras"\) or save_pretrained'):
        build().save(path)
    assert list(tmp_path.iterdir()) == []


def test_a_functional_model_of_an_encoder_is_loaded_from_hdf5(tmp_path):
    names = ("token_ids", "segment_ids", "padding_mask")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    outputs = keras.layers.Dense(2)(Encoder(TINY)(inputs)["pooled_output"])
    model = keras.Model(inputs, outputs)
    model.save(tmp_path / "model.h5")
    loaded = keras.models.load_model(tmp_path / "model.h5")
    for weight, expected in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, expected)
