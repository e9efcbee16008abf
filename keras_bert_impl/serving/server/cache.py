"""Cached responses: repeated texts are not computed again."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from keras_bert_impl.serving.server.batching import batch_key, join, split
from keras_bert_impl.serving.server.model import Signature
from keras_bert_impl.serving.server.wire import Arrays
from keras_bert_impl.utils.io.cache import Cache, key_of

Submit = Callable[[Signature, Arrays, float], "Future[Arrays]"]


def cached(submit: Submit, cache: Cache) -> Submit:
    """Adds a cache to `Batcher.submit`.

    Each row of a request is cached separately. If a request cannot be batched (see `batch_key`),
    the whole request is a single cache entry.
    """

    def submit_missing(signature: Signature, arrays: Arrays, expires: float) -> "Future[Arrays]":
        by_row = batch_key(signature, arrays) is not None and not signature.varying
        rows = split(arrays, 1) if by_row else [arrays]
        keys = [key_of(signature.number, *(row[name] for name in signature.inputs)) for row in rows]
        entries = dict(zip(keys, cache.get(keys)))
        missing = [key for key, entry in entries.items() if entry is None]
        if not missing:
            return _wrap_outputs(join([entries[key] for key in keys]))
        if by_row:
            places = dict(zip(reversed(keys), reversed(range(len(keys)))))  # first row of each key
            at = [places[key] for key in missing]
            arrays = {name: array[at] for name, array in arrays.items()}

        def collect_rows(outputs: Arrays) -> Arrays:
            for key, row in zip(missing, split(outputs, 1) if by_row else [outputs]):
                entries[key] = row
                cache.put(key, row)
            return join([entries[key] for key in keys])

        return _map_future(submit(signature, arrays, expires), collect_rows)

    return submit_missing


class CacheMetrics(Collector):
    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        rows = CounterMetricFamily(
            "keras_bert_cache_rows",
            "Rows found in the cache (hit) or not (miss).",
            labels=["result"],
        )
        rows.add_metric(["hit"], self._cache.hits)
        rows.add_metric(["miss"], self._cache.misses)
        yield rows
        yield GaugeMetricFamily(
            "keras_bert_cache_bytes", "Memory of the cache.", self._cache.num_bytes
        )


def _map_future(future, function):
    """Returns a future for `function(future.result())`."""
    value = Future()

    def finish(_):
        if value.set_running_or_notify_cancel():
            try:
                value.set_result(function(future.result()))
            except Exception as error:
                value.set_exception(error)

    value.add_done_callback(lambda _: future.cancel())  # The client may have disconnected.
    future.add_done_callback(finish)
    return value


def _wrap_outputs(outputs):
    value = Future()
    value.set_result(outputs)
    return value
