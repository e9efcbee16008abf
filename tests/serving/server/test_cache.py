"""Cached responses equal computed ones."""

import json
import threading
from concurrent.futures import Future

import numpy as np
import pytest

from keras_bert_impl.serving.server.cache import cached
from keras_bert_impl.serving.server.model import Model, Signature
from keras_bert_impl.serving.server.wire import ApiError
from keras_bert_impl.utils.io.cache import Cache
from tests.serving.server.servers import running
from tests.serving.server.test_batching import ids, texts


@pytest.fixture(scope="module")
def model(exported):
    return Model(exported("single_label")[1] / "1", 1)


class Direct:
    """Runs each request at once; remembers the number of rows."""

    def __init__(self):
        self.rows = []

    def __call__(self, signature, arrays, expires):
        self.rows.append(len(next(iter(arrays.values()))))
        future = Future()
        try:
            future.set_result(signature(arrays))
        except ApiError as error:
            future.set_exception(error)
        return future


def assert_equal(first, second):
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
        assert array.dtype == second[name].dtype and array.shape == second[name].shape


@pytest.mark.parametrize(
    ("name", "arrays", "computed"),
    [
        ("serving_default", texts("good", "dull", "good", "a joy"), [3]),
        ("embed", texts("good", "dull", "good"), [2]),
        ("ids", ids([2, 6, 3], [2, 7, 3], [2, 6, 3]), [2]),
        ("tokenize", texts("good", "a dull film", "good"), [3]),  # varies with the batch
    ],
)
def test_second_answer_is_the_first(model, name, arrays, computed):
    direct = Direct()
    submit = cached(direct, Cache(1 << 20))
    signature = model.signatures[name]
    first = submit(signature, arrays, 0.0).result()
    assert direct.rows == computed
    assert_equal(submit(signature, arrays, 0.0).result(), first)
    assert direct.rows == computed
    for key, array in signature(arrays).items():
        if array.dtype.kind == "f":
            np.testing.assert_allclose(first[key], array, rtol=0, atol=1e-5)
        else:
            np.testing.assert_array_equal(first[key], array)


def test_only_missing_rows_are_computed(model):
    direct = Direct()
    submit = cached(direct, Cache(1 << 20))
    signature = model.signatures["serving_default"]
    first = submit(signature, texts("good"), 0.0).result()
    both = submit(signature, texts("a dull film", "good"), 0.0).result()
    assert direct.rows == [1, 1]
    assert_equal({name: array[1:] for name, array in both.items()}, first)


def test_signatures_and_reloaded_versions_are_separate(model, exported):
    direct = Direct()
    submit = cached(direct, Cache(1 << 20))
    for signature in (model.signatures["serving_default"], model.signatures["embed"]):
        submit(signature, texts("good"), 0.0).result()
    again = Model(exported("single_label")[1] / "1", 1)
    submit(again.signatures["serving_default"], texts("good"), 0.0).result()
    assert direct.rows == [1, 1, 1]


def test_errors_are_not_cached(model):
    direct = Direct()
    submit = cached(direct, Cache(1 << 20))
    for _ in range(2):
        with pytest.raises(ApiError, match="must be in"):
            submit(model.signatures["ids"], ids([2, 99, 3]), 0.0).result()
    assert direct.rows == [1, 1]


def test_a_canceled_request_is_canceled_in_the_queue(model):
    waiting = Future()
    submit = cached(lambda *request: waiting, Cache(1 << 20))
    future = submit(model.signatures["serving_default"], texts("good"), 0.0)
    assert future.cancel() and waiting.cancelled()


def test_outputs_without_rows_are_cached_whole():
    class Mean(Signature):
        def __init__(self):
            self.number, self.inputs, self._shapes = -1, {"text": None}, {"mean": []}

        def __call__(self, arrays):
            return {"mean": np.array(np.mean([len(text) for text in arrays["text"]]))}

    direct = Direct()
    submit, mean = cached(direct, Cache(1 << 20)), Mean()
    assert submit(mean, texts("a", "abc", "a"), 0.0).result()["mean"] == 5 / 3
    assert submit(mean, texts("a", "abc"), 0.0).result()["mean"] == 2
    assert direct.rows == [3, 2]


def test_server_with_a_cache(exported):
    folder = exported("single_label")[1]
    requests = [{"instances": [f"good {n}", "a dull film"]} for n in range(4)]
    with running(folder) as plain:
        expected = [plain.predict(request) for request in requests]
        assert "cache" not in plain.get("/metrics")[1]
    with running(folder, cache_bytes=1 << 20) as client:
        first = [client.predict(request) for request in requests]
        answers = []
        threads = [
            threading.Thread(target=lambda n=n: answers.append((n % 4, client.predict(requests[n % 4]))))
            for n in range(32)
        ]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == 32
        for number, answer in answers:
            assert json.dumps(answer) == json.dumps(first[number])
        assert client.metric('keras_bert_cache_rows_total{result="miss"}') == 5
        assert client.metric('keras_bert_cache_rows_total{result="hit"}') == 3 + 64
        assert 5 * 1000 < client.metric("keras_bert_cache_bytes") < 5 * 10_000
    for (_, plain_answer), (_, cached_answer) in zip(expected, first):
        for a, b in zip(plain_answer["predictions"], cached_answer["predictions"]):
            assert a["label"] == b["label"] and abs(a["score"] - b["score"]) < 1e-5
