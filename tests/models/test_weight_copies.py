import keras
import numpy as np
import pytest

from keras_bert_impl.models.weights import as_tensor, copy_of

# Shapes on both sides of the number of columns that are copied at once.
SHAPES = [(), (0, 3), (5,), (64, 64), (63, 130), (2, 3, 4)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_copy_is_that_of_numpy(shape, dtype):
    array = np.asarray(np.random.default_rng(0).normal(size=shape))
    for view in (array, array.T, array[..., ::2] if array.ndim else array):
        copied = copy_of(view, dtype)
        assert copied.flags.c_contiguous
        assert not copied.size or copied.ctypes.data % 64 == 0
        expected = view.astype(copied.dtype)
        assert copied.shape == expected.shape and copied.tobytes() == expected.tobytes()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow's memory")
def test_a_variable_takes_the_memory_of_its_tensor_and_is_changed_in_it():
    import tensorflow as tf

    array = copy_of(np.ones((8, 8)), "float32")
    variable = tf.Variable(lambda: as_tensor(array))
    assert np.shares_memory(np.asarray(memoryview(variable.value())), array)
    copied = tf.Variable(variable)
    variable.assign_add(tf.ones((8, 8)))
    assert (variable.numpy() == 2).all() and (copied.numpy() == 1).all()


def test_other_types_are_left_to_keras():
    array = copy_of(np.ones(3), "bfloat16")
    assert as_tensor(array) is array
