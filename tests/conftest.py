"""Settings that have to be made before TensorFlow starts."""

import contextlib
import gc
import os

import pytest

# What PyTorch for GPUs compiles with. Imported after TensorFlow it ends the process: both bring an
# LLVM of their own, and only in this order do they go together.
with contextlib.suppress(ImportError):
    import triton  # noqa: F401

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def pytest_configure(config):
    """Starts TensorFlow, but not in the process that only hands tests out to others."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    # A trace makes many objects and hardly a cycle; to search them all at each of a hundred
    # occasions takes a thirtieth of the time of the tests.
    gc.set_threshold(10_000, 20, 100)
    import keras

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # Four logical devices on one CPU: strategies are tested on 1, 2 and 4 replicas.
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * 4,
        )


@pytest.fixture(autouse=True, scope="module")
def survivors_are_not_searched_again():
    """Graphs and modules live on; to go through all of them takes seconds, again and again."""
    yield
    gc.collect()
    gc.freeze()
