"""Every kind of tokenizer gives the ids of `transformers`, and has the same basic properties."""

import json
import random
import re
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
import transformers

from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.tokenizers.inputs import beginning
from keras_bert_impl.utils.errors import InputError
from tests.tokenizers.kinds import KINDS, texts

TEXTS = texts()


# Covered by the other kinds; what these add has separate tests.
SLOW = ("CamemBERT", "uncased FlauBERT")
SOME_SLOW = [pytest.param(kind, marks=[pytest.mark.slow] if kind in SLOW else []) for kind in KINDS]


@pytest.fixture(scope="module", params=SOME_SLOW)
def theirs(request, tmp_path_factory):
    """The tokenizer of `transformers`, loaded from its own files in `name_or_path`."""
    path = tmp_path_factory.mktemp("theirs")
    KINDS[request.param](tmp_path_factory.mktemp("made")).save_pretrained(path)
    return transformers.AutoTokenizer.from_pretrained(path)


@pytest.fixture(scope="module")
def ours(theirs):
    return Tokenizer.from_pretrained(theirs.name_or_path)


def assert_equal(ours, theirs):
    expected = [theirs(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    for text, received, ids in zip(TEXTS, ours.tokenize(TEXTS).to_list(), expected):
        assert received == ids, text


def test_equals_transformers(ours, theirs):
    assert_equal(ours, theirs)
    for name in ("pad", "unk", "sep", "mask"):  # FlauBERT's rows do not begin with its cls_token
        assert getattr(ours, f"{name}_id") == getattr(theirs, f"{name}_token_id")


def test_offsets_lie_within_the_text(ours):
    ids, starts, ends = (part.to_list() for part in ours.tokenize_with_offsets(TEXTS))
    assert ids == ours.tokenize(TEXTS).to_list()
    for text, begin, end in zip(TEXTS, starts, ends):
        assert all(0 <= first <= last <= len(text) for first, last in zip(begin, end)), text


def test_rows_equal_transformers(ours, theirs):
    pairs = [("it's a test", "the theirs"), ("then", "them " * 20), ("", "le prix est de 12 %")]
    # An even number of positions: only FlauBERT in Python gives an odd one to the first text.
    length = 16 + ours.num_separators
    features = ours(pairs, length=length)
    expected = theirs(
        *map(list, zip(*pairs)),
        truncation=True,
        max_length=length,
        padding="max_length",
        return_token_type_ids=True,
    )
    np.testing.assert_array_equal(features["token_ids"], expected["input_ids"])
    np.testing.assert_array_equal(features["padding_mask"], expected["attention_mask"])
    # Models whose segments are all 0 have at most one segment embedding.
    segments = np.array(expected["token_type_ids"]) * ours.segment_of_second
    np.testing.assert_array_equal(features["segment_ids"], segments)
    np.testing.assert_array_equal(ours(["it's"])["token_ids"], theirs(["it's"])["input_ids"])


def test_saves_and_loads(ours, tmp_path):
    ours.save_pretrained(tmp_path)
    assert_equal(ours, transformers.AutoTokenizer.from_pretrained(tmp_path))
    assert Tokenizer.from_pretrained(tmp_path).fingerprint == ours.fingerprint


def test_serializes(ours):
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(ours)))
    copy = keras.saving.deserialize_keras_object(config)
    assert copy.fingerprint == ours.fingerprint
    assert copy.tokenize(TEXTS).to_list() == ours.tokenize(TEXTS).to_list()


def test_runs_in_tf_data(ours):
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(7).map(ours.tokenize)
    rows = [row for batch in dataset for row in batch.to_list()]
    assert rows == ours.tokenize(TEXTS).to_list()


def test_runs_in_a_saved_model(ours, tmp_path):
    module = tf.Module()
    module.tokenize = tf.function(
        lambda texts: [part.to_tensor(-1) for part in ours.tokenize_with_offsets(texts)],
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(module, tmp_path / "saved")
    received = tf.saved_model.load(tmp_path / "saved").tokenize(tf.constant(TEXTS))
    for part, expected in zip(received, ours.tokenize_with_offsets(TEXTS)):
        np.testing.assert_array_equal(part, expected.to_tensor(-1))


def test_no_text_and_empty_texts(ours):
    assert [part.to_list() for part in ours.tokenize_with_offsets([])] == [[], [], []]
    assert ours.tokenize([]).to_list() == []
    assert ours.tokenize(["", ""]).to_list() == [[], []]


def test_invalid_utf8_is_replaced_as_python_does(ours):
    data = [b"a\xff\xfeb  [MASK]\xff", b"\xe2\x82", b"ok \xf0\x9f\x98 x", b"e\xcc\x81\xe4\xb8"]
    clean = [text.decode("utf-8", "replace") for text in data]
    for part, expected in zip(ours.tokenize_with_offsets(data), ours.tokenize_with_offsets(clean)):
        assert part.to_list() == expected.to_list()


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_memory_does_not_grow_with_the_number_of_texts_beside_a_long_one(ours):
    """A table of texts x longest text would take 1.2 GB."""
    texts = ["a"] * 1500 + [("a b " * 50_000).strip()]
    ours.tokenize_with_offsets(texts[-2:])
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _peak_megabytes()
    ids, _, ends = ours.tokenize_with_offsets(texts)
    assert ids.row_lengths()[-1] >= 100_000 and int(ends[-1, -1]) == 199_999
    assert _peak_megabytes() - before < 500


def _peak_megabytes():
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def test_the_beginning_of_a_text_has_its_first_tokens(ours):
    """A text can be truncated at a space between letters without tokenizing all of it."""
    assert ours.can_be_cut == (ours.kind != "moses bpe")
    draw = random.Random(3)
    parts = [
        *"ab1 .,'\n\u0301\u200b\u0600\ue000",
        "  ",
        "<mask>",
        "[MASK]",
        " a b",
        "e\u0301",
        "日",
        "\x01",
    ]
    texts = ["".join(draw.choices(parts, k=120)) for _ in range(200)]
    cut = [beginning(text, 2) for text in texts]
    assert sum(map(len, cut)) < 0.6 * sum(map(len, texts))
    if ours.can_be_cut:
        whole, first = (ours.tokenize(some).to_list() for some in (texts, cut))
        assert [row[: len(part)] for row, part in zip(whole, first)] == first


def test_accepts_a_vocabulary_as_a_dict_of_ids(ours):
    settings = ours.get_config()
    tokens = settings["vocabulary"]
    backwards = {token: i for i, token in reversed(list(enumerate(tokens))) if token}
    for vocabulary in (backwards, np.array(tokens)):
        again = type(ours)(**settings | {"vocabulary": vocabulary})
        assert again.vocabulary == tokens and again.fingerprint == ours.fingerprint
    with pytest.raises(InputError, match="must be a list of tokens in id order"):
        type(ours)(**settings | {"vocabulary": set(tokens)})


def test_rejects_wrong_arguments(ours):
    for slip, message in (
        (lambda: ours.add_tokens({"additional_special_tokens": ["[X]"]}), "a list of tokens"),
        (lambda: ours.add_tokens({"[X]", "[Y]"}), "a list of tokens"),
        (lambda: ours.add_tokens(5), "a list of tokens"),
        (lambda: ours(None), "a list of texts"),
        (lambda: ours.detokenize("5"), "a list of token ids"),
        (lambda: ours.detokenize(5), "a list of token ids"),
        (lambda: ours.detokenize([5.7]), "token ids must be integers. Received: 5.7"),
        (lambda: ours.id_to_token("5"), "token ids must be integers"),
        (lambda: ours.token_to_id(["a"]), "the vocabulary lacks"),
    ):
        with pytest.raises(InputError, match=message):
            slip()


def test_rejects_special_tokens_named_only_in_the_map(ours, tmp_path):
    ours.save_pretrained(tmp_path)
    path = tmp_path / "special_tokens_map.json"
    names = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(names | {"cls_token": {"content": ours.vocabulary[-1]}}))
    with pytest.raises(InputError, match="special_tokens_map.json: cls_token=.* is not supported"):
        type(ours).from_pretrained(tmp_path)


def test_tokenizer_json_without_a_model_type(ours, tmp_path):
    """An old form, in which `tokenizers` infers the type."""
    ours.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer.json"
    if not path.exists():  # FlauBERT
        pytest.skip("has no tokenizer.json")
    whole = json.loads(path.read_text())
    del whole["model"]["type"]
    path.write_text(json.dumps(whole))
    assert Tokenizer.from_pretrained(tmp_path).get_config() == ours.get_config()
