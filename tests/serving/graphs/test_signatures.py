"""For every kind of model, the graphs give the model's answers."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.serving.check import difference_of_rows
from keras_bert_impl.serving.graphs import chunks
from keras_bert_impl.serving.graphs.signatures import FEATURES, HUB_NAMES
from keras_bert_impl.tasks import TextEmbedder
from tests.serving.families import FAMILIES, signatures_of
from tests.tasks.helpers import classifier

# float32 sums of some hundred terms in another order, followed by a softmax.
TOLERANCE = 1e-5
# Each family takes seconds to trace; these two cover most of the code.
FAST = ("entities_crf", "answers_or_none")
SOME_SLOW = [
    pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in FAMILIES
]


def rows_of(function, inputs, size):
    """Returns a list of output dicts, one per example, from batches of a given size."""
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
def test_the_graph_agrees_with_the_model(family, monkeypatch):
    monkeypatch.setattr(chunks, "_TOKENS_OF_A_RUN", 5)  # several chunks of these short texts
    signatures, inputs = signatures_of(family), FAMILIES[family][1]
    expected = signatures.reference(**inputs)
    function = signatures.function("serving_default")
    for size in (1, 8, 64):
        rows = rows_of(function, inputs, size)
        assert difference_of_rows(expected, rows) <= TOLERANCE
    none = {name: tf.zeros([0, *np.shape(rows[0])], tf.string) for name, rows in inputs.items()}
    assert all(output.shape[0] == 0 for output in function(**none).values())


@pytest.mark.parametrize("whole_batches, shapes", [(False, [(2, 32), (9, 5)]), (True, [(11, 32)])])
def test_texts_of_different_lengths_are_computed_apart(whole_batches, shapes, monkeypatch):
    monkeypatch.setattr(chunks, "_TOKENS_OF_A_RUN", 26)  # one short text is 27 tokens shorter
    model = classifier(max_length=32)
    texts = ["good film " * 40, *["a dull plot"] * 9, "not good " * 40]
    expected = model.predict(texts, verbose=0)
    signatures = model.signatures()
    signatures.whole_batches = whole_batches
    called, answers = [], signatures.answers

    def counted(features):
        shape = tf.shape(features["token_ids"])
        tf.py_function(lambda shape: called.append(tuple(shape.numpy())), [shape], [])
        return answers(features)

    signatures.network = tf.function(counted, autograph=False)
    scores = signatures.function("serving_default")(text=tf.constant(texts))["scores"]
    np.testing.assert_allclose(scores, expected, atol=TOLERANCE)
    assert called == shapes


@pytest.mark.slow
def test_further_signatures_of_a_tagger():
    """Words, vectors, and windows as ids, by either name."""
    signatures, texts = signatures_of("entities"), FAMILIES["entities"][1]["text"]
    model = signatures.model
    rows = rows_of(signatures.function("words"), {"text": texts}, size=8)
    expected = [
        {"num_words": len(labels), "labels": labels, "scores": scores}
        for labels, scores in zip(model.tag(texts), model.predict(texts, verbose=0))
    ]
    assert difference_of_rows(expected, rows) <= TOLERANCE

    vectors = signatures.function("embed")(text=tf.constant(texts))["vectors"]
    embedder = TextEmbedder(model.encoder, model.tokenizer, max_length=model.max_length)
    np.testing.assert_allclose(vectors, embedder.encode(texts), atol=TOLERANCE)

    windows = signatures.function("tokenize")(text=tf.constant(texts))
    flat = {name: tf.reshape(windows[name], [-1, 16]) for name in FEATURES}
    scores = signatures.function("ids")(**flat)["scores"]
    of_features = model.predict({name: rows.numpy() for name, rows in flat.items()}, verbose=0)
    np.testing.assert_allclose(scores, of_features, atol=TOLERANCE)
    by_hub = {HUB_NAMES[name]: rows for name, rows in flat.items()}
    np.testing.assert_array_equal(signatures.function("hub_ids")(**by_hub)["scores"], scores)
    assert tf.reduce_sum(windows["num_windows"]) > len(texts)
