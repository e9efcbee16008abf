"""Settings that have to be made before TensorFlow starts."""

import contextlib
import gc
import os

# What PyTorch for GPUs compiles with. Imported after TensorFlow it ends the process: both bring an
# LLVM of their own, and only in this order do they go together.
with contextlib.suppress(ImportError):
    import triton  # noqa: F401

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import pytest

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    # Four logical devices on one CPU: strategies are tested on 1, 2 and 4 replicas.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 4
    )


@pytest.fixture(autouse=True, scope="module")
def survivors_are_not_searched_again():
    """Graphs and modules live on; to go through all of them takes seconds, again and again."""
    yield
    gc.collect()
    gc.freeze()
