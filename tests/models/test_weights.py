import dataclasses

import keras
import numpy as np
import pytest

from keras_bert_impl.checkpoints.interop import encoder_tensors, open_model
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.weights import load_weights, values_deferred
from keras_bert_impl.utils.errors import InputError
from tests.helpers import MODERN, TINY, to_numpy


def test_deferred_variables_draw_nothing(monkeypatch):
    """Relies on private parts of Keras; fails if Keras changes them."""
    drawn = []
    call = keras.initializers.TruncatedNormal.__call__
    monkeypatch.setattr(
        keras.initializers.TruncatedNormal,
        "__call__",
        lambda self, shape, dtype=None, **keywords: drawn.append(shape) or call(self, shape, dtype),
    )
    with values_deferred():
        deferred = Encoder(TINY)
    assert {weight._value for weight in deferred.weights} == {None}
    assert [tuple(w.shape) for w in deferred.weights] == [
        tuple(w.shape) for w in Encoder(TINY).weights
    ]
    # Tables, 4 + 2 matrices of each layer, and the pooler, all of the second encoder.
    assert len(drawn) == 3 + 6 * TINY.num_layers + 1


def test_a_part_of_a_tensor_of_another_size(tmp_path):
    source = Encoder(MODERN)
    source.save_pretrained(tmp_path)
    narrow = Encoder(dataclasses.replace(MODERN, hidden_dim=8))
    with pytest.raises(InputError, match=r"embeddings.*must have shape \(40, 8\)"):
        load_weights(narrow, open_model(tmp_path), encoder_tensors(narrow.config))
    names = [name for name in encoder_tensors(MODERN) if "Wqkv" in name.tensor]
    message = r"Wqkv.weight must have shape \(24, 8\). Received: \(48, 16\)"
    with pytest.raises(InputError, match=message):
        load_weights(narrow, open_model(tmp_path), names)


def test_loading_into_a_model_that_has_values(tmp_path):
    source, target = Encoder(TINY), Encoder(TINY)
    source.save_pretrained(tmp_path)
    assert load_weights(target, open_model(tmp_path), encoder_tensors(TINY)) == []
    for expected, received in zip(source.weights, target.weights):
        assert (to_numpy(expected.value) == to_numpy(received.value)).all()
        assert to_numpy(expected.value).dtype == np.float32


def test_weights_do_not_depend_on_their_file_after_loading(tmp_path):
    source, has_values = Encoder(TINY), Encoder(TINY)
    source.save_pretrained(tmp_path)
    loaded = Encoder.from_pretrained(tmp_path)
    load_weights(has_values, open_model(tmp_path), encoder_tensors(TINY))
    file = tmp_path / "model.safetensors"
    with open(file, "r+b") as raw:  # the same file, still mapped if somebody maps it
        raw.write(bytes(file.stat().st_size))
    for model in (loaded, has_values):
        for expected, received in zip(source.weights, model.weights):
            assert (to_numpy(expected.value) == to_numpy(received.value)).all()
