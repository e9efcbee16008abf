"""FlauBERT's tokenizer: ids equal those of `transformers`; offsets cover the text in order."""

import json
import random
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
import transformers

from keras_bert_impl.tokenizers import MosesBPETokenizer, Tokenizer
from keras_bert_impl.tokenizers.graphs import leftmost
from keras_bert_impl.tokenizers.moses.characters import FIRST_SPECIAL, SPECIAL_TOKENS
from keras_bert_impl.tokenizers.moses.words import MosesSplitter
from keras_bert_impl.utils.errors import InputError
from tests.tokenizers.kinds import FRENCH, edit, learn_french

ODD = [
    "",
    " ",
    "a\nb\tc\r\nd",
    "5,,,6 ,5 5, ,a,b 1,2,3 ½,5 ,",
    "'a 'a' a' a'b'c 5'5'5 '''' ' ' 5 ' '5 a''b '",
    "abc.' ..' .' a..b ....x . .. x.",
    'a."b a." a."<b a. "b a..".."c "."."."d ."  <x',
    ',"a ,","b 5,"6 «,»',
    "\u00a0«\u00a0a\u00a0»\u00a0 b\u00a0» .\u00a0»\u00a0»x",
    "1\u00a02\u00a03\u00a04 12\u00a0345\u00a0%",
    "’’ `’ ´´ '´ ‘a‘ ''' `\u1fef \u1fef\u1fef a'\u200b'b .\u200b.",
    "a。 \nb．c … ——– １２，３",
    "M. Dupont etc. a. B. N. ann. X.Y. 5.6. é. art. Le art. le 中. 日本.",
    "<s>a</s> b<special1>c<pad><unk><special9> <<s>s> <special10> <s>\u0338 </S>",
    "e\u0301 a\u0327\u0301 \u0344 x\u0338< \u212b \u1100\u1161\u11a8 \uac00\u11a8 q\u0301\u0323",
    "İSTANBUL ΑΣ ΑΣ. ΑΣ'' ''ΣΑ Σ``",
    "\u0000 \ufdd0a\ufdef\ufded \ue000 \ufffd \u2028x\u3000y\u202fz",
]
ALPHABETS = [
    "''’´`é5 \u200b\r<",
    "..\"»« \u00a05,'a<",
    "5,,' .a\u00a0",
    '\u00a0«».,"5',
    "Σςİa\u0301'\u00ad .",
]
ALPHABETS.append([*"".join(ALPHABETS), *SPECIAL_TOKENS[:6], "M.", "etc.", "…", "—", "。"])


def random_texts(count, seed=0):
    draw = random.Random(seed)
    alphabets = draw.choices(ALPHABETS, k=count)
    return ["".join(draw.choices(alphabet, k=draw.randint(1, 14))) for alphabet in alphabets]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """FlauBERT files with a vocabulary trained by `tokenizers`, which lacks some tokens."""
    path = tmp_path_factory.mktemp("flaubert")
    learn_french(path)
    return path


@pytest.fixture(
    scope="module",
    params=[pytest.param(False, marks=pytest.mark.slow), True],
    ids=["cased", "uncased"],
)
def theirs(files, request):
    return transformers.FlaubertTokenizer(
        str(files / "vocab.json"), str(files / "merges.txt"), do_lowercase=request.param
    )


@pytest.fixture(scope="module")
def directory(theirs, tmp_path_factory):
    path = tmp_path_factory.mktemp("theirs")
    theirs.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def ours(directory):
    return Tokenizer.from_pretrained(directory)


def assert_equal(ours, theirs, texts):
    received = ours.tokenize(texts).to_list()
    expected = [theirs(text, add_special_tokens=False)["input_ids"] for text in texts]
    for text, *ids in zip(texts, received, expected):
        assert ids[0] == ids[1], text


def test_equals_transformers(ours, theirs):
    assert isinstance(ours, MosesBPETokenizer)
    assert (ours.pad_id, ours.unk_id, ours.cls_id, ours.sep_id, ours.mask_id) == (2, 3, 0, 1, 5)
    assert_equal(ours, theirs, [FRENCH, *FRENCH.split("\n"), *ODD])


def test_equals_transformers_on_random_text(ours, theirs):
    assert_equal(ours, theirs, random_texts(1500))


def test_words_equal_transformers(theirs, monkeypatch):
    """Compares words, since `<unk>` would hide differences."""
    monkeypatch.setattr(theirs, "bpe", lambda word: f"{word}</w>")
    # Unicode 3.2, which all versions of Python and TensorFlow support.
    category = unicodedata.ucd_3_2_0.category
    codes = [code for code in range(0x30000) if category(chr(code)) not in ("Cn", "Cs")]
    texts = [f"a{chr(code)}b'{chr(code)} {chr(code)}." for code in codes[::23]]
    texts += [*ODD, *random_texts(800, seed=1)]
    words = MosesSplitter(theirs.do_lowercase)(tf.constant(texts))
    strings = [word.decode() for word in words.strings().numpy()]
    special = {chr(FIRST_SPECIAL + number): token for number, token in enumerate(SPECIAL_TOKENS)}
    strings = [special.get(word, word) for word in strings]
    for text, start, end in zip(texts, words.texts.numpy(), words.texts.numpy()[1:]):
        expected = [word.removesuffix("</w>") for word in theirs.tokenize(text)]
        assert strings[start:end] == expected, text


def test_offsets_cover_the_text_in_order(ours):
    texts = [FRENCH, *ODD, *random_texts(800, seed=2)]
    ids, starts, ends = (part.to_list() for part in ours.tokenize_with_offsets(texts))
    assert ids == ours.tokenize(texts).to_list()
    for text, begin, end in zip(texts, starts, ends):
        covered = set()
        for number, place in enumerate(zip(begin, end)):
            assert 0 <= place[0] < place[1] <= len(text), text
            covered |= set(range(*place))
            # A quote may move in front of the comma or period that precedes it in the text.
            if number and begin[number] < begin[number - 1]:
                assert set(text[slice(*place)]) & set(".,…。,5\u00a0"), text
        for place, character in enumerate(text):
            is_removed = character.isspace() or unicodedata.category(character)[0] == "C"
            assert place in covered or is_removed, text


def test_offsets_of_words():
    words_of = {
        "L’été, Noe\u0308l.": ["L’", "été", ",", "Noe\u0308l", "."],
        "«\u00a0Oui…\u00a0»": ["«", "Oui", "…", "»"],
        "<s>a\u200bb\n5 ''x'' \u212b": ["<s>", "a\u200bb\n5", "''", "x", "''", "\u212b"],
        'a." b': ["a", '"', ".", "b"],
        "1\u00a0234\u00a0%": ["1\u00a0234", "%"],
        "\u1112\u1161\u11ab İx": ["\u1112\u1161\u11ab", "İx"],
    }
    words = MosesSplitter(lowercase=False)(tf.constant(list(words_of)))
    lengths = tf.ones_like(words.starts)
    whole = tf.RaggedTensor.from_row_lengths(tf.zeros_like(words.starts), lengths)
    spans = [*zip(*(part.numpy() for part in words.characters_of(whole)))]
    first = words.text_starts.numpy()
    for number, (text, expected) in enumerate(words_of.items()):
        of_text = spans[slice(*words.texts.numpy()[number : number + 2])]
        pieces = [text[begin - first[number] : end - first[number]] for begin, end in of_text]
        assert pieces == expected


def test_leftmost_is_a_search_from_the_left():
    draw = np.random.default_rng(0)
    for _ in range(20):
        starts = np.unique(draw.integers(0, 300, 100)).astype(np.int32)
        ends = starts + 3
        expected, end = [], 0
        for start in starts:
            expected.append(start >= end)
            end = start + 3 if start >= end else end
        assert leftmost(tf.constant(starts), tf.constant(ends)).numpy().tolist() == expected


def test_saves_and_loads(ours, theirs, tmp_path):
    ours.save_pretrained(tmp_path)
    loaded = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert type(loaded) is type(theirs)
    for text in (FRENCH, *ODD):
        assert loaded(text)["input_ids"] == theirs(text)["input_ids"]
    assert loaded.mask_token_id == ours.mask_id and loaded.pad_token_id == ours.pad_id
    again = Tokenizer.from_pretrained(tmp_path)
    assert again.fingerprint == ours.fingerprint


def test_kind_follows_from_the_model(files, tmp_path):
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes((files / name).read_bytes())
    (tmp_path / "config.json").write_text('{"model_type": "flaubert"}')
    tokenizer = Tokenizer.from_pretrained(tmp_path)
    assert isinstance(tokenizer, MosesBPETokenizer) and not tokenizer.lowercase


def test_detokenize(ours):
    text = "l'homme a vu <special1> le prix."
    pieces = [ours.id_to_token(i) for i in ours.tokenize([text]).to_list()[0]]
    assert "<special1>" in pieces
    received = ours.detokenize(ours([text])["token_ids"][0])
    assert received == "".join(pieces).replace("</w>", " ").strip()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda path: (path / "vocab.json").write_text("{"),
            "vocab.json, line 1, is not valid JSON",
        ),
        (lambda path: (path / "vocab.json").unlink(), "cannot read .*vocab.json"),
        (lambda path: (path / "merges.txt").unlink(), "cannot read .*merges.txt"),
        (edit("vocab.json", lambda ids: ids.update({"<s>": 7})), "ids must be 0 to"),
        (
            edit("vocab.json", lambda ids: ids.update({"x": [1]})),
            r"the id of 'x' must be an integer, not \[1\]",
        ),
        (
            edit("vocab.json", lambda ids: ids.update({"z": ids.pop("<unk>")})),
            "'<unk>' has the id 3, but the vocabulary",
        ),
        (
            lambda path: (path / "merges.txt").write_text("a b\nc\n"),
            "line 2: expected a pair of tokens",
        ),
        (
            lambda path: (path / "merges.txt").write_text("a b\nb c\na b 5\n"),
            "line 3 repeats the pair of line 1",
        ),
        (
            edit("tokenizer_config.json", lambda config: config.update(do_lowercase="no")),
            "do_lowercase='no' is not supported",
        ),
        (
            edit("tokenizer_config.json", lambda config: config.update(mask_token="[MASK]")),
            r"mask_token='\[MASK\]' is not supported",
        ),
        (
            edit(
                "tokenizer_config.json",
                lambda config: config.update(added_tokens_decoder={"99": {"content": "<new>"}}),
            ),
            "'<new>' has the id 99, but the vocabulary",
        ),
    ],
)
def test_rejects_damaged_files(directory, tmp_path, damage, message):
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((directory / name).read_bytes())
    damage(tmp_path)
    with pytest.raises(InputError, match=message):
        Tokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer_config.json", {"tokenizer_class": "XLMTokenizer"}),
        ("config.json", {"model_type": "xlm"}),
    ],
)
def test_the_tokenizer_of_xlm_is_not_supported(name, content, tmp_path):
    (tmp_path / "vocab.json").write_text("{}")
    (tmp_path / "merges.txt").write_text("")
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(InputError, match="XLM's tokenizer is not supported"):
        Tokenizer.from_pretrained(tmp_path)
