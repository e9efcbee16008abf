"""Named, stateless randomness for preparing data: a draw is a function of its name alone."""

import hashlib
import random


def stable_hash(*name):
    """An integer in [0, 2⁶⁴) from numbers and strings, the same on every machine.

    Args:
        *name: ints and strs, such as `(seed, "pairs", pass, document)`.

    Returns:
        int.
    """
    digest = hashlib.blake2b(repr(name).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def uniform(*name):
    """A float in [0, 1), a function of `name`."""
    return (stable_hash(*name) >> 11) * 2.0**-53


def stream(*name):
    """A `random.Random` seeded by `name`.

    Only `random()` and `getrandbits()` are used of it: Python promises their values for ever,
    and not those of `randint()` or `shuffle()`.
    """
    return random.Random(stable_hash(*name))


def integer(generator, low, high):
    """An int from `low` to `high`, both included."""
    return low + int(generator.random() * (high - low + 1))


def permutation(generator, count):
    """A list of the integers below `count` in random order."""
    keys = [generator.random() for _ in range(count)]
    return sorted(range(count), key=keys.__getitem__)
