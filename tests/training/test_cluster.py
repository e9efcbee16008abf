"""Workers in `TF_CONFIG`, and waiting for them."""

import json
import signal
import socket
import threading
import time

import pytest
import tensorflow as tf

from keras_bert_impl.training.strategy import get_strategy, is_chief, num_workers
from keras_bert_impl.training.workers import (
    TIMEOUT,
    WorkerLostError,
    reports_lost_workers,
    wait_for_workers,
)
from keras_bert_impl.utils.cluster import Cluster, read_cluster
from keras_bert_impl.utils.errors import InputError
from tests.training.helpers import free_ports, start_python

TWO = {"worker": ["host1:2222", "host2:2222"]}
FIRST = {"type": "worker", "index": 0}


def set_config(monkeypatch, config):
    monkeypatch.setenv("TF_CONFIG", config if isinstance(config, str) else json.dumps(config))


@pytest.mark.parametrize("task", [FIRST, {"type": "worker", "index": "0"}])
def test_the_first_worker_is_the_chief(monkeypatch, task):
    set_config(monkeypatch, {"cluster": TWO, "task": task, "rpc_layer": "grpc"})
    assert is_chief() and num_workers() == 2
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    assert read_cluster() == Cluster(
        resolver.cluster_spec().as_dict(),
        resolver.task_type,
        resolver.task_id,
    )
    assert read_cluster().others == {"host2:2222": "worker 1"}


@pytest.mark.parametrize("config", ["", "{}", '{"cluster": {}}', '{"task": {"type": "worker"}}'])
def test_no_cluster(monkeypatch, config):
    set_config(monkeypatch, config)
    assert read_cluster() is None and is_chief() and num_workers() == 0


def of_cluster(cluster):
    return {"cluster": cluster, "task": FIRST}


@pytest.mark.parametrize(
    "config, message",
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "is nested too deeply"),
        ('{"cluster": {"worker": ["a:1"], "worker": ["b:1"]}}', "has the key 'worker' twice"),
        ([], "must be an object"),
        ("null", "must be an object"),
        ('"worker"', "must be an object"),
        ("0", "must be an object"),
        (of_cluster([]), "must have an object as cluster"),
        (of_cluster(None), "must have an object as cluster"),
        (of_cluster("host1:2222"), "must have an object as cluster"),
        (
            of_cluster({"worker": "host1:2222"}),
            "must have a list of addresses for the task type worker",
        ),
        (of_cluster({"worker": []}), "must have a list of addresses for the task type worker"),
        (of_cluster({"worker": None}), "must have a list of addresses for the task type worker"),
        (of_cluster({"worker": {"0": "host1:2222"}}), "must have a list of addresses"),
        (of_cluster(TWO | {"ps": ["host3:2222"]}), "only the task types chief and worker"),
        (of_cluster({"wrker": ["host1:2222"]}), "only the task types chief and worker"),
        (of_cluster(TWO | {"chief": ["a:1", "b:1"]}), "one chief"),
        (of_cluster({"worker": ["host1:2222", "host1:2222"]}), "an address twice"),
        (of_cluster(TWO | {"chief": ["host2:2222"]}), "an address twice"),
        *(
            (of_cluster({"worker": [address]}), "must contain addresses such as")
            for address in (
                "host1",
                "host1:",
                ":2222",
                "host1:0",
                "host1:65536",
                "host1:-1",
                "host1:x",
                "",
                5,
                None,
                ["host1:2222"],
                "host 1:2222",
                "http://host1:2222",
                "-h:22",
                "host1:2222\n",
            )
        ),
        ({"cluster": TWO}, "must have an object as task"),
        ({"cluster": TWO, "task": None}, "must have an object as task"),
        ({"cluster": TWO, "task": "worker"}, "must have an object as task"),
        ({"cluster": TWO, "task": {"index": 0}}, "as task type"),
        ({"cluster": TWO, "task": {"type": "chief", "index": 0}}, "as task type"),
        ({"cluster": TWO, "task": {"type": ["worker"], "index": 0}}, "as task type"),
        *(
            (
                {"cluster": TWO, "task": {"type": "worker", "index": index}},
                "a task index from 0 to 1",
            )
            for index in (2, -1, "2", "-1", "x", "", None, True, 0.5, [0], "٠")
        ),
        ({"cluster": TWO, "task": {"type": "worker"}}, "a task index from 0 to 1"),
    ],
)
def test_rejects_invalid_tf_config(monkeypatch, config, message):
    set_config(monkeypatch, config)
    for ask in (is_chief, num_workers, get_strategy):
        with pytest.raises(InputError, match=f"TF_CONFIG.*{message}") as raised:
            ask()
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["one_device", "mirrored"])
def test_rejects_single_worker_strategies_with_several_workers(monkeypatch, name):
    """The second worker would train and write nothing."""
    set_config(monkeypatch, {"cluster": TWO, "task": FIRST})
    with pytest.raises(InputError, match=f"2 workers, but strategy '{name}' uses only one worker"):
        get_strategy(name)


# === Waiting ===


def cluster_of(ports, index=0):
    return Cluster({"worker": [f"127.0.0.1:{port}" for port in ports]}, "worker", index)


def test_workers_wait_for_each_other(monkeypatch):
    monkeypatch.setenv(TIMEOUT, "60")
    ports, here, over = free_ports(3), [], threading.Event()

    def wait(index):
        wait_for_workers(cluster_of(ports, index))
        with socket.create_server(("127.0.0.1", ports[index])):  # stands in for TensorFlow's server
            here.append(index)
            over.wait(30)

    threads = [threading.Thread(target=wait, args=(index,)) for index in range(3)]
    for thread in threads[:2]:
        thread.start()
    time.sleep(1.5)
    assert here == []  # none continues without the third
    threads[2].start()
    end = time.monotonic() + 30
    while len(here) < 3 and time.monotonic() < end:
        time.sleep(0.1)
    over.set()
    for thread in threads:
        thread.join(30)
    assert sorted(here) == [0, 1, 2]


def test_error_names_missing_workers(monkeypatch):
    monkeypatch.setenv(TIMEOUT, "1")
    ports = free_ports(2)
    with pytest.raises(
        InputError, match=rf"worker 1 \(127.0.0.1:{ports[1]}\) did not start within 1 s"
    ):
        wait_for_workers(cluster_of(ports))


def test_a_port_in_use_is_named(monkeypatch):
    monkeypatch.setenv(TIMEOUT, "1")
    ports = free_ports(2)
    with socket.create_server(("", ports[0])):
        place = f"cannot listen at its address in TF_CONFIG, 127.0.0.1:{ports[0]}"
        with pytest.raises(InputError, match=place):
            wait_for_workers(cluster_of(ports))


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "ten"])
def test_rejects_an_invalid_timeout(monkeypatch, seconds):
    monkeypatch.setenv(TIMEOUT, seconds)
    with pytest.raises(InputError, match=f"{TIMEOUT} must be a number of seconds"):
        wait_for_workers(cluster_of(free_ports(2)))


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_ends_the_wait(number):
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    code = "import logging, keras_bert_impl.training.workers as w; w._LOG.warning('waits'); "
    code += "w.wait_for_workers(w.read_cluster())"
    config = {"cluster": {"worker": addresses}, "task": FIRST}
    worker = start_python("-c", code, tf_config=config)
    try:
        for line in worker.stdout:
            if "waits" in line:
                break
        time.sleep(1)
        worker.send_signal(number)
        assert worker.wait(60) in (-number, 1, 130)
    finally:
        worker.kill()


# === A lost worker ===


def test_error_names_a_stopped_worker(monkeypatch):
    ports = free_ports(2)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    set_config(monkeypatch, of_cluster({"worker": addresses}))

    @reports_lost_workers
    def run(error):
        raise error

    with pytest.raises(WorkerLostError, match=rf"worker 1 \({addresses[1]}\) stopped.*resume"):
        run(tf.errors.UnavailableError(None, None, "Collective ops is aborted"))
    with pytest.raises(InputError, match="of ours"):
        run(InputError("of ours"))
    monkeypatch.delenv("TF_CONFIG")
    with pytest.raises(tf.errors.UnavailableError):
        run(tf.errors.UnavailableError(None, None, "no workers"))
