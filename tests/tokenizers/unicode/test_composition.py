"""Normalization form C equals that of `tokenizers` and of Python."""

import random
import time
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from tokenizers import normalizers

from keras_bert_impl.tokenizers.moses.characters import MosesTable
from keras_bert_impl.tokenizers.unicode import utf8
from keras_bert_impl.tokenizers.unicode.composition import compose
from keras_bert_impl.tokenizers.unicode.table import CODE_POINTS, composition_table

LETTERS = [chr(code) for code in range(CODE_POINTS) if not 0xD800 <= code < 0xE000]
JOINED = "aeoAUu \n\u1100\u1161\u11a8\uac00\u0dd9\u09c7\u0b47\u0627\u0915\u05d0\u3046\u03b1"


def of_tokenizers(text):
    return normalizers.NFC().normalize_str(text)


def of_python(text):
    return unicodedata.normalize("NFC", text)


KINDS = [(composition_table, of_tokenizers), (lambda: MosesTable().composition, of_python)]


def composed(texts, table=None):
    """Returns the composed texts and, for each, the origin of each character in the text."""
    codes, starts = utf8.decode(tf.constant(texts))
    composed, origins = tf.function(compose)(codes, table)
    bounds = tf.searchsorted(origins, starts).numpy()
    text = "".join(map(chr, composed.numpy()))
    spans = [*zip(bounds, bounds[1:] - 1)]
    begun = starts.numpy()
    places = [(origins[s:e] - begun[i]).numpy().tolist() for i, (s, e) in enumerate(spans)]
    return [text[s:e] for s, e in spans], places


@pytest.mark.parametrize("table, expected", KINDS)
@pytest.mark.parametrize("context", ["{}", "e\u0327{}\u0301", "\u09c7{}", "\u1100{}\u11a8"])
def test_every_character_that_may_change(table, expected, context):
    entries = table().lookup(tf.range(CODE_POINTS)).numpy()
    texts = [context.format(chr(c)) for c in np.flatnonzero(entries) if not 0xD800 <= c < 0xE000]
    assert len(texts) > 1800
    assert composed(texts, table())[0] == [*map(expected, texts)]


def test_characters_without_an_entry_never_change():
    entries = composition_table().lookup(tf.range(CODE_POINTS)).numpy()
    unchanged = [letter for letter in LETTERS if not entries[ord(letter)]]
    assert not any(of_tokenizers(letter) != letter for letter in unchanged)


@pytest.mark.parametrize("table, expected", KINDS)
def test_random_texts(table, expected):
    draw = random.Random(0)
    entries = table().lookup(tf.range(CODE_POINTS)).numpy()
    odd = [chr(c) for c in np.flatnonzero(entries) if not 0xD800 <= c < 0xE000]
    pools = [JOINED, odd, odd, LETTERS, "\u0301\u0302\u0323\u0327\u0345"]
    texts = [
        "".join(draw.choice(draw.choice(pools)) for _ in range(draw.randint(0, 20)))
        for _ in range(5000)
    ]
    assert composed(texts, table())[0] == [*map(expected, texts)]


@pytest.mark.parametrize(
    "text, result, origins",
    [
        ("plain", "plain", [0, 1, 2, 3, 4]),
        ("e\u0301x", "éx", [0, 2]),
        ("xa\u0327\u0301y", "xá\u0327y", [0, 1, 3, 4]),
        ("\u1100\u1161\u11a8a", "각a", [0, 3]),
        ("\u0344", "\u0308\u0301", [0, 0]),
        ("\u0343x\u0342\u1fbe\u0327", "\u0313x\u0342\u03b9\u0327", [0, 1, 2, 3, 4]),
        ("e\u0301\u11a8\u0327\u0301o\u0302\u0301", "é\u11a8\u0327\u0301ố", [0, 2, 3, 4, 5]),
        ("a\u0301\u0302\u0303", "á\u0302\u0303", [0, 2, 3]),
    ],
)
def test_origins_are_those_of_tokenizers(text, result, origins):
    normalized, places = composed(["", text, text])
    assert normalized == ["", result, result]
    assert places == [[], origins, origins]


def test_many_marks_take_no_longer_than_as_many_letters():
    texts = ["e" + "\u0301" * 100_000]
    composed(texts)
    began = time.monotonic()
    assert composed(texts)[0] == ["é" + "\u0301" * 99_999]
    assert time.monotonic() - began < 5
