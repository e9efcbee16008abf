"""Traces steps under a TPUStrategy on a CPU; prints the operations of the graphs as JSON.

Without a TPU, a resolver and a topology that pretend to be one are enough to create a strategy and
trace a function under it, with the real shapes and cross-replica operations.
"""

import collections
import json
import os
import sys

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute.cluster_resolver import cluster_resolver
from tensorflow.python.tpu import device_assignment as assignment
from tensorflow.python.tpu import topology, tpu_strategy_util, tpu_system_metadata

from tests.training.helpers import adamw, build, examples

REPLICAS = 2


class _Device:
    memory_limit_bytes = 0

    def __init__(self, kind, index):
        self.name = f"/job:localhost/replica:0/task:0/device:{kind}:{index}"
        self.device_type = kind


def _metadata(layout):
    cores = [_Device("TPU", index) for index in range(REPLICAS)]
    return tpu_system_metadata.TPUSystemMetadata(
        num_cores=REPLICAS,
        num_hosts=1,
        num_of_cores_per_host=REPLICAS,
        topology=layout,
        devices=[*cores, _Device("TPU_SYSTEM", 0), _Device("CPU", 0)],
    )


class _Resolver(cluster_resolver.ClusterResolver):
    task_type = "localhost"
    task_id = 0
    environment = ""
    _tpu = "local"

    def master(self, *args, **kwargs):
        return ""

    get_master = master

    def cluster_spec(self):
        return tf.train.ClusterSpec({})

    def get_job_name(self):
        return "localhost"

    def get_coordinator_name(self):
        return None

    def num_accelerators(self, *args, **kwargs):
        return {"TPU": REPLICAS}


def pretended_strategy():
    tf.config.set_soft_device_placement(True)
    coordinates = np.array([[[0, 0, 0, index] for index in range(REPLICAS)]], np.int32)
    layout = topology.Topology(
        mesh_shape=np.array([1, 1, 1, REPLICAS], np.int32), device_coordinates=coordinates
    )
    tpu_strategy_util._INITIALIZED_TPU_SYSTEMS[""] = layout
    tpu_system_metadata._query_tpu_system_metadata = lambda *_, **__: _metadata(layout)
    _Resolver.get_tpu_system_metadata = lambda self: _metadata(layout)
    devices = assignment.DeviceAssignment.build(layout, num_replicas=REPLICAS)
    return tf.distribute.TPUStrategy(_Resolver(), experimental_device_assignment=devices)


def operations(strategy, accumulation_steps):
    """Counts the operations of each kind in a step."""
    with strategy.scope():
        model = build(dropout=0.1, length=8)
        model.compile(
            optimizer=adamw(),
            jit_compile=False,
            accumulation_steps=accumulation_steps,
        )
        model.optimizer.build(model.trainable_variables)
    specs = [
        tf.nest.map_structure(lambda array: tf.TensorSpec((4, *array.shape[1:]), tf.int32), part)
        for part in examples()
    ]

    @tf.function(autograph=False)
    def step(x, y):
        strategy.run(model.train_step, args=((x, y),))

    graph = step.get_concrete_function(*specs).graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    return collections.Counter(node.op for node in nodes)


def main(*accumulation_steps):
    strategy = pretended_strategy()
    print(json.dumps({n: operations(strategy, n) for n in accumulation_steps}), flush=True)
    # The strategy's destructor would contact the TPU system.
    os._exit(0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
