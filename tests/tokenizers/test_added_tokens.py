"""ModernBERT's byte-level BPE: ids and offsets equal those of `tokenizers`."""

import json
import random
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf
import tokenizers
import transformers
from tokenizers import models, processors

from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.tokenizers.added_tokens import AddedToken, AddedTokens, as_added_tokens
from keras_bert_impl.tokenizers.unicode.table import CODE_POINTS
from keras_bert_impl.utils.errors import InputError
from tests.tokenizers.kinds import ENGLISH, like_modernbert

ODD = [
    "",
    " ",
    "  ",
    "a b  c   d" + " " * 30 + "e" + " " * 49,
    "x  y \n z\t\t  \n\n  w  ",
    "a [MASK] b[MASK]  \n   [MASK] [MASK \u3000\t [MASK][MASK]",
    "[CLS]hi[SEP] [PAD]x[UNK]|||IP_ADDRESS|||EMAIL_ADDRESS|||EMAIL_ADDRESS||| [unused1][unused9]",
    "it's 's 'st it's''s don't we'll   's",
    "\u3000x \u00a0  y\u2028  z",
    "cafe\u0301s e\u0301e\u0301 a\u0301\u0323x a\u0323\u0301  \u0301 [SEP]\u0301a",
    "\u0958y x\ufb2cx \u1100\u1161\u11a8\u1100\u1161 \uac00\u11a8 \u212b \u2126",
    "👩‍👩‍👧 ok \u0000 \ufffd \ue000",
]


@pytest.fixture(scope="module", params=["whole offsets", "trimmed offsets"])
def theirs(request):
    """Offsets include the space before a token unless there is a ByteLevel post-processor."""
    tokenizer = like_modernbert()
    if request.param == "trimmed offsets":
        trimming = processors.ByteLevel(add_prefix_space=False, trim_offsets=True)
        parts = [trimming, tokenizer.post_processor]
        tokenizer.post_processor = processors.Sequence(parts)
    return tokenizer


@pytest.fixture(scope="module")
def ours(theirs, tmp_path_factory):
    path = tmp_path_factory.mktemp("whole")
    theirs.save(str(path / "tokenizer.json"))
    return Tokenizer.from_pretrained(path)


def assert_equal(ours, theirs, texts):
    ids, starts, ends = (ragged.to_list() for ragged in ours.tokenize_with_offsets(texts))
    assert ours.tokenize(texts).to_list() == ids
    for row, expected in enumerate(theirs.encode_batch(texts, add_special_tokens=False)):
        assert ids[row] == expected.ids, texts[row]
        assert list(zip(starts[row], ends[row])) == expected.offsets, texts[row]


def test_equals_tokenizers(ours, theirs):
    assert (ours.num_separators, ours.segment_of_second) == (1, 1)
    assert_equal(ours, theirs, [ENGLISH, *ODD])


def test_equals_tokenizers_on_random_text(ours, theirs):
    draw = random.Random(0)
    pieces = [*"   '\n\tastel1é日", "  ", "[MASK]", "[SEP]", "[unused2]", "|||EMAIL_ADDRESS|||"]
    pieces += ["e\u0301", "a", "o", "\u0323", "\u0301", "\u1100", "\u1161", "\u11a8", "\u0958"]
    pieces += ["|||", "IP_ADDRESS", "[", "]", "MASK", "\u00a0", "\u2028", "\x1c", "\x85"]
    texts = ["".join(draw.choices(pieces, k=draw.randint(0, 20))) for _ in range(2000)]
    assert_equal(ours, theirs, texts)


@pytest.mark.slow
def test_every_code_point(ours, theirs):
    """Includes composed sequences; excludes characters newer than the table of `tokenizers`."""
    newer = (0x113C2, 0x1611E, 0x16D67)
    codes = [code for code in range(0, 0x110000, 11) if not 0xD800 <= code < 0xE000]
    codes = [code for code in codes if code not in newer]
    texts = [f"a{chr(code)}1 {chr(code)}{chr(code)}!" for code in codes]
    texts += [f"a{chr(code)}\u0301" for code in range(0x20, 0x800) if code != 0x7FD]
    received = ours.tokenize(texts).to_list()
    assert received == [row.ids for row in theirs.encode_batch(texts, add_special_tokens=False)]


def test_special_tokens_are_found_before_the_text_is_normalized(ours, theirs):
    assert_equal(
        ours, theirs, ["[MAS\u212a]", "[SEP]\u0338x [MASK] \u0338", "e\u0301[MASK]\u0301 \ufdd0"]
    )


def test_files_equal_transformers(ours, theirs, tmp_path):
    ours.save_pretrained(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    loaded = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert (loaded.mask_token_id, loaded.pad_token_id) == (ours.mask_id, ours.pad_id)
    for text in (ENGLISH, *ODD):
        assert loaded(text)["input_ids"] == theirs.encode(text).ids
    assert Tokenizer.from_pretrained(tmp_path).fingerprint == ours.fingerprint


def test_detokenize(ours):
    text = "  two   spaces, über 😀 [MASK] it's"
    assert ours.detokenize(ours([text])["token_ids"][0]) == text.replace(" [MASK]", "[MASK]")


def find(tokens, text):
    """Returns (matched text, token) pairs; checks that a second copy of the text has the same."""
    tokens = dict(enumerate(as_added_tokens(tokens)))
    code_points = [*map(ord, text), CODE_POINTS] * 2
    matches = AddedTokens(tokens)(tf.constant(code_points, tf.int32))
    rows = np.transpose(matches).tolist()
    half = len(rows) // 2
    assert [[s + len(text) + 1, e + len(text) + 1, n] for s, e, n in rows[:half]] == rows[half:]
    return [(text[start:end], tokens[number].content) for start, end, number in rows[:half]]


def test_the_longest_token_is_taken():
    tokens = ["ab", "abc", "bcd", "c", "."]
    expected = ["abc", ".", "bcd", "ab"]
    assert find(tokens, "xabcd.bcdab") == [(token, token) for token in expected]
    assert find(tokens, "axbx") == find(tokens, "") == []
    # "abcd" is only a prefix of "abcde": "a" and "bc" match instead, and "ab" does not.
    assert find(["a", "bc", "abcde", "😀"], "abcd😀abcde") == [
        (token, token) for token in ("a", "bc", "😀", "abcde")
    ]
    letters = "abcdefghij"  # enough first characters to select another algorithm
    assert find([*letters, "fgh"], "xfghz") == [("fgh", "fgh")]


def test_finds_the_same_tokens_as_tokenizers():
    draw = random.Random(1)
    for _ in range(20):
        contents = {"".join(draw.choices("ab <_", k=draw.randint(1, 4))) for _ in range(6)}
        tokens = [
            tokenizers.AddedToken(
                content,
                lstrip=draw.random() < 0.3,
                single_word=draw.random() < 0.3,
                normalized=False,
            )
            for content in sorted(contents)
        ]
        text = "".join(draw.choices(["a", "b", " ", "<", "_", "é"], k=100))
        theirs = tokenizers.Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
        theirs.add_tokens(tokens)
        encoding = theirs.encode(text)
        expected = [
            (text[slice(*place)], theirs.id_to_token(number))
            for number, place in zip(encoding.ids, encoding.offsets)
            if number
        ]
        assert find(tokens, text) == expected, (tokens, text)


def test_a_long_token_takes_little_memory():
    tracemalloc.start()
    AddedTokens({0: AddedToken("a" * 60_000)})
    assert tracemalloc.get_traced_memory()[1] < 60e6
    tracemalloc.stop()


def test_rejects_too_many_added_tokens(ours, tmp_path):
    ours.save_pretrained(tmp_path)
    tokens = {f"<{number}>": 10_000 + number for number in range(50_001)}
    (tmp_path / "added_tokens.json").write_text(json.dumps(tokens))
    with pytest.raises(InputError, match="more than 50000 added tokens"):
        Tokenizer.from_pretrained(tmp_path)
