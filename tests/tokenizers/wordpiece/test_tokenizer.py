import os
import random
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.tokenizers import WordPieceTokenizer
from keras_bert_impl.utils.errors import InputError

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##want", "##ed", "runn", "##ing", ","]


def pieces(tokenizer, text):
    return [tokenizer.id_to_token(i) for i in tokenizer.tokenize([text])[0].numpy()]


def test_splits_words_into_the_longest_tokens():
    tokenizer = WordPieceTokenizer(WORDS)
    assert tokenizer.tokenize(["UNwantéd,running"]).to_list() == [[5, 6, 7, 10, 8, 9]]
    assert pieces(tokenizer, "unwanted x running") == [
        "un", "##want", "##ed", "[UNK]", "runn", "##ing"
    ]  # fmt: skip


def test_ids_of_special_tokens_and_size():
    tokenizer = WordPieceTokenizer(["x", *WORDS])
    special = (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id)
    assert special == (1, 2, 3, 4)
    assert (tokenizer.mask_id, tokenizer.vocabulary_size) == (5, 12)


TEXTS = [
    *("", " ", "hello the unwanted", "Café e\u0301 q\u0301\u302e", "x\u08d4\u064ey"),
    *("한국어 한", "a中b", "[MASK]", "a[MASK]b[UNK]", "[mask] [[PAD]] [CLS", "[SEP][SEP] [ SEP]"),
    *("éa[CLS]é", "]MASK[", "\u200bab\u200b c\x00d\ufeff", "≠\u0338a", "İ ǅ ẞ ſ ΣΑΣ"),
    *(
        "\U0001d15e\u302e\u0301\u302ey",
        "\U0001d164\u031b",
        "\U0001d172\u031b",
        "😀",
        "\u0301",
        "##ab #ab",
        "a" * 5000,
    ),
    *(letter * length for letter in "aé中я\U00010400" for length in (99, 100, 101, 201)),
    *("e\u0301" * 100, "e\u0301" * 101, "한" * 33, "한" * 34),
]


def test_ids_and_offsets_equal_tokenizers(assert_equal):
    assert_equal(TEXTS)


def test_random_texts_equal_tokenizers(assert_equal, vocabulary):
    draw = random.Random(3)
    characters = [token for token in vocabulary if len(token) == 1] + [" "] * 40
    odd = ["[MASK]", "\u0301", "\u200b", "한", "É", "中", "\ue000", "\U0001d15e", "\u08d4", "\t"]
    for density in (0.02, 0.5):  # mostly ASCII text takes a different code path
        texts = [
            "".join(
                draw.choice(characters[:94] + [" "] * 20)
                if draw.random() > density
                else draw.choice(characters + odd * 10)
                for _ in range(draw.randint(1, 40))
            )
            for _ in range(2000)
        ]
        assert_equal(texts)


def test_offsets_point_into_the_original_text():
    tokenizer = WordPieceTokenizer(WORDS)
    text = "\u200bUNwante\u0301d , [MASK]"
    ids, starts, ends = (ragged[0].numpy() for ragged in tokenizer.tokenize_with_offsets([text]))
    pieces = [text[start:end] for start, end in zip(starts, ends)]
    assert [tokenizer.id_to_token(i) for i in ids] == ["un", "##want", "##ed", ",", "[MASK]"]
    assert pieces == ["UN", "want", "e\u0301d", ",", "[MASK]"]


def test_invalid_utf8_is_dropped_and_counts_as_characters():
    """Like Python: \\xff is one U+FFFD, a truncated \\xe4\\xb8 is one, \\xed\\xa0\\x80 is three."""
    tokenizer = WordPieceTokenizer(WORDS)
    texts = [b"un\xffwanted", b"\xe4\xb8un", b"\xed\xa0\x80un", b"un\xe4\xb8"]
    ids, starts, ends = (ragged.to_list() for ragged in tokenizer.tokenize_with_offsets(texts))
    assert ids == [[5, 6, 7], [5], [5], [5]]
    assert starts == [[0, 3, 7], [1], [3], [0]]
    assert ends == [[2, 7, 9], [3], [5], [2]]


def test_half_a_surrogate_pair_is_dropped():
    assert pieces(WordPieceTokenizer(WORDS), "un\ud800want") == ["un", "##want"]


def test_tokenizes_a_text_of_a_megabyte(tokenizer):
    words = tokenizer.tokenize(["the " * 250_000 + "a" * 1_000_000]).to_list()[0]
    the = tokenizer.vocabulary.index("the")
    assert words == [the] * 250_000 + [tokenizer.unk_id]


def test_no_text_and_empty_texts(tokenizer):
    assert tokenizer.tokenize([]).to_list() == []
    assert tokenizer.tokenize(["", ""]).to_list() == [[], []]
    assert [x.to_list() for x in tokenizer.tokenize_with_offsets([])] == [[], [], []]
    assert tokenizer([])["token_ids"].shape[0] == 0
    assert tokenizer([""])["token_ids"].numpy().tolist() == [[tokenizer.cls_id, tokenizer.sep_id]]


def test_dtypes_and_ranks(tokenizer):
    for ragged in (tokenizer.tokenize(["a"]), *tokenizer.tokenize_with_offsets(["a"])):
        assert isinstance(ragged, tf.RaggedTensor)
        assert (ragged.dtype, ragged.shape.rank) == (tf.int32, 2)


@pytest.mark.parametrize(
    "words",
    [
        [*TEXTS, *(letter * length for letter in "Ab1é中" for length in range(1, 202, 20))],
        ["Été", "", " ", "a b", "über-Maß (1–2)"],
        ["a[MASK]b", "c"],
        ["\u302e", "b", "a\u302e\u0301c"],
        ["a\u302e\u302fb", "a\u302f\u0301\u302eb", "\u302e\u08d4", "\u08d4\u302e"],
        [],
    ],
)
def test_words_have_the_tokens_of_texts(tokenizer, words):
    ids, lengths = tokenizer.tokenize_words(words)
    expected = tokenizer.tokenize(words)
    np.testing.assert_array_equal(ids, expected.flat_values)
    np.testing.assert_array_equal(lengths, expected.row_lengths())
    assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)


def test_tf_data_and_tf_function_give_what_eager_gives(tokenizer):
    expected = [tokenizer.tokenize([text]).to_list()[0] for text in TEXTS]
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(7).map(tokenizer.tokenize)
    assert [row for batch in dataset for row in batch.to_list()] == expected
    function = tf.function(tokenizer.tokenize, input_signature=[tf.TensorSpec([None], tf.string)])
    assert function(tf.constant(TEXTS)).to_list() == expected
    features = tf.data.Dataset.from_tensors((TEXTS, TEXTS[::-1]))
    features = next(iter(features.map(lambda a, b: tokenizer((a, b), length=16))))
    eager = tokenizer(list(zip(TEXTS, TEXTS[::-1])), length=16)
    for name, values in eager.items():
        np.testing.assert_array_equal(features[name], values)


RELOAD = """
import sys
import tensorflow as tf, tensorflow_text
assert not any(name.startswith(("keras_bert_impl", "tokenizers")) for name in sys.modules)
loaded = tf.saved_model.load(sys.argv[1])
texts = tf.constant(sys.stdin.buffer.read().split(b"\\x1e"))
for tokenize in (loaded.cased, loaded.uncased):
    for row in tokenize(texts).to_list():
        print(*row)
"""


@pytest.mark.slow
def test_saved_model_reloads_where_only_tensorflow_and_text_are(vocabulary, tmp_path):
    tokenizers = [WordPieceTokenizer(vocabulary, lowercase) for lowercase in (False, True)]
    module = tf.Module()
    module.cased, module.uncased = (
        tf.function(tokenizer.tokenize, input_signature=[tf.TensorSpec([None], tf.string)])
        for tokenizer in tokenizers
    )
    tf.saved_model.save(module, str(tmp_path / "saved"))
    process = subprocess.run(
        [sys.executable, "-c", RELOAD, str(tmp_path / "saved")],
        input="\x1e".join(TEXTS).encode(),
        capture_output=True,
        cwd=tmp_path,
    )
    assert process.returncode == 0, process.stderr.decode()[-2000:]
    rows = [[int(i) for i in line.split()] for line in process.stdout.decode().splitlines()]
    assert rows == [row for tokenizer in tokenizers for row in tokenizer.tokenize(TEXTS).to_list()]


JAX = """
import keras
from keras_bert_impl.tokenizers import WordPieceTokenizer
assert keras.backend.backend() == "jax"
tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un"])
assert tokenizer(["un"])["token_ids"].numpy().tolist() == [[2, 5, 3]]
"""


@pytest.mark.slow
def test_works_with_keras_on_jax():
    process = subprocess.run(
        [sys.executable, "-c", JAX], env={**os.environ, "KERAS_BACKEND": "jax"}, capture_output=True
    )
    assert process.returncode == 0, process.stderr.decode()[-2000:]


def test_detokenize_joins_pieces():
    tokenizer = WordPieceTokenizer(WORDS)
    assert tokenizer.detokenize([2, 5, 6, 7, 10, 4, 3, 0, 0]) == "unwanted, [MASK]"


def test_fingerprint_changes_with_vocabulary_and_setting():
    same, again = WordPieceTokenizer(WORDS), WordPieceTokenizer(tuple(WORDS))
    variants = [WordPieceTokenizer(WORDS, lowercase=False), WordPieceTokenizer([*WORDS, "z"])]
    assert same.fingerprint == again.fingerprint
    assert len({same.fingerprint, *(variant.fingerprint for variant in variants)}) == 3


def test_features_of_single_texts_and_pairs():
    features = WordPieceTokenizer(WORDS)(["un", ("un", "runn,"), ("un", "")], multiple_of=8)
    assert features["token_ids"].numpy().tolist() == [
        [2, 5, 3, 0, 0, 0, 0, 0],
        [2, 5, 3, 8, 10, 3, 0, 0],
        [2, 5, 3, 3, 0, 0, 0, 0],
    ]
    assert features["segment_ids"].numpy().tolist() == [
        [0] * 8,
        [0, 0, 0, 1, 1, 1, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, 0],
    ]
    assert features["padding_mask"].numpy().sum(axis=1).tolist() == [3, 6, 4]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"text": ["a"]}, "Received: dict. Pass one of its columns"),
        (["a", 3], "text 1 must be a string, not int"),
        (["a", None], "text 1 must be a string, not NoneType"),
        ([("a", "b", "c")], "tuple of 3"),
        ((["a"], ["b", "c"]), "as many first segments as second segments. Received: 1 and 2"),
        ((["a"], ["b"], ["c"]), "must have two segments. Received: 3"),
        (tf.constant([[1]]), "int32"),
        (tf.constant("scalar"), "shape"),
    ],
)
def test_rejects_input_that_is_not_text(texts, message):
    with pytest.raises(InputError, match=message):
        WordPieceTokenizer(WORDS)(texts)


def test_all_special_tokens_may_be_normalized():
    special = [{"content": token, "normalized": True} for token in WORDS[:5]]
    tokenizer = WordPieceTokenizer([*WORDS[:5], "a"], added_tokens=special)
    assert tokenizer.tokenize(["a [mask][SEP]", ""]).to_list() == [[5, 4, 3], []]


def test_one_text_is_a_batch_of_one():
    tokenizer = WordPieceTokenizer(WORDS)
    for text in ("un runn", b"un runn"):
        assert tokenizer.tokenize(text).to_list() == tokenizer.tokenize([text]).to_list()
        assert tokenizer(text)["token_ids"].shape == (1, 4)


def test_rejects_an_id_beyond_the_vocabulary():
    tokenizer = WordPieceTokenizer(WORDS)
    for token_id in (len(WORDS), -1):
        with pytest.raises(InputError, match="11 tokens"):
            tokenizer.id_to_token(token_id)
