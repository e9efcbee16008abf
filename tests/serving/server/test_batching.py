"""Joined requests: they get the answers that they get alone."""

import threading
import time

import numpy as np
import pytest

from keras_bert_impl.serving.saved_model import example_inputs
from keras_bert_impl.serving.server.batching import Batcher, Request
from keras_bert_impl.serving.server.model import Model
from keras_bert_impl.serving.server.wire import ApiError
from tests.serving.families import FAMILIES
from tests.serving.server.servers import running

LATER = 600.0


@pytest.fixture(scope="module")
def model(exported):
    return Model(exported("single_label")[1] / "1", 1)


def batches_of(signature, requests, max_rows=64):
    """(outputs of each request, rows of each batch), of requests that wait for each other."""
    rows = []
    batcher = Batcher(max_rows, 0.2, 100, rows.append)
    futures = [batcher.submit(signature, arrays, time.monotonic() + LATER) for arrays in requests]
    answers = [future.exception() or future.result() for future in futures]
    assert batcher.stop(10)
    return answers, rows


def assert_same(expected, received):
    assert expected.keys() == received.keys()
    for name, array in expected.items():
        assert array.shape == received[name].shape, name
        if array.dtype.kind == "f":
            np.testing.assert_allclose(received[name], array, rtol=0, atol=1e-5)
        else:
            np.testing.assert_array_equal(received[name], array)


def texts(*values):
    return {"text": np.array([value.encode() for value in values], object)}


def ids(*rows):
    token_ids = np.array(rows, "int32")
    return {
        "token_ids": token_ids,
        "segment_ids": np.zeros_like(token_ids),
        "padding_mask": np.ones_like(token_ids),
    }


REQUESTS = {
    "serving_default": [texts("good"), texts("a dull film", ""), texts("not " * 50)],
    "embed": [texts("good"), texts("a dull film", ""), texts("not " * 50)],
    "ids": [ids([2, 6, 3]), ids([2, 5, 6, 7, 8, 3], [2, 9, 9, 9, 9, 3]), ids([2, 3])],
}


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_of_all_lengths_are_joined(model, name):
    signature, requests = model.signatures[name], REQUESTS[name]
    answers, rows = batches_of(signature, requests)
    assert rows == [4]
    for arrays, answer in zip(requests, answers):
        assert_same(signature(arrays), answer)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_joined_requests_of_every_family_equal_single_ones(exported, family):
    signatures, folder = exported(family)
    model = Model(folder / "1", 1)
    for name, signature in model.signatures.items():
        function = signatures.function(name)
        batch = example_inputs(signatures, function, 4)
        requests = [{n: array[part] for n, array in batch.items()} for part in
                    (slice(0, 1), slice(1, 3), slice(3, 4))]  # fmt: skip
        if signature.mask:  # of other lengths
            requests[0] = {
                n: array[..., : array.shape[-1] // 2] for n, array in requests[0].items()
            }
        answers, _ = batches_of(signature, requests)
        (in_parts,), rows = batches_of(signature, [batch], max_rows=3)
        assert rows == ([4] if Request(signature, batch, 0).key is None else [3, 1])
        for arrays, answer in zip([*requests, batch], [*answers, in_parts]):
            assert_same(signature(arrays), answer)


def test_a_late_request_is_not_run_to_its_end(model):
    batcher, ran = Batcher(1, 0, 100, lambda rows: time.sleep(0.2)), time.monotonic()
    future = batcher.submit(model.signatures["serving_default"], texts(*"abcdef" * 50), ran + 0.1)
    with pytest.raises(ApiError, match="took too long"):
        future.result(10)
    assert batcher.stop(10)


def test_what_is_not_joined(model):
    default, of_ids = model.signatures["serving_default"], model.signatures["ids"]
    assert Request(default, texts("a"), 0).key != Request(of_ids, ids([2, 3]), 0).key
    tokenize = model.signatures["tokenize"]  # as long as the longest of a batch, without a count
    pairs = {**texts("a"), "second": texts("a", "b")["text"]}
    for signature, arrays in ((tokenize, texts("a")), (default, pairs), (default, texts())):
        assert Request(signature, arrays, 0).key is None
    _, rows = batches_of(default, [texts("a", "b"), texts("a", "b"), texts(*"abcdef")], max_rows=3)
    assert rows == [2, 2, 3, 3]


def test_one_bad_request_of_a_batch_fails_alone(model):
    signature = model.signatures["ids"]
    requests = [ids([2, 6, 3]), ids([2, 99, 3]), ids([2, 7, 3])]
    answers, rows = batches_of(signature, requests)
    assert isinstance(answers[1], ApiError) and "must be in [0, 19)" in str(answers[1])
    assert rows == [1, 1]
    for number in (0, 2):
        assert_same(signature(requests[number]), answers[number])


def test_requests_that_nobody_waits_for_are_left_out(model):
    rows = []
    batcher = Batcher(8, 0.1, 100, rows.append)
    signature = model.signatures["serving_default"]
    late = batcher.submit(signature, texts("a"), time.monotonic())
    cancelled = batcher.submit(signature, texts("a"), time.monotonic() + LATER)
    cancelled.cancel()
    assert batcher.submit(signature, texts("a"), time.monotonic() + LATER).result()
    assert batcher.stop(10) and rows == [1] and not late.done()
    with pytest.raises(ApiError, match="busy"):
        batcher.submit(signature, texts("a"), 0)


def test_a_full_queue_refuses(model):
    class Slow:
        """A signature that waits."""

        inputs, mask, varying = model.signatures["serving_default"].inputs, None, []
        is_by_row, number = True, -1

        def __call__(self, arrays):
            ready.set()
            go.wait(10)
            return arrays

    ready, go = threading.Event(), threading.Event()
    batcher = Batcher(1, 0, 2, lambda rows: None)
    futures = [batcher.submit(Slow(), texts("a"), time.monotonic() + LATER)]
    ready.wait(10)
    futures += [batcher.submit(Slow(), texts("a"), time.monotonic() + LATER) for _ in range(2)]
    assert len(batcher) == 2 and batcher.busy_since
    with pytest.raises(ApiError, match="the queue is full") as error:
        batcher.submit(Slow(), texts("a"), time.monotonic() + LATER)
    assert error.value.status == 503
    go.set()
    assert all(future.result(10) for future in futures)
    assert batcher.stop(10)


def test_the_server_joins_requests_of_several_clients(exported):
    with running(exported("single_label")[1], batch_timeout=0.3) as client:
        alone = [client.predict({"instances": [text]}) for text in ("good", "a dull film")]
        before = client.metric("keras_bert_batch_rows_count")
        answers = {}
        start = threading.Barrier(8)

        def ask(number):
            start.wait()
            text = ("good", "a dull film")[number % 2]
            answers[number] = client.predict({"instances": [text]})

        threads = [threading.Thread(target=ask, args=[number]) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.metric("keras_bert_batch_rows_count") - before <= 2
        for number, (status, answer) in answers.items():
            expected = alone[number % 2][1]["predictions"][0]
            (received,) = answer["predictions"]
            assert status == 200 and received["label"] == expected["label"]
            np.testing.assert_allclose(received["scores"], expected["scores"], atol=1e-5)
