import json
import logging

import pytest
import tensorflow as tf

from keras_bert_impl.training.strategy import get_strategy, is_chief
from keras_bert_impl.utils.errors import InputError


def workers(monkeypatch, index, cluster=None):
    config = {
        "cluster": cluster or {"worker": ["127.0.0.1:1", "127.0.0.1:2"]},
        "task": {"type": "worker", "index": index},
    }
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


def test_auto_on_one_cpu_logs_the_default_strategy(monkeypatch, caplog):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with caplog.at_level(logging.INFO):
        assert get_strategy() is tf.distribute.get_strategy()
    assert [record.getMessage() for record in caplog.records] == [
        "strategy one_device: 1 replica(s)"
    ]


def test_unknown_name():
    with pytest.raises(InputError, match="unknown strategy 'gpu'; choose one of auto, one_device"):
        get_strategy("gpu")


def test_multi_worker_without_workers(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(
        InputError, match="at least two workers in the environment variable TF_CONFIG"
    ):
        get_strategy("multi_worker")


def test_a_damaged_tf_config_is_named(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{cluster")
    with pytest.raises(InputError, match="TF_CONFIG: not valid JSON"):
        get_strategy("auto")


def test_tpu_without_a_tpu(monkeypatch):
    monkeypatch.delenv("TPU_NAME", raising=False)
    with pytest.raises(InputError, match="found no usable TPU"):
        get_strategy("tpu")


def test_chief(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert is_chief()
    workers(monkeypatch, 0)
    assert is_chief()
    workers(monkeypatch, 1)
    assert not is_chief()
    workers(monkeypatch, 0, {"chief": ["127.0.0.1:3"], "worker": ["127.0.0.1:1"]})
    assert not is_chief()
