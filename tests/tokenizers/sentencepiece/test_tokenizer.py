"""SentencePiece, compared with `transformers` and with SentencePiece's own library."""

import json
import random
import re
import subprocess
import sys
import unicodedata

import pytest
import sentencepiece
import tensorflow as tf
import transformers

from keras_bert_impl.tokenizers import SentencePieceTokenizer, Tokenizer
from keras_bert_impl.utils.errors import InputError
from tests.tokenizers.sentencepiece_models import ODD, TEXT, train

FAMILIES = ["ALBERT", "XLM-RoBERTa", "CamemBERT"]


# ALBERT normalizes texts the most; test_all_kinds has quicker tests for the others.
SOME_SLOW = [
    pytest.param(family, marks=[] if family == "ALBERT" else [pytest.mark.slow])
    for family in FAMILIES
]


@pytest.fixture(scope="module", params=SOME_SLOW)
def directory(request, tmp_path_factory):
    """A SentencePiece model and a configuration, without tokenizer.json."""
    path = tmp_path_factory.mktemp("model")
    train(path, request.param)
    return path


@pytest.fixture(scope="module")
def saved(directory, tmp_path_factory):
    """The same tokenizer saved by `transformers`, with tokenizer.json."""
    path = tmp_path_factory.mktemp("saved")
    transformers.AutoTokenizer.from_pretrained(directory).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def theirs(saved):
    return transformers.AutoTokenizer.from_pretrained(saved)


@pytest.fixture(scope="module")
def ours(saved):
    return Tokenizer.from_pretrained(saved)


def assert_equal(ours, theirs, texts):
    ids, starts, ends = (ragged.to_list() for ragged in ours.tokenize_with_offsets(texts))
    assert ours.tokenize(texts).to_list() == ids
    expected = theirs.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    for text, row, start, end, encoding in zip(texts, ids, starts, ends, expected):
        assert row == encoding.ids, text
        assert list(zip(start, end)) == encoding.offsets, text


def test_equals_transformers(ours, theirs):
    assert isinstance(ours, SentencePieceTokenizer)
    assert ours.vocabulary == theirs.convert_ids_to_tokens(list(range(len(theirs))))
    assert_equal(ours, theirs, [TEXT, *TEXT.split("\n"), *ODD])


def test_equals_transformers_on_random_text(ours, theirs):
    draw = random.Random(0)
    marks = "\u0301\u0302\u0308\u0903\u200d\u200b\x01\u0600\uff9e"
    alphabet = " '`\n\t▁astrvmle<>/k12,8.(é日ﬁ½" * 3 + marks
    alphabet += "".join(map(chr, range(160, 12700, 61)))
    texts = ["".join(draw.choices(alphabet, k=draw.randint(0, 30))) for _ in range(2000)]
    assert_equal(ours, theirs, texts)


def test_every_code_point(ours, theirs):
    codes = [code for code in range(0, 0x110000, 23) if not 0xD800 <= code < 0xE000]
    assert_equal(ours, theirs, [f"a{chr(code)}\u0301 {chr(code)}b" for code in codes])


def test_long_text(ours, theirs):
    texts = [f"{TEXT} " * 100, TEXT.replace(" ", "").replace("\n", "") * 30, "ab8" * 1000]
    assert_equal(ours, theirs, texts)


@pytest.mark.slow
def test_converts_a_lone_model_to_files_of_transformers(directory, tmp_path):
    ours = Tokenizer.from_pretrained(directory)  # from the SentencePiece model alone
    ours.save_pretrained(tmp_path)
    assert_equal(ours, transformers.AutoTokenizer.from_pretrained(tmp_path), [TEXT, *ODD])
    assert Tokenizer.from_pretrained(tmp_path).fingerprint == ours.fingerprint


def original_albert(model, text):
    """Applies ALBERT's normalization, and splits a comma off numbers as ALBERT does."""
    text = " ".join(text.split()).replace("``", '"').replace("''", '"')
    text = unicodedata.normalize("NFKD", text)
    text = "".join(c for c in text if not unicodedata.combining(c)).lower()
    for piece in model.encode(text, out_type=str):
        if re.search(r"\d,$", piece):
            number = model.encode(piece[:-1].replace("▁", ""), out_type=str)
            if piece[0] != "▁":
                number[0] = number[0].removeprefix("▁")
            yield from [piece for piece in number if piece] + [","]
        else:
            yield piece


def test_a_lone_model_equals_the_original_implementation(directory):
    """No tokenizer.json; `transformers` would split words at ALBERT's brackets."""
    ours = Tokenizer.from_pretrained(directory)
    model = sentencepiece.SentencePieceProcessor(model_file=str(next(directory.glob("*.model"))))
    texts = [*TEXT.split("\n")[:2], "we see 2, (and the test), well-known 12, tests"]
    # If a model has ",2", ours uses it, like `tokenizer.json`; ALBERT first uses "1,".
    texts[0] = texts[0].replace("1,234.5", "12.5")
    assert "12.5" in texts[0]
    assert ours.family != "ALBERT" or "2," in model.encode(texts[-1], out_type=str)
    for text, ids in zip(texts, ours.tokenize(texts).to_list()):
        if ours.family == "ALBERT":
            pieces = list(original_albert(model, text))
        else:
            pieces = model.encode(text, out_type=str)
        numbers = {piece: number for number, piece in enumerate(ours.vocabulary)}
        assert ids == [numbers.get(piece, ours.unk_id) for piece in pieces]


RUN = """
import json, sys
import tensorflow as tf
import tensorflow_text

module = tf.saved_model.load(sys.argv[1])
results = module.tokenize(tf.constant(json.loads(sys.stdin.read())))
assert not {"keras_bert_impl", "sentencepiece", "tokenizers"} & set(sys.modules)
print(json.dumps([values.numpy().tolist() for values in results]))
"""


@pytest.mark.slow
def test_runs_in_a_saved_model_without_this_package(tmp_path):
    train(tmp_path, "ALBERT")
    ours = Tokenizer.from_pretrained(tmp_path)
    module = tf.Module()
    module.tokenize = tf.function(
        lambda texts: [values.to_tensor(-1) for values in ours.tokenize_with_offsets(texts)],
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(module, tmp_path / "saved")
    texts = [TEXT, *ODD]
    result = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path / "saved")],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    expected = [v.to_tensor(-1).numpy().tolist() for v in ours.tokenize_with_offsets(texts)]
    assert json.loads(result.stdout.splitlines()[-1]) == expected


def test_detokenize(ours):
    text = "it's a test of the best"
    assert ours.detokenize(ours([text])["token_ids"][0]) == text.lower()


VOCABULARY = ["<s>", "<pad>", "</s>", "<unk>", "▁a", "b", "<mask>"]
SCORES = [0, 0, 0, 0, -2, -3, 0]


def test_small_one():
    tokenizer = SentencePieceTokenizer("XLM-RoBERTa", VOCABULARY, SCORES)
    assert tokenizer.tokenize(["ab b <mask>"]).to_list() == [[4, 5, 3, 5, 6]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"family": "T5"}, "family must be one of .*ALBERT.*, got 'T5'"),
        ({"vocabulary": VOCABULARY[:-1], "scores": SCORES[:-1]}, "lacks '<mask>'"),
        ({"vocabulary": [*VOCABULARY, "b"], "scores": [*SCORES, 0]}, "'b' has two ids, 5 and 7"),
        ({"prepend_scheme": "last"}, "prepend_scheme must be one of .*, got 'last'"),
        ({"scores": SCORES[:-1]}, "7 tokens, 6 scores"),
        (
            {"scores": [*SCORES[:-1], float("nan")]},
            "score of '<mask>' must be a finite number, not nan",
        ),
        ({"character_map": "ABC"}, "character map .* is damaged"),
        ({"character_map": "////fwAA"}, "character map .* is damaged"),
        ({"vocabulary": [*VOCABULARY, "c"]}, "8 tokens, 7 scores"),
        ({"vocabulary": [*VOCABULARY, "c"], "added_tokens": ["c"]}, None),
        ({"added_tokens": ["b", "▁a"]}, None),
        ({"vocabulary": [*VOCABULARY[:5], "b" * 200, "<mask>"]}, "a piece of 200 characters"),
    ],
)
def test_rejects_wrong_arguments(changes, message):
    arguments = {"family": "XLM-RoBERTa", "vocabulary": VOCABULARY, "scores": SCORES} | changes
    if message is None:
        SentencePieceTokenizer(**arguments)
        return
    with pytest.raises(InputError, match=message):
        SentencePieceTokenizer(**arguments)
