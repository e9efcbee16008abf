"""Chunks of similar lengths: the same outputs in the same order, with bounded padding."""

import numpy as np
import pytest

from keras_bert_impl.serving.network.by_length import run_by_length


def features_of(lengths):
    full = max(lengths, default=0)
    mask = (np.arange(full) < np.array(lengths, int)[:, np.newaxis]).astype("int64")
    ids = np.arange(1, len(lengths) + 1)[:, np.newaxis] * mask
    return {"input_ids": ids, "attention_mask": mask}


class Network:
    """Returns each row's number and length, and records the shapes."""

    def __init__(self):
        self.shapes = []

    def __call__(self, features):
        self.shapes.append(features["input_ids"].shape)
        mask = features["attention_mask"]
        return np.stack([features["input_ids"].max(axis=1, initial=0), mask.sum(axis=1)], axis=1)


def test_rows_come_back_in_order():
    lengths = np.random.default_rng(0).integers(1, 512, 200).tolist()
    network = Network()
    outputs = run_by_length(network, features_of(lengths))
    assert outputs.tolist() == [[row + 1, length] for row, length in enumerate(lengths)]
    computed = sum(rows * length for rows, length in network.shapes)
    assert computed - sum(lengths) <= 64 * len(network.shapes)
    assert sum(rows for rows, _ in network.shapes) == 200


@pytest.mark.parametrize(
    "lengths, shapes",
    [
        ([5, 5, 5], [(3, 5)]),
        ([1, 100, 1], [(1, 100), (2, 1)]),
        ([512] * 20, [(16, 512), (4, 512)]),  # at most 8,192 tokens
        ([10000], [(1, 10000)]),
        ([], [(0, 0)]),
    ],
)
def test_chunks(lengths, shapes):
    network = Network()
    assert len(run_by_length(network, features_of(lengths))) == len(lengths)
    assert network.shapes == shapes
