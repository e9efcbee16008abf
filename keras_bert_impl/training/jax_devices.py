"""The devices of a run on the JAX backend.

`get_strategy` and `strategy.scope()` set `keras.distribution` for the whole process. Leaving a
scope does not reset `keras.distribution`.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_bert_impl.training.sharding import is_ours, num_data_devices, sharded_distribution
from keras_bert_impl.training.workers import join_jax
from keras_bert_impl.utils.cluster import EXAMPLE, read_cluster
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.lazy import keep_accelerators_for_jax

_LOG = logging.getLogger(__name__)


class JaxDevices:
    """The devices of `keras.distribution`, with the interface of a `tf.distribute.Strategy`."""

    @property
    def num_replicas_in_sync(self) -> int:
        """Number of devices over which a global batch is split."""
        distribution = keras.distribution.distribution()
        return 1 if distribution is None else num_data_devices(distribution)

    def scope(self) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext()


class _ChosenDevices(JaxDevices):
    def __init__(self, distribution: Any) -> None:
        self._distribution = distribution

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        keras.distribution.set_distribution(self._distribution)
        yield


def choose_jax_devices(name: str, model_devices: int = 1) -> JaxDevices:
    """Sets the devices of a strategy for the process; see `get_strategy`."""
    keep_accelerators_for_jax()
    current_distribution = keras.distribution.distribution()
    if current_distribution is not None and not is_ours(current_distribution):
        return _keep_user_devices(current_distribution, name, model_devices)
    if name == "multi_worker" or (name == "auto" and _has_several_workers()):
        _join_workers()
    if num_hosts() > 1:
        if name in ("one_device", "mirrored"):
            raise InputError(
                f"this process is one of {num_hosts()} workers, but strategy {name!r} uses only "
                "one process. Choose 'multi_worker', or start a single process."
            )
        if model_devices > 1:
            raise InputError(
                f"model_devices={model_devices} needs a single process, but {num_hosts()} "
                "processes are connected. Remove model_devices, or start a single process."
            )
    devices = _list_device_names(name)
    if model_devices == len(devices) == 1:
        distribution = None
    else:
        distribution = sharded_distribution(devices, model_devices)
    keras.distribution.set_distribution(distribution)
    _LOG.info("%d JAX device(s) of %d process(es)", len(devices), num_hosts())
    return _ChosenDevices(distribution)


def use_cpu_devices_of_jax(count: int) -> None:
    """Splits the CPU into logical devices and hides other devices."""
    import jax

    try:
        jax.config.update("jax_num_cpu_devices", count)
        jax.config.update("jax_platforms", "cpu")
    except RuntimeError as error:
        raise InputError(
            "logical CPU devices must be created before JAX is initialized."
        ) from error


def num_hosts() -> int:
    """Returns the number of processes connected by `jax.distributed`, or 1."""
    return _locate_process()[1]


def host_index() -> int:
    """Returns the index of this process in `jax.distributed`, or 0."""
    return _locate_process()[0]


def _locate_process():
    if keras.backend.backend() != "jax":
        return 0, 1
    import jax

    # `jax.process_count` initializes JAX, and processes cannot be connected afterward.
    connected = jax.distributed.is_initialized()
    return (jax.process_index(), jax.process_count()) if connected else (0, 1)


def mean_of_hosts(value: float) -> Any:
    """Averages a number over all processes. All processes must call this function."""
    return value if num_hosts() == 1 else np.float32(_gather_from_hosts(value).mean())


def value_of_first_host(value: float) -> float:
    """Broadcasts a number from the first process. All processes must call this function."""
    return value if num_hosts() == 1 else float(_gather_from_hosts(value)[0])


def _gather_from_hosts(value):
    from jax.experimental import multihost_utils

    # The numbers are sent as bytes, because JAX has no float64 by default.
    payload = np.frombuffer(np.float64(value).tobytes(), np.uint8)
    return np.asarray(multihost_utils.process_allgather(payload)).view(np.float64).ravel()


def whole_value(variable: keras.Variable) -> np.ndarray:
    """Returns the value of a (sharded) variable. All processes must call this function."""
    if num_hosts() == 1 or variable.value.is_fully_replicated:
        return np.asarray(variable.numpy())
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(variable.value, tiled=True))


def _keep_user_devices(distribution, name, model_devices):
    if name != "auto" or model_devices > 1:
        argument = f"model_devices={model_devices}" if model_devices > 1 else f"strategy {name!r}"
        raise InputError(
            f"{argument} would replace the keras.distribution of this program "
            f"({type(distribution).__name__}). Choose strategy 'auto' to keep that distribution, "
            "or call keras.distribution.set_distribution(None) first."
        )
    _LOG.info("the %s set by the program", distribution)
    return _ChosenDevices(distribution)


def _list_device_names(name):
    import jax

    devices = jax.devices()
    if name == "tpu" and devices[0].platform != "tpu":
        raise InputError(
            f"strategy 'tpu': JAX finds no TPU, only {len(devices)} device(s) of kind "
            f"{devices[0].platform}. Choose 'auto'. On a machine with a TPU, install 'jax[tpu]' "
            "and unset JAX_PLATFORMS."
        )
    if name == "one_device":
        devices = devices[:1]
    return [f"{device.platform}:{device.id}" for device in devices]


# === Several processes ===


def _has_several_workers():
    cluster = read_cluster()
    if cluster is not None:
        return cluster.num_workers > 1
    return "JAX_COORDINATOR_ADDRESS" in os.environ


def _join_workers():
    """Connects the workers in `TF_CONFIG`, or the workers that JAX detects."""
    import jax

    if jax.distributed.is_initialized():
        return
    cluster = read_cluster()
    try:
        if cluster is not None and cluster.num_workers > 1:
            return join_jax(cluster)
        jax.distributed.initialize()
    except (ValueError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"strategy 'multi_worker': jax.distributed cannot connect the workers ({reason}). "
            f"Name at least two workers in the environment variable TF_CONFIG, as in {EXAMPLE}, "
            "or start the command with SLURM, Open MPI or on a TPU slice. Connect before any "
            "other use of JAX."
        ) from error
