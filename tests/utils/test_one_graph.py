"""Tests of `keras_bert_impl.utils.one_graph`."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from keras_bert_impl.utils.one_graph import in_one_graph


def counted():
    """Returns a decorated function, and a list that has an element for each of its traces."""
    traces = []

    @in_one_graph
    def scaled(rows, addend=None, *, factor):
        traces.append(factor)
        values = rows["values"] * factor
        return (values if addend is None else values + addend), rows["words"].row_lengths()

    return scaled, traces


def rows_of(*values):
    return {"values": tf.constant(values), "words": tf.ragged.constant([[1] * v for v in values])}


def test_one_trace_serves_any_shape():
    scaled, traces = counted()
    for values in [(1,), (1, 2, 3), (4, 0)]:
        scaled_values, lengths = scaled(rows_of(*values), factor=3)
        assert scaled_values.numpy().tolist() == [3 * value for value in values]
        assert lengths.numpy().tolist() == list(values)
    assert traces == [3]


def test_settings_and_absent_tensors_have_graphs_of_their_own():
    scaled, traces = counted()
    assert scaled(rows_of(1, 2), factor=2)[0].numpy().tolist() == [2, 4]
    assert scaled(rows_of(1, 2), factor=5)[0].numpy().tolist() == [5, 10]
    addend = np.array([10, 20], "int32")
    assert scaled(rows_of(1, 2), addend, factor=5)[0].numpy().tolist() == [15, 30]
    assert scaled(rows_of(1, 2), factor=2)[0].numpy().tolist() == [2, 4]
    assert traces == [2, 5, 5]


def test_inside_another_graph_it_is_a_part_of_it():
    scaled, traces = counted()
    graph = tf.function(lambda rows: scaled(rows, factor=2)[0], autograph=False)
    assert graph(rows_of(1, 2)).numpy().tolist() == [2, 4]
    concrete = graph.get_concrete_function(rows_of(1, 2))
    kinds = {operation.type for operation in concrete.graph.get_operations()}
    assert not kinds & {"PartitionedCall", "StatefulPartitionedCall"}
    assert traces


def test_threads_get_their_own_results():
    scaled, _ = counted()
    with ThreadPoolExecutor(8) as pool:
        results = pool.map(lambda value: scaled(rows_of(value), factor=2)[0].numpy()[0], range(50))
        assert list(results) == [2 * value for value in range(50)]
