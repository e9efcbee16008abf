"""A memory-bounded cache for deterministic results."""

from __future__ import annotations

import collections
import hashlib
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

_ENTRY, _ARRAY = 400, 200  # memory of the Python objects of an entry and of an array, in bytes


class Cache:
    """Thread-safe LRU cache of arrays that uses at most `max_bytes` of memory."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self.hits = self.misses = 0  # number of keys
        self._entries: collections.OrderedDict[bytes, tuple[Any, int]] = collections.OrderedDict()
        self._lock = threading.Lock()

    def get(self, keys: Sequence[bytes]) -> list[dict[str, np.ndarray] | None]:
        with self._lock:
            entries = [self._entries.get(key) for key in keys]
            for key, entry in zip(keys, entries):
                if entry:
                    self._entries.move_to_end(key)
            misses = entries.count(None)
            self.hits, self.misses = self.hits + len(keys) - misses, self.misses + misses
        return [entry and entry[0] for entry in entries]

    def put(self, key: bytes, arrays: dict[str, np.ndarray]) -> None:
        """Stores the arrays of a key, unless they are larger than the whole cache."""
        # A view would keep its whole batch in memory.
        arrays = {
            n: array.copy() if array.base is not None else array for n, array in arrays.items()
        }
        size = _ENTRY + sum(map(_count_bytes, arrays.values()))
        if size > self.max_bytes:
            return
        with self._lock:
            _, old = self._entries.pop(key, (None, 0))
            self._entries[key] = arrays, size
            self.num_bytes += size - old
            while self.num_bytes > self.max_bytes:
                _, (_, dropped) = self._entries.popitem(last=False)
                self.num_bytes -= dropped


def _count_bytes(array):
    size = _ARRAY + array.nbytes
    return size + sum(map(sys.getsizeof, array.flat)) if array.dtype.kind == "O" else size


def key_of(*parts: Any) -> bytes:
    """Returns a cache key for numbers, strings and arrays. Different values have different keys."""
    digest = hashlib.blake2b(digest_size=32)
    for part in _encode_parts(parts):
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.digest()


def _encode_parts(values: Iterable) -> Iterable[bytes]:
    for value in values:
        if isinstance(value, np.ndarray):
            yield repr((value.dtype.str, value.shape)).encode()
            is_object = value.dtype.kind == "O"
            yield repr(value.tolist()).encode() if is_object else value.tobytes()
        else:
            yield repr(value).encode("utf-8", "surrogatepass")
