"""A cache bounded by memory."""

import sys
import threading
import tracemalloc

import numpy as np
import pytest

from keras_bert_impl.utils.io.cache import Cache, key_of


def of(number, size=10):
    return {"vector": np.full(size, number, "float32")}


def test_drops_the_least_recently_used():
    cache = Cache(3 * 640)  # 400 + 200 + 40 bytes each
    for number in range(3):
        cache.put(key_of(number), of(number))
    assert cache.num_bytes == 3 * 640
    cache.get([key_of(0)])
    cache.put(key_of(3), of(3))
    entries = cache.get([key_of(number) for number in range(4)])
    assert [entry and entry["vector"][0] for entry in entries] == [0, None, 2, 3]
    assert cache.num_bytes == 3 * 640


def test_replaces_a_key_and_ignores_what_never_fits():
    cache = Cache(1000)
    cache.put(key_of("a"), of(1))
    cache.put(key_of("a"), of(2))
    cache.put(key_of("b"), of(3, size=1000))
    assert cache.num_bytes == 640
    assert cache.get([key_of("a"), key_of("b")])[0]["vector"][0] == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("ab", "c"), ("a", "bc")),
        ((1,), ("1",)),
        ((np.array([1], "int32"),), (np.array([1], "int64"),)),
        ((np.array([[1, 2]]),), (np.array([[1], [2]]),)),
        ((np.array([b"a", b"b"], object),), (np.array([b"a', b'b"], object),)),
        ((np.array([b"a"], object), np.array([b""], object)),
         (np.array([b""], object), np.array([b"a"], object))),
    ],
)  # fmt: skip
def test_keys_differ(first, second):
    assert key_of(*first) != key_of(*second)
    assert key_of(*first) == key_of(*first)


@pytest.mark.parametrize("kind", ["numbers", "strings"])
def test_counts_the_memory_of_its_entries(kind):
    cache = Cache(1 << 30)
    texts = np.array([[f"label {n}".encode() for n in range(8)]], object)
    tracemalloc.start()
    for number in range(2000):
        strings = np.array([[bytes(bytearray(text)) for text in texts[0]]], object)
        batch = np.full((32, 384), number, "float32")
        cache.put(
            key_of(number), {"labels": strings} if kind == "strings" else {"vector": batch[:1]}
        )
    del strings, batch
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.75 < cache.num_bytes / held < 1.35


def test_threads_share_a_cache():
    cache = Cache(20 * 640)
    wrong = []

    def use(seed):
        for step in range(2000):
            number = (seed * 7 + step * step) % 40
            (entry,) = cache.get([key_of(number)])
            if entry is None:
                cache.put(key_of(number), of(number))
            elif entry["vector"][0] != number:
                wrong.append(number)
            if cache.num_bytes > 21 * 640:  # an entry may be counted before another is dropped
                wrong.append(cache.num_bytes)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=use, args=[seed]) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert not wrong
    assert cache.hits + cache.misses == 8 * 2000 and cache.num_bytes == 20 * 640
