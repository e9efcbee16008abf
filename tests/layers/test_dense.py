import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.checkpoints.config import Adapter, EncoderConfig
from keras_bert_impl.layers import Dense
from keras_bert_impl.layers.basic import gelu, without_gradients
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining.objectives import MaskedLM, NextSentence
from keras_bert_impl.pretraining.pretrainer import Pretrainer

OF_TENSORFLOW = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="TensorFlow's BiasAdd and its gradient"
)
STATES = np.random.default_rng(0).normal(size=(16, 170, 8)).astype("float32")


def layers(dtype, **arguments):
    """(our layer, Keras's layer) with the same weights."""
    both = [cls(5, dtype=dtype, **arguments) for cls in (Dense, keras.layers.Dense)]
    for layer in both:
        layer.build(STATES.shape)
    both[1].set_weights(both[0].get_weights())
    return both


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("arguments", [{}, {"use_bias": False}, {"activation": "tanh"}])
def test_outputs_equal_those_of_keras(dtype, arguments):
    ours, theirs = layers(dtype, **arguments)
    np.testing.assert_array_equal(
        *(np.asarray(layer(STATES), "float32") for layer in (ours, theirs))
    )


@OF_TENSORFLOW
@pytest.mark.parametrize(
    "dtype, scope", [("float32", contextlib.nullcontext), ("mixed_bfloat16", without_gradients)]
)
def test_inference_has_product_and_bias_next_to_each_other(dtype, scope):
    layer = Dense(5, activation=gelu, dtype=dtype)
    expected = layer(STATES)
    with scope():
        np.testing.assert_array_equal(layer(STATES, training=False), expected)
        assert layer(STATES, training=False).shape == (16, 170, 5)

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, None, 8])])
    def infer(states):
        with scope():
            return layer(states, training=False)

    graph = infer.get_concrete_function().graph
    (biases,) = (operation for operation in graph.get_operations() if operation.type == "BiasAdd")
    assert biases.inputs[0].op.type == "MatMul"  # no Reshape between them
    assert graph.structured_outputs.shape.as_list() == [None, None, 5]


@OF_TENSORFLOW
@pytest.mark.parametrize("training", [None, False, True])  # a user's own loop may pass none
def test_the_gradient_of_the_bias_is_summed_in_float32(training):
    layer, _ = layers("mixed_bfloat16")
    gradient = tf.cast(np.random.default_rng(1).normal(0.2, 1.0, (16, 170, 5)), tf.bfloat16)
    with tf.GradientTape() as tape:
        outputs = layer(STATES, training=training)
    received = tape.gradient(outputs, layer.bias.value, output_gradients=gradient)
    exact = np.sum(np.asarray(gradient, "float64"), axis=(0, 1))
    # Rounded to 8 bits once, at the end.
    np.testing.assert_allclose(np.asarray(received, "float64"), exact, rtol=1.01 * 2.0**-8)


@OF_TENSORFLOW
@pytest.mark.parametrize("adapter", [None, Adapter("houlsby", 4), Adapter("lora", 2)])
def test_no_bias_of_a_model_is_summed_in_half_precision(adapter):
    config = EncoderConfig(
        vocabulary_size=20,
        hidden_dim=8,
        num_layers=1,
        num_heads=2,
        intermediate_dim=16,
        max_length=8,
        adapter=adapter,
    )
    model = Pretrainer(Encoder(config, dtype="mixed_bfloat16"), [MaskedLM(), NextSentence()])
    features = {
        name: tf.ones([2, *(size or 4 for size in symbol.shape[1:])], tf.int32)
        for name, symbol in model.input.items()
    }

    @tf.function(autograph=False)
    def gradients():
        with tf.GradientTape() as tape:
            outputs = model(features, training=True)
            total = tf.add_n([tf.reduce_sum(tf.cast(x, tf.float32)) for x in outputs.values()])
        return tape.gradient(total, [weight.value for weight in model.trainable_variables])

    operations = gradients.get_concrete_function().graph.get_operations()
    half = [
        operation
        for operation in operations
        if operation.type == "BiasAddGrad" and operation.inputs[0].dtype != tf.float32
    ]
    assert not half and any(operation.type.startswith("MatMul") for operation in operations)


@OF_TENSORFLOW
def test_the_short_gradient_of_gelu_is_used_in_training_alone():
    layer = Dense(5, activation=gelu)

    def operations(training):
        function = tf.function(lambda inputs: layer(inputs, training=training), autograph=False)
        graph = function.get_concrete_function(tf.constant(STATES)).graph
        return {operation.type for operation in graph.get_operations()}

    # A custom gradient hangs on an `IdentityN`.
    assert "IdentityN" in operations(True)
    assert "IdentityN" not in operations(False)
    expected = np.asarray(layer(STATES))
    # A few roundings of float32.
    tolerance = 4 * 2.0**-24 * np.abs(expected).max()
    np.testing.assert_allclose(layer(STATES, training=True), expected, atol=tolerance)
