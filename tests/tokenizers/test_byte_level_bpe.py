"""Byte-level BPE against `tokenizers`, in ids and in offsets."""

import json
import random

import keras
import numpy as np
import pytest
import tensorflow as tf
import tokenizers
import transformers

from keras_bert_impl.errors import InputError
from keras_bert_impl.tokenizers import ByteLevelBPETokenizer, Tokenizer

TEXT = """It's a test of what doesn't fit: naïve cafés, 1,234.5 numbers — and “quotes”.
We'll see that they've been I'd say; aaaaaa bbbb the the the then them there theirs
  two  spaces and\ttabs\n\nlines 日本語テキスト 😀😀 über straße"""
ODD = [
    "",
    " ",
    "  ",
    "x  y \n z\t\t",
    "it's 's 'st it's''s don't we'll I'D they're 're're",
    "a <mask> b<mask>  \n <mask> <mask",
    "<s>hi</s> <pad>x<unk><<mask>>",
    "1234 12.5% $$$ !?!? (x) [y]",
    "\u3000x \u00a0y\u2028z",
    "👩‍👩‍👧 ok e\u0301 \u0000 \ufffd \ue000",
    "aaaaaaaaaaaaa baaaab",
    "''''s '",
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A tokenizer that `tokenizers` learned and `transformers` wrote the files of."""
    path = tmp_path_factory.mktemp("bpe")
    learner = tokenizers.ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    learner.train_from_iterator([TEXT] * 3, 400, special_tokens=special, show_progress=False)
    learner.save_model(str(path))
    return path


@pytest.fixture(scope="module", params=[True, False], ids=["strips", "as it is"])
def theirs(directory, request):
    """The tokenizer of `tokenizers`, whose `<mask>` strips as that of roberta-base, or does not."""
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.BPE.from_file(
            str(directory / "vocab.json"), str(directory / "merges.txt")
        )
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    ids = [(token, tokenizer.token_to_id(token)) for token in ("</s>", "<s>")]
    tokenizer.post_processor = tokenizers.processors.RobertaProcessing(
        *ids, trim_offsets=True, add_prefix_space=False
    )
    mask = tokenizers.AddedToken("<mask>", lstrip=request.param, special=True)
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", mask])
    return tokenizer


@pytest.fixture(scope="module")
def ours(theirs, tmp_path_factory):
    path = tmp_path_factory.mktemp("whole")
    theirs.save(str(path / "tokenizer.json"))
    return Tokenizer.from_pretrained(path)


def assert_equal(ours, theirs, texts):
    ids, starts, ends = ours.tokenize_with_offsets(texts)
    plain = ours.tokenize(texts)
    for row, text in enumerate(texts):
        expected = theirs.encode(text)
        assert ids[row].numpy().tolist() == expected.ids[1:-1], text
        assert plain[row].numpy().tolist() == expected.ids[1:-1], text
        offsets = list(zip(starts[row].numpy().tolist(), ends[row].numpy().tolist()))
        assert offsets == expected.offsets[1:-1], text


def test_equals_tokenizers(ours, theirs):
    assert isinstance(ours, ByteLevelBPETokenizer)
    assert_equal(ours, theirs, [TEXT, *TEXT.split("\n"), *ODD])
    assert_equal(ours, theirs, [])
    assert_equal(ours, theirs, [""])


def test_equals_tokenizers_on_random_text(ours, theirs):
    draw = random.Random(0)
    alphabet = " '\n\tastrvmld<>/k1é日" * 3 + "".join(map(chr, range(0x80, 0x3100, 37)))
    texts = ["".join(draw.choices(alphabet, k=draw.randint(0, 30))) for _ in range(500)]
    assert_equal(ours, theirs, texts)


def test_every_code_point(ours, theirs):
    codes = [code for code in range(0, 0x110000, 7) if not 0xD800 <= code < 0xE000]
    texts = [f"a{chr(code)}1 {chr(code)}{chr(code)}!" for code in codes]
    received = ours.tokenize(texts).to_list()
    assert received == [row.ids for row in theirs.encode_batch(texts, add_special_tokens=False)]


def test_invalid_utf8_is_what_python_replaces_it_with(ours):
    data = [b"a\xff\xfeb", b"\xe2\x82", b"ok \xf0\x9f\x98 x"]
    expected = ours.tokenize([text.decode("utf-8", "replace") for text in data])
    assert ours.tokenize(data).to_list() == expected.to_list()


def test_rows_equal_transformers(directory):
    ours = Tokenizer.from_pretrained(directory)
    assert ours.mask_strips_left
    theirs = transformers.RobertaTokenizer.from_pretrained(directory)
    texts = [("it's a test", "the theirs"), ("then", "them " * 20)]
    features = ours(texts, length=16)
    expected = theirs(
        *map(list, zip(*texts)), truncation=True, max_length=16, padding="max_length"
    )
    np.testing.assert_array_equal(features["token_ids"], expected["input_ids"])
    np.testing.assert_array_equal(features["padding_mask"], expected["attention_mask"])
    assert not np.any(features["segment_ids"])
    single = ours(["it's"])
    np.testing.assert_array_equal(single["token_ids"], theirs(["it's"])["input_ids"])


def test_files_go_there_and_back(ours, theirs, tmp_path):
    ours.save_pretrained(tmp_path)
    loaded = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in (TEXT, *ODD):
        assert loaded(text)["input_ids"][1:-1] == theirs.encode(text).ids[1:-1]
    assert Tokenizer.from_pretrained(tmp_path).fingerprint == ours.fingerprint
    (tmp_path / "tokenizer.json").unlink()
    again = Tokenizer.from_pretrained(tmp_path)
    assert (again.vocabulary, again.merges) == (ours.vocabulary, ours.merges)


def test_runs_in_a_saved_model(ours, tmp_path):
    module = tf.Module()
    module.tokenize = tf.function(
        lambda texts: ours.tokenize(texts).to_tensor(-1),
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(module, tmp_path / "saved")
    loaded = tf.saved_model.load(tmp_path / "saved")
    np.testing.assert_array_equal(
        loaded.tokenize(tf.constant(ODD)), ours.tokenize(ODD).to_tensor(-1)
    )


def test_detokenize(ours):
    text = "  two  spaces, über 😀 it's"
    assert ours.detokenize(ours([text])["token_ids"][0]) == text


def test_serializes(ours):
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(ours))
    assert copy.fingerprint == ours.fingerprint


def edit(name, change):
    def damage(path):
        value = json.loads((path / name).read_text())
        change(value)
        (path / name).write_text(json.dumps(value))

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "vocab.json").write_text("{"), "vocab.json, line 1, is not valid JSON"),
        (lambda path: (path / "vocab.json").unlink(), "cannot read .*vocab.json"),
        (edit("vocab.json", lambda ids: ids.update({"<s>": 7})), "ids are not 0 to"),
        (edit("vocab.json", lambda ids: ids.pop("!")), "ids are not 0 to"),
        (lambda path: (path / "merges.txt").write_text("a b\nc\n"), "merge 2 is no pair"),
        (lambda path: (path / "merges.txt").write_text("zzz yyy\n"), "vocabulary lacks 'zzz'"),
        (lambda path: (path / "merges.txt").write_bytes(b"\xff\n"), "line 1: not UTF-8"),
        (
            lambda path: (path / "tokenizer_config.json").write_text('{"add_prefix_space": true}'),
            "add_prefix_space=True is not supported",
        ),
    ],
)
def test_damaged_files(directory, tmp_path, damage, message):
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes((directory / name).read_bytes())
    damage(tmp_path)
    with pytest.raises(InputError, match=message):
        Tokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda whole: whole["model"].update(type="WordLevel"), "model WordLevel is not supported"),
        (
            lambda whole: whole.update(normalizer={"type": "NFD"}),
            "normalizer.type='NFD' is not supported",
        ),
        (lambda whole: whole["pre_tokenizer"].update(type="Split"), "type='Split' is not supported"),
        (lambda whole: whole["model"].pop("merges"), "model.merges is missing"),
        (
            lambda whole: whole["added_tokens"].append({"content": "<new>"}),
            "an added token has no content or no id: {'content': '<new>'}",
        ),
        (
            lambda whole: whole["added_tokens"].append({"content": "<new>", "id": 99999}),
            "the ids are not 0 to",
        ),
        (
            lambda whole: whole["added_tokens"][0].update(rstrip=True),
            "added token <s>: rstrip=True is not supported",
        ),
    ],
)
def test_damaged_whole(ours, tmp_path, change, message):
    ours.save_pretrained(tmp_path)
    edit("tokenizer.json", change)(tmp_path)
    with pytest.raises(InputError, match=message):
        Tokenizer.from_pretrained(tmp_path)
