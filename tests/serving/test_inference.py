"""Graphs for inference: matrices are rounded once, with the same answers."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.layers.basic import without_gradients
from keras_bert_impl.serving import export_saved_model, saved_model
from tests.helpers import randomize
from tests.tasks.helpers import classifier

TEXTS = ["a good film", "what a dull plot", "bad", "the plot is awful and the film is dull"]


@contextlib.contextmanager
def with_unrounded_weights(model):
    with without_gradients():
        yield [variable.value for variable in model.variables]


def model_of(dtype):
    model = classifier(dtype=dtype)
    randomize(model)
    return model


def dtypes(directory):
    reader = tf.train.load_checkpoint(str(directory / "variables" / "variables"))
    types = reader.get_variable_to_dtype_map()
    weight_dtypes = [dtype for name, dtype in types.items() if "weights" in name]
    return {dtype: weight_dtypes.count(dtype) for dtype in set(weight_dtypes) if dtype.is_floating}


def answers(directory):
    served = tf.saved_model.load(str(directory)).signatures["serving_default"]
    return served(text=tf.constant(TEXTS))["scores"].numpy()


def test_matrices_are_rounded_once_with_the_same_answers(tmp_path, monkeypatch):
    model = model_of("mixed_bfloat16")
    export_saved_model(model.signatures(), tmp_path / "rounded")
    monkeypatch.setattr(saved_model, "for_inference", with_unrounded_weights)
    export_saved_model(model.signatures(), tmp_path / "kept")
    halves = [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.Dense) and layer.compute_dtype == "bfloat16"
    ]
    assert dtypes(tmp_path / "rounded")[tf.bfloat16] == len(halves) > 6
    assert set(dtypes(tmp_path / "kept")) == {tf.float32}
    np.testing.assert_array_equal(answers(tmp_path / "rounded"), answers(tmp_path / "kept"))
    assert {weight.dtype for weight in model.weights} == {"float32"}


@pytest.mark.parametrize("ids_only", [False, True])
def test_float32_stays_as_it_is(tmp_path, ids_only):
    model = model_of("float32")
    export_saved_model(model.signatures(), tmp_path / "served", ids_only=ids_only)
    assert dtypes(tmp_path / "served") == {tf.float32: len(model.weights)}


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_quantized_matrices_stay_as_they_are(tmp_path, dtype):
    model = model_of(dtype)
    model.quantize("int8")
    export_saved_model(model.signatures(), tmp_path / "served")
    assert tf.bfloat16 not in dtypes(tmp_path / "served")
    tolerance = 1e-5 if dtype == "float32" else 2**-7
    np.testing.assert_allclose(
        answers(tmp_path / "served"), model.predict(TEXTS, verbose=0), atol=tolerance
    )
