"""Selection of the devices of a run."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, TypeAlias

import keras

from keras_bert_impl.training.jax_devices import (
    JaxDevices,
    choose_jax_devices,
    host_index,
    mean_of_hosts,
    num_hosts,
    use_cpu_devices_of_jax,
    value_of_first_host,
)
from keras_bert_impl.training.workers import connecting, wait_for_workers
from keras_bert_impl.utils.cluster import EXAMPLE, read_cluster
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import PositiveInt, check

if TYPE_CHECKING:
    import tensorflow as tf

    Strategy: TypeAlias = "tf.distribute.Strategy | JaxDevices"

_LOG = logging.getLogger(__name__)
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")


def get_strategy(name: str | Strategy = "auto", model_devices: int = 1) -> Strategy:
    """Chooses the devices of a run by name, on either backend, and logs the choice.

    Call this function before any other TensorFlow or JAX work, and create the model and optimizer
    inside the `scope()` of the strategy.

    Args:
        name: `"auto"` uses the first of these that exists: a TPU, the workers in `TF_CONFIG`,
            several GPUs, one device. `"one_device"`, `"mirrored"` (all devices of this host),
            `"multi_worker"` and `"tpu"` use the named strategy or raise an error. On JAX, `"auto"`
            uses `keras.distribution` if the program has set it. Otherwise, `"auto"` uses all JAX
            devices, including logical CPU devices. A strategy object is returned unchanged.
        model_devices: number of devices that hold one copy of the weights together, for models that
            do not fit on one device. JAX only; see `encoder_layout`.

    Returns:
        `tf.distribute.Strategy`, or `JaxDevices` on the JAX backend. On JAX, the choice applies to
        the whole process, until this function is called or the scope of a strategy is entered
        again.

    Raises:
        InputError: The name is unknown, the hardware is missing, `TF_CONFIG` is invalid, or a
            worker does not start; see `workers.wait_for_workers`.

    Example:
        with get_strategy("auto").scope():
            model = build_model()
    """
    if not isinstance(name, str):
        return name
    check_strategy(name)
    model_devices = check("model_devices", model_devices, PositiveInt)
    if keras.backend.backend() == "jax":
        return choose_jax_devices(name, model_devices)
    if keras.backend.backend() != "tensorflow":
        raise InputError("strategies need the TensorFlow or the JAX backend of Keras.")
    if model_devices > 1:
        raise InputError("model_devices=... needs the JAX backend: set KERAS_BACKEND=jax.")
    strategy_name = _choose() if name == "auto" else name
    if strategy_name != "multi_worker" and num_workers() > 1:
        raise InputError(
            f"TF_CONFIG names {num_workers()} workers, but strategy {strategy_name!r} uses only "
            "one worker. Choose 'multi_worker', or unset TF_CONFIG."
        )
    strategy = _make(strategy_name)
    _LOG.info("strategy %s: %d replica(s)", strategy_name, strategy.num_replicas_in_sync)
    return strategy


def check_strategy(name: str | Strategy) -> None:
    if isinstance(name, str) and name not in STRATEGIES:
        raise InputError(f"unknown strategy {name!r}; choose one of {', '.join(STRATEGIES)}.")


def is_chief() -> bool:
    """Returns whether this process writes files: the chief, or the only process."""
    cluster = read_cluster()
    return host_index() == 0 if cluster is None else cluster.is_chief


def num_workers() -> int:
    """Returns the number of workers in `TF_CONFIG` or `jax.distributed`, or 0."""
    cluster = read_cluster()
    if cluster is not None:
        return cluster.num_workers
    return num_hosts() if num_hosts() > 1 else 0


def use_cpu_devices(count: int) -> None:
    """Splits the CPU into `count` logical devices for `"mirrored"`, and hides GPUs."""
    if keras.backend.backend() == "jax":
        return use_cpu_devices_of_jax(count)
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    try:
        tf.config.set_visible_devices([], "GPU")
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * count
        )
    except RuntimeError as error:
        raise InputError(
            "logical CPU devices must be created before TensorFlow is initialized."
        ) from error


def device_names(strategy: Strategy) -> str:
    """Describes the devices of a strategy, such as `"1 CPU"` or `"4 GPUs (NVIDIA H100)"`."""
    count, name = strategy.num_replicas_in_sync, ""
    if isinstance(strategy, JaxDevices):
        kind = keras.distribution.list_devices()[0].partition(":")[0].upper()
    else:
        import tensorflow as tf

        kind = next(kind for kind in ("TPU", "GPU", "CPU") if tf.config.list_logical_devices(kind))
        if kind == "GPU":
            first = tf.config.list_physical_devices("GPU")[0]
            name = tf.config.experimental.get_device_details(first).get("device_name", "")
    return f"{count} {kind}{'s' * (count > 1)}" + (f" ({name})" if name else "")


def mean_of_workers(strategy: Strategy, value: float) -> Any:
    """Averages a number over all workers. All workers must call this function."""
    if isinstance(strategy, JaxDevices):
        return mean_of_hosts(value)
    import tensorflow as tf

    return strategy.reduce("MEAN", strategy.run(lambda: tf.constant(value, tf.float32)), axis=None)


def number_of_chief(strategy: Strategy, value: float) -> float:
    """Broadcasts a number from the first worker. All workers must call this function."""
    if isinstance(strategy, JaxDevices):
        return value_of_first_host(value)
    import tensorflow as tf

    def mask_value():
        is_first = tf.distribute.get_replica_context().replica_id_in_sync_group == 0
        # a sum with zeros is exact, unlike a mean
        return tf.where(is_first, tf.constant(value, tf.float64), tf.constant(0.0, tf.float64))

    return float(strategy.reduce("SUM", strategy.run(mask_value), axis=None))


def _choose():
    import tensorflow as tf

    if os.environ.get("TPU_NAME") or tf.config.list_physical_devices("TPU"):
        return "tpu"
    if num_workers() > 1:
        return "multi_worker"
    if len(tf.config.list_physical_devices("GPU")) > 1:
        return "mirrored"
    return "one_device"


def _make(name):
    import tensorflow as tf

    if name == "one_device":
        return tf.distribute.get_strategy()
    if name == "multi_worker":
        return _make_multi_worker()
    if name == "tpu":
        return _make_tpu()
    gpus = tf.config.list_logical_devices("GPU")
    if gpus:
        return tf.distribute.MirroredStrategy([device.name for device in gpus])
    # Collectives on CPUs are numbered per process, so a second strategy would reuse the numbers.
    return tf.distribute.MirroredStrategy(
        [device.name for device in tf.config.list_logical_devices("CPU")],
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )


def _make_multi_worker():
    import tensorflow as tf

    cluster = read_cluster()
    if cluster is None or cluster.num_workers < 2:
        raise InputError(
            "strategy 'multi_worker' needs at least two workers in the environment variable "
            f"TF_CONFIG, as in {EXAMPLE}."
        )
    wait_for_workers(cluster)
    with connecting():
        return tf.distribute.MultiWorkerMirroredStrategy()


def _make_tpu():
    import tensorflow as tf

    name = os.environ.get("TPU_NAME", "local")
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        first_line = str(error).partition("\n")[0]
        raise InputError(f"strategy 'tpu': found no usable TPU ({first_line}).") from error
