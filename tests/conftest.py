"""Settings that have to be made before TensorFlow starts."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    # Four logical devices on one CPU: strategies are tested on 1, 2 and 4 replicas.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 4
    )
