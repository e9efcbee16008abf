"""Batches from input workers equal those that the run itself makes."""

import contextlib
import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.cli.pretraining import start
from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.pretraining.masking.masking import Masking
from keras_bert_impl.pretraining.run import pretrain
from keras_bert_impl.pretraining.settings import PretrainSettings
from keras_bert_impl.utils.errors import InputError
from tests.pretraining.masking.helpers import BATCH, assert_same, take
from tests.pretraining.test_run import CONFIG, Stop, settings_of, weights
from tests.training.helpers import free_ports

_SERVERS = []  # never stopped: stopping one waits for minutes after a run was interrupted


@pytest.fixture(scope="module")
def input_workers():
    """Two tf.data services in this process."""
    addresses = []
    while len(addresses) < 2:
        (port,) = free_ports(1)
        with contextlib.suppress(tf.errors.OpError):  # the next port may be in use
            _SERVERS.append(start("localhost", port))
            addresses.append(f"grpc://localhost:{port}")
    return addresses


@pytest.mark.parametrize(
    "keywords",
    [
        {"start_row": 3 * BATCH, "shard_index": 1, "num_shards": 2, "masking": Masking("word")},
        pytest.param({}, marks=pytest.mark.slow),
    ],
)
def test_input_workers_make_the_same_batches(records_directory, input_workers, keywords):
    num_rows = records.read_manifest(records_directory)["splits"]["train"]["rows"]
    count = num_rows // BATCH + 4  # into the next epoch
    for workers in (input_workers[:1], input_workers):
        batches = take(records_directory, count, input_workers=workers, **keywords)
        assert len(batches) == count
        for batch, expected in zip(batches, take(records_directory, count, **keywords)):
            assert_same(batch, expected)


def test_rejects_an_unreachable_worker(records_directory):
    (port,) = free_ports(1)
    with pytest.raises(InputError, match=f"no input worker responds at grpc://localhost:{port} "):
        take(records_directory, 1, input_workers=[f"grpc://localhost:{port}"])


def test_held_out_rows_are_read_locally(records_directory):
    with pytest.raises(ValueError, match="are only for the train split"):
        take(records_directory, 1, split="held_out", input_workers=["grpc://localhost:5050"])


@pytest.mark.slow
def test_run_resumes_with_other_workers(records_directory, input_workers, tmp_path):
    shape = tmp_path / "config.json"
    shape.write_text(json.dumps(CONFIG))
    settings = settings_of(shape)
    alone = pretrain(records_directory, tmp_path / "alone", **settings)
    fleet = tmp_path / "fleet"
    with pytest.raises(KeyboardInterrupt):
        pretrain(
            records_directory, fleet, callbacks=[Stop(4)], input_workers=input_workers, **settings
        )
    resumed = pretrain(records_directory, fleet, input_workers=input_workers[1:], **settings)
    np.testing.assert_array_equal(weights(alone), weights(resumed))


def test_rejects_an_invalid_address():
    with pytest.raises(InputError, match="must be grpc://host:port. Received: input-1"):
        PretrainSettings(input_workers=("input-1",))
