"""Helpers for several test files: a small configuration, random inputs, the shared layer test."""

import contextlib
import dataclasses
import json
import resource
import subprocess

import keras
import numpy as np
from keras import ops

from keras_bert_impl.checkpoints.config import EncoderConfig

# The sizes all differ, so that a swapped dimension cannot pass.
TINY = EncoderConfig(
    vocabulary_size=40,
    hidden_dim=16,
    num_layers=2,
    num_heads=4,
    intermediate_dim=24,
    max_length=12,
    num_segments=3,
)
# Like ModernBERT: in every second layer, a token attends to two tokens on each side.
MODERN = dataclasses.replace(
    TINY,
    architecture="modernbert",
    num_layers=4,
    num_segments=0,
    use_pooler=False,
    pre_norm=True,
    final_norm=True,
    pooling="mean",
    use_bias=False,
    gated=True,
    rotary_base=1000.0,
    global_every=2,
    window=2,
    local_rotary_base=10.0,
)


def to_numpy(nest):
    """Converts a nest of tensors to numpy arrays."""
    return keras.tree.map_structure(ops.convert_to_numpy, nest)


def difference(first, second):
    """The largest absolute difference between two tensors, as a float."""
    first, second = (np.asarray(to_numpy(x), dtype="float64") for x in (first, second))
    assert first.shape == second.shape
    return float(np.abs(first - second).max())


def random_features(config, lengths, seed=0):
    """Features of a padded batch with random token and segment ids.

    Args:
        config: `EncoderConfig`.
        lengths: list of int, number of real tokens in each row.
        seed: int.
    """
    random = np.random.default_rng(seed)
    shape = len(lengths), max(lengths)
    mask = np.arange(shape[1])[None] < np.array(lengths)[:, None]
    return {
        "token_ids": random.integers(0, config.vocabulary_size, shape).astype("int32"),
        "segment_ids": random.integers(0, config.num_segments or 1, shape).astype("int32"),
        "padding_mask": mask.astype("int32"),
    }


def randomize(model, seed=0, scale=0.1):
    """Adds noise to every weight; initial biases of 0 and scales of 1 would hide swapped ones."""
    random = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(to_numpy(weight.value) + scale * random.normal(size=weight.shape))


def compiled(function):
    """Compiles a function with XLA, on either backend."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(function, jit_compile=True, autograph=False)


def gradient(function, inputs):
    """Returns the gradient of a scalar function of an array, or of a list of arrays."""
    inputs = keras.tree.map_structure(ops.convert_to_tensor, inputs)
    if keras.backend.backend() == "jax":
        import jax

        return jax.grad(function)(inputs)
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = function(inputs)
    return tape.gradient(outputs, inputs, unconnected_gradients="zero")


def run_layer_test(layer, inputs, num_parameters, tmp_path, output_dtype=None):
    """Checks what every layer must do; returns its eager outputs.

    Args:
        layer: an unbuilt layer with a `float32` policy and a complete `get_config`.
        inputs: tuple of arrays, `layer(*inputs)`.
        num_parameters: int, exact number of parameters.
        tmp_path: `Path` to save to.
        output_dtype: str, if the outputs differ from the policy's compute dtype.
    """
    eager = layer(*inputs)
    assert layer.count_params() == num_parameters

    # A copy made from the configuration, called on symbolic inputs, computes the same function.
    config = layer.get_config()
    json.dumps(config)
    copy = type(layer).from_config(config)
    assert copy.get_config() == config
    model = _functional(copy, inputs)
    copy.set_weights(layer.get_weights())
    for symbol, tensor in zip(keras.tree.flatten(model.output), keras.tree.flatten(eager)):
        assert tuple(symbol.shape[1:]) == tuple(tensor.shape[1:])
        assert symbol.dtype == keras.backend.standardize_dtype(tensor.dtype)
    arrays = list(inputs) if len(inputs) > 1 else inputs[0]
    # Compilation may change the order of sums: errors of a few units in the last place.
    _assert_close(model.predict(arrays, verbose=0), eager, 1e-6)

    # Survives a round trip through a `.keras` file, with its weights.
    model.save(tmp_path / "layer.keras")
    loaded = keras.saving.load_model(tmp_path / "layer.keras")
    _assert_close(loaded.predict(arrays, verbose=0), eager, 1e-6)

    # Mixed precision: float32 weights, outputs of the declared dtype.
    half = type(layer).from_config({**config, "dtype": "mixed_bfloat16"})
    half_model = _functional(half, inputs)
    half_outputs = keras.tree.flatten(half(*inputs))
    for symbol, tensor in zip(keras.tree.flatten(half_model.output), half_outputs):
        dtype = keras.backend.standardize_dtype(tensor.dtype)
        assert symbol.dtype == dtype == (output_dtype or "bfloat16")
    assert {weight.dtype for weight in half.weights} <= {"float32"}

    # Training: every weight receives a gradient and stays finite.
    before = [to_numpy(weight.value) for weight in copy.trainable_weights]
    if before:
        targets = np.random.default_rng(1).normal(size=np.shape(to_numpy(eager)))
        model.compile(keras.optimizers.SGD(0.1), "mse")
        model.fit(arrays, targets, batch_size=len(inputs[0]), epochs=1, verbose=0)
        after = [to_numpy(weight.value) for weight in copy.trainable_weights]
        assert all(np.isfinite(array).all() for array in after)
        unchanged = [
            weight.path
            for weight, old, new in zip(copy.trainable_weights, before, after)
            if (old == new).all()
        ]
        # Adding the same number to all scores does not change a softmax.
        assert [path for path in unchanged if not path.endswith("key/bias")] == []
    return eager


def _functional(layer, inputs):
    symbols = [keras.Input(x.shape[1:], dtype=str(x.dtype)) for x in inputs]
    return keras.Model(symbols if len(symbols) > 1 else symbols[0], layer(*symbols))


def _assert_close(received, expected, tolerance):
    for output, reference in zip(keras.tree.flatten(received), keras.tree.flatten(expected)):
        assert difference(output, reference) <= tolerance


def newest_checkpoint(directory):
    """Returns the path of the checkpoint of the most epochs, without a suffix."""
    numbers = [int(path.stem.removeprefix("ckpt-")) for path in directory.glob("ckpt-*.index")]
    return str(directory / f"ckpt-{max(numbers)}")


@contextlib.contextmanager
def small_disk(path):
    """Creates the directory `path`, where files over 1 MiB cannot be written inside the block.

    Mounts a small disk where this process may, and limits the file size elsewhere.
    """
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
    if _succeeds(mount):
        try:
            yield
        finally:
            subprocess.run(["umount", str(path)], check=True)
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _succeeds(command):
    try:
        return subprocess.run(command, capture_output=True, timeout=10).returncode == 0
    except OSError:
        return False


def mirrored(replicas):
    """A strategy with `replicas` replicas on one CPU."""
    import tensorflow as tf

    if replicas == 1:
        return tf.distribute.get_strategy()
    # Collectives on CPUs are numbered per process, so two strategies would interfere.
    reduce = tf.distribute.ReductionToOneDevice()
    devices = [f"CPU:{i}" for i in range(replicas)]
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=reduce)
