"""Every kind of model: what its graphs answer is what the model answers."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.serving.check import difference_of_rows
from tests.serving.families import FAMILIES, signatures_of

# float32 sums of some hundred terms in another order, and a softmax behind them.
TOLERANCE = 1e-5
# Each traces graphs of its own for seconds: these two have most of the code.
FAST = ("entities_crf", "answers_or_none")
SOME_SLOW = [
    pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in FAMILIES
]


def rows_of(function, inputs, size):
    """list (an example) of dicts of the outputs, asked in batches of a size."""
    count = len(next(iter(inputs.values())))
    rows = []
    for start in range(0, count, size):
        batch = {name: tf.constant(texts[start : start + size]) for name, texts in inputs.items()}
        outputs = {name: output.numpy() for name, output in function(**batch).items()}
        for i in range(len(next(iter(outputs.values())))):
            rows.append({name: _decoded(output[i]) for name, output in outputs.items()})
    return rows


def _decoded(values):
    if isinstance(values, bytes):
        return values.decode()
    return np.vectorize(bytes.decode, "O")(values) if values.dtype == object else values


@pytest.mark.parametrize("family", SOME_SLOW)
def test_the_graph_answers_as_the_model(family):
    signatures, inputs = signatures_of(family), FAMILIES[family][1]
    expected = signatures.reference(**inputs)
    function = signatures.function("serving_default")
    for size in (1, 8, 64):
        rows = rows_of(function, inputs, size)
        assert difference_of_rows(expected, rows) <= TOLERANCE
    none = {name: tf.zeros([0, *np.shape(rows[0])], tf.string) for name, rows in inputs.items()}
    assert all(output.shape[0] == 0 for output in function(**none).values())
