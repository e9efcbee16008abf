"""Functions with own gradients: the gradients, and the graphs that hold them."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from tensorflow.python.framework.func_graph import FuncGraph

from keras_bert_impl.layers.basic import own_gradient
from tests.tasks.helpers import classifier, examples

pytestmark = pytest.mark.on_tensorflow


@own_gradient
def triple(x):
    """Has another gradient than its values say."""
    return 3 * x, lambda upstream: upstream * 5


@own_gradient
def sums(x, y):
    """Returns several outputs, whose gradients depend on a tensor of the forward pass."""
    factor = x * 10
    return (x + y, x), lambda of_sum, of_x: (of_sum * factor, of_x + 1)


def gradient(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = triple(x)
    return y, tape.gradient(y, x)


def test_gradients_are_the_own_ones():
    x = tf.constant([1.0, 2.0])
    for function in (gradient, tf.function(gradient), tf.function(gradient, jit_compile=True)):
        y, slope = function(x)
        np.testing.assert_array_equal(y, [3, 6])
        np.testing.assert_array_equal(slope, [5, 5])
    inner = tf.function(triple)  # its gradient is read from the registry

    @tf.function
    def outer(x):
        return tf.gradients(ops.sum(inner(x)), x)[0]

    gc.collect()
    np.testing.assert_array_equal(outer(x), [5, 5])


def test_several_outputs_have_a_gradient_each():
    def gradients(x, y):
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            total, same = sums(x, y)
            loss = 2 * total + 3 * same
        return total, same, *tape.gradient(loss, [x, y])

    arguments = tf.constant([1.0, 2.0]), tf.constant([4.0, 5.0])
    for function in (gradients, tf.function(gradients), tf.function(gradients, jit_compile=True)):
        received = np.stack(function(*arguments))
        np.testing.assert_array_equal(received, [[5, 7], [1, 2], [20, 40], [4, 4]])


def test_a_graph_ends_with_its_function():
    function = tf.function(gradient)
    graph = weakref.ref(function.get_concrete_function(tf.constant([1.0])).graph)
    assert graph() is not None
    del function
    gc.collect()
    assert graph() is None


def test_models_leave_no_graphs():
    texts, labels = examples(count=8)

    def graphs_after_a_fit():
        model = classifier()
        model.compile("adam")
        model.fit(texts, labels, verbose=0)
        del model
        gc.collect()
        return sum(isinstance(tracked, FuncGraph) for tracked in gc.get_objects())

    graphs_after_a_fit()  # those of the tokenizer stay with it
    assert graphs_after_a_fit() == graphs_after_a_fit()
