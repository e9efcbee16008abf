"""The character map of SentencePiece models, compared with `tokenizers`."""

import base64

import pytest
import tensorflow as tf
from tokenizers import normalizers

from keras_bert_impl.tokenizers.sentencepiece.files import read_model
from keras_bert_impl.tokenizers.sentencepiece.words import CharacterMap, read_map
from keras_bert_impl.utils.errors import InputError
from tests.tokenizers.sentencepiece_models import train


@pytest.fixture(scope="module")
def encoded(tmp_path_factory):
    """nmt_nfkc, the character map of nearly all published models."""
    return read_model(train(tmp_path_factory.mktemp("model"), "XLM-RoBERTa"))[2]


def normalized(changes, text):
    characters, _ = CharacterMap(changes)(tf.constant([ord(c) for c in text], tf.int32))
    return "".join(map(chr, characters.numpy()))


def test_reads_all_short_keys(encoded):
    changes = read_map(encoded)
    normalize = normalizers.Precompiled(base64.b64decode(encoded)).normalize_str
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    assert {chr(c): normalize(chr(c)) for c in codes if normalize(chr(c)) != chr(c)} == {
        key: text for key, text in changes.items() if len(key) == 1 and key != text
    }
    assert changes["e\u0301"] == "é"
    assert max(len(key.encode()) for key in changes) == 5


def test_every_pair_is_normalized(encoded):
    changes = read_map(encoded)
    normalize = normalizers.Precompiled(base64.b64decode(encoded)).normalize_str
    text = "x".join(key for key in changes if len(key) > 1)
    assert normalized(changes, text) == normalize(text)


def test_the_beginning_of_a_short_grapheme_replaces_all_of_it():
    changes = {"ﬁ": "fi", "e\u0301": "é"}
    assert normalized(changes, "ﬁ\u0301 e\u0301\u0302 e\u0302\u0301") == "fi é e\u0302\u0301"
    assert normalized(changes, "ﬁ\u0301\u0301") == "fi\u0301\u0301"  # seven bytes exceed the limit


@pytest.mark.parametrize("size", [1, 5, 1000, 100_000])
def test_damaged(encoded, size):
    data = base64.b64decode(encoded)
    with pytest.raises(InputError, match="character map .* is damaged"):
        read_map(base64.b64encode(data[:size]).decode())


def test_circles():
    """A trie with cycles must not be followed endlessly."""
    units = [1 << 10] + [(code & 0xFF) | (1 << 10) for code in range(1, 256)]
    data = b"".join(unit.to_bytes(4, "little") for unit in units)
    mapping = read_map(base64.b64encode(len(data).to_bytes(4, "little") + data + b"\0").decode())
    assert all(len(key.encode()) <= 5 for key in mapping)
