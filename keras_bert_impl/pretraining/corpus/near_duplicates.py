"""Finds near-duplicates with MinHash and locality-sensitive hashing (extra `corpus`).

A document is represented by the set of its 5-grams of words. The fraction of equal values in the
MinHash signatures of two documents estimates the Jaccard similarity of their 5-grams, with a
standard deviation of at most 0.044. Signatures are divided into bands. Two documents are compared
only if all values of a band are equal.

Source: Lee et al. 2022, "Deduplicating Training Data Makes Language Models Better", section 4.2.
"""

import hashlib
import re
from collections.abc import Iterator

import datasketch
import numpy as np

_WORDS = 5  # length of an n-gram
# Chinese and Japanese text has no spaces between words, so each character is a word.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
_VALUES = 128  # in a signature
_EMPTY = datasketch.MinHash(_VALUES, seed=1, scheme="affine32")
_RECALL = 0.99  # see `band_keys`


def text_hash(text: str) -> int:
    """Returns a hash in [0, 2⁶⁴), which is equal for exact duplicates."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def signature(text: str) -> np.ndarray:
    """Returns the MinHash signature of a text, uint32 [128]."""
    words = _WORD.findall(text.lower())
    sequences = {" ".join(words[i : i + _WORDS]) for i in range(max(1, len(words) - _WORDS + 1))}
    minhash = _EMPTY.copy()
    minhash.update_batch([sequence.encode() for sequence in sequences])
    return minhash.hashvalues


def similarity(signatures: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Estimates the Jaccard similarity of documents from their signatures: [..., 128] → [...]."""
    return (signatures == others).mean(-1)


def band_keys(signatures: np.ndarray, threshold: float) -> Iterator[np.ndarray]:
    """Divides the signatures into bands. Yields the hashes of each band, uint64 [documents].

    The bands have the maximum length with a recall of at least 0.99. The recall is the probability
    that two documents with a similarity of `threshold` share at least one band.
    """
    length = max(n for n in range(1, _VALUES) if _compute_recall(n, threshold) >= _RECALL)
    factors = np.random.default_rng(1).integers(1, 2**64, length, np.uint64) | np.uint64(1)
    for start in range(0, _VALUES - length + 1, length):
        yield signatures[:, start : start + length].astype(np.uint64) @ factors


def _compute_recall(length, threshold):
    return 1 - (1 - threshold**length) ** (_VALUES // length)


def find_duplicates(
    hashes: np.ndarray, signatures: np.ndarray, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """Finds duplicates and near-duplicates of earlier documents.

    If several documents share a band, each of them is compared with the first.

    Args:
        hashes: Hashes of the texts (see `text_hash`), uint64 [documents].
        signatures: MinHash signatures (see `signature`), uint32 [documents, 128].
        threshold: Minimum similarity of near-duplicates.

    Returns:
        (exact, near), bool [documents]. `exact`: an earlier document has exactly this text. `near`:
        an earlier document has a similar text, but none has exactly this text.
    """
    exact = _find_first(hashes) < np.arange(len(hashes))
    near = np.zeros(len(hashes), bool)
    for keys in band_keys(signatures, threshold):
        first = _find_first(keys)
        places = np.flatnonzero((first < np.arange(len(first))) & ~exact & ~near)
        similarities = similarity(signatures[places], signatures[first[places]])
        near[places] = similarities >= threshold
    return exact, near


def _find_first(keys):
    """Returns for each document the index of the first document with an equal key."""
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first[group]
