"""Reads batches of records as dicts of NumPy arrays."""

import numpy as np

from keras_bert_impl.pretraining.masking.dataset import pretraining_dataset

BATCH = 36


def flat(batch):
    """A batch as one dict of numpy arrays."""
    features, labels, weights = batch
    named = dict(features)
    named |= {f"label_{name}": value for name, value in labels.items()}
    named |= {f"weight_{name}": value for name, value in weights.items()}
    return {name: value.numpy() for name, value in named.items()}


def take(directory, count, **keywords):
    dataset = pretraining_dataset(directory, BATCH, **keywords)
    return [flat(batch) for batch in dataset.take(count)]


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)
