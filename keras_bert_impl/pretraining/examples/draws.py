"""Named, stateless randomness for data preparation: a draw depends only on its name."""

import hashlib
import random
from typing import Any


def stable_hash(*name: Any) -> int:
    """Hashes numbers and strings to an integer in [0, 2⁶⁴), the same on every machine."""
    digest = hashlib.blake2b(repr(name).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def uniform(*name: Any) -> float:
    """Returns a float in [0, 1) determined by `name`."""
    return (stable_hash(*name) >> 11) * 2.0**-53


def stream(*name: Any) -> random.Random:
    """Returns a `random.Random` seeded by `name`."""
    return random.Random(stable_hash(*name))


def integer(generator: random.Random, low: int, high: int) -> int:
    """Returns an int from `low` to `high`, both included."""
    return low + int(generator.random() * (high - low + 1))


def permutation(generator: random.Random, count: int) -> list[int]:
    """Returns a list of the integers below `count` in random order."""
    keys = [generator.random() for _ in range(count)]
    return sorted(range(count), key=keys.__getitem__)
