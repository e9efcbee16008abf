"""Layouts of data, weights and optimizer state on JAX devices (`keras.distribution`).

Mesh axes: `"batch"` splits the examples of a batch, and `"model"` splits the matrices of the
encoder.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import keras
import numpy as np

from keras_bert_impl.utils.errors import InputError

TensorLayout: TypeAlias = keras.distribution.TensorLayout
_Mixin: Any = object  # The methods use attributes of `Distribution`, which is a later base class.


def encoder_layout(device_mesh: keras.distribution.DeviceMesh) -> keras.distribution.LayoutMap:
    """Creates the layout map that splits an encoder's matrices over the last axis of a mesh.

    Queries, keys and values are split by attention head. The first feed-forward layer and the gate
    are split along the output dimension. The second feed-forward layer and the output layer of the
    attention are split along the input dimension. The token embeddings are split along the hidden
    dimension. Each attention layer and each feed-forward network then needs one all-reduce over the
    devices. All other variables are replicated.

    Args:
        device_mesh: a mesh such as `(2, 4)` with the axes `"batch"` and `"model"`.

    Returns:
        The map for `keras.distribution.ModelParallel`. `get_strategy("auto", model_devices=4)` uses
        it.

    Source: Shoeybi et al. 2019, "Megatron-LM", section 3.

    Example:
        from keras_bert_impl.training import encoder_layout
        devices = [f"tpu:{number}" for number in range(8)]
        mesh = keras.distribution.DeviceMesh((2, 4), ("batch", "model"), devices)
        layout_map = encoder_layout(mesh)  # for `keras.distribution.ModelParallel`, on JAX
    """
    axis = device_mesh.axis_names[-1]
    layout = keras.distribution.LayoutMap(device_mesh)
    # Before Keras 3.15, an expression matches a substring of a path. Since then, it must match the
    # full path.
    pattern = r"^(.*/)?(attention/(query|key|value)|layer_\d+/(intermediate|gate))"
    layout[f"{pattern}/kernel$"] = (None, axis)
    layout[f"{pattern}/bias$"] = (axis,)
    layout[r"^(.*/)?(attention|layer_\d+)/output/kernel$"] = (axis, None)
    layout[r"^(.*/)?embeddings/token_embeddings$"] = (None, axis)
    return layout


class _Sharded(_Mixin):
    """Mixin for `keras.distribution.Distribution`: checks batches, shards the optimizer state."""

    def get_data_layout(self, data_shape: Sequence[int]) -> TensorLayout:
        """Returns the layout of a batch.

        The part of the batch on this host has the shape `data_shape`.
        """
        devices = num_data_devices(self) // num_processes(self)
        rows = data_shape[0]
        if rows % devices:
            raise InputError(
                f"a batch of {rows} rows cannot be divided evenly among {devices} devices. Use "
                f"batches of {nearest_multiples(rows, devices)} rows, or strategy='one_device'."
            )
        return super().get_data_layout(data_shape)

    def get_variable_layout(self, variable: keras.Variable) -> TensorLayout:
        """Returns the layout of a variable: replicated if its axes cannot be divided evenly."""
        layout = super().get_variable_layout(variable)
        sizes = dict(zip(self.device_mesh.axis_names, self.device_mesh.shape, strict=True))
        if any(size % sizes.get(axis, 1) for size, axis in zip(variable.shape, layout.axes)):
            return keras.distribution.TensorLayout([None] * len(variable.shape), self.device_mesh)
        return layout

    def slot_layout(self, shape: Sequence[int], layout: TensorLayout) -> TensorLayout:
        """Returns the layout of an optimizer slot, such as a moment, for a variable.

        Source: Rajbhandari et al. 2020, "ZeRO", section 5.1 (optimizer state partitioning).
        """
        axes, devices = list(layout.axes), num_data_devices(self)
        for index, (size, axis) in enumerate(zip(shape, axes, strict=True)):
            if axis is None and size and size % devices == 0:
                axes[index] = self.batch_dim_name
                return keras.distribution.TensorLayout(axes, self.device_mesh)
        return layout

    def distribute_dataset(self, dataset: Any) -> Any:
        """Returns this host's examples of a dataset; see `part_of_host` for exceptions."""
        return dataset if hasattr(dataset, _IS_PART) else super().distribute_dataset(dataset)


class DataParallel(_Sharded, keras.distribution.DataParallel):
    """`keras.distribution.DataParallel` with sharded optimizer state."""


class ModelParallel(_Sharded, keras.distribution.ModelParallel):
    """`keras.distribution.ModelParallel` with sharded optimizer state."""


def sharded_distribution(devices: Sequence[str], model_devices: int = 1) -> Any:
    """Creates the distribution, in which `model_devices` devices share one copy of the weights."""
    if model_devices == 1:
        return DataParallel(devices=devices)
    if len(devices) % model_devices:
        divisors = [n for n in range(1, len(devices) + 1) if len(devices) % n == 0]
        raise InputError(
            f"model_devices={model_devices} must divide the {len(devices)} devices: choose one of "
            f"{', '.join(map(str, divisors))}."
        )
    shape = (len(devices) // model_devices, model_devices)
    mesh = keras.distribution.DeviceMesh(shape, ("batch", "model"), np.array(devices))
    return ModelParallel(layout_map=encoder_layout(mesh), batch_dim_name="batch")


def is_ours(distribution: Any) -> bool:
    return isinstance(distribution, _Sharded)


def num_data_devices(distribution: Any) -> int:
    """Returns the number of devices over which a distribution splits a global batch."""
    mesh = distribution.device_mesh
    return mesh.shape[mesh.axis_names.index(distribution.batch_dim_name)]


def num_processes(distribution: Any) -> int:
    """Returns the number of processes that have devices in a distribution's mesh."""
    return len(
        {device.process_index for device in distribution.device_mesh.backend_mesh.devices.flat}
    )


_IS_PART = "_is_part_of_host"


def part_of_host(dataset: Any) -> Any:
    """Marks a dataset that contains only the examples of this host.

    Keras then does not split the dataset over the hosts.
    """
    setattr(dataset, _IS_PART, True)
    return dataset


def nearest_multiples(number: int, divisor: int) -> str:
    """Returns the nearest positive multiples of a divisor as text, such as `"8 or 16"`."""
    lower = number // divisor * divisor
    upper = math.ceil(number / divisor) * divisor
    return f"{lower} or {upper}" if 0 < lower < upper else str(upper or divisor)
