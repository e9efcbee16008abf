"""Byte-level BPE: ids and offsets equal those of `tokenizers`."""

import json
import random

import pytest
import tensorflow as tf
import tokenizers
import transformers

from keras_bert_impl.tokenizers import ByteLevelBPETokenizer, Tokenizer
from keras_bert_impl.utils.errors import InputError
from tests.tokenizers.kinds import ENGLISH, edit, learn_bytes, learn_gpt2

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
    """The files of a tokenizer trained with `tokenizers`."""
    path = tmp_path_factory.mktemp("bpe")
    learn_bytes(path)
    return path


@pytest.fixture(
    scope="module",
    params=[True, pytest.param(False, marks=pytest.mark.slow)],
    ids=["strips", "as it is"],
)
def theirs(directory, request):
    """The reference tokenizer; its `<mask>` strips white space, as in roberta-base, or does not."""
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
    assert_equal(ours, theirs, [ENGLISH, *ENGLISH.split("\n"), *ODD])


def test_equals_tokenizers_on_random_text(ours, theirs):
    draw = random.Random(0)
    alphabet = " '\n\tastrvmld<>/k1é日" * 3 + "".join(map(chr, range(0x80, 0x3100, 37)))
    texts = ["".join(draw.choices(alphabet, k=draw.randint(0, 30))) for _ in range(500)]
    assert_equal(ours, theirs, texts)


@pytest.mark.slow
def test_every_code_point(ours, theirs):
    codes = [code for code in range(0, 0x110000, 7) if not 0xD800 <= code < 0xE000]
    texts = [f"a{chr(code)}1 {chr(code)}{chr(code)}!" for code in codes]
    received = ours.tokenize(texts).to_list()
    assert received == [row.ids for row in theirs.encode_batch(texts, add_special_tokens=False)]


def test_saves_and_loads(ours, theirs, tmp_path):
    ours.save_pretrained(tmp_path)
    loaded = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in (ENGLISH, *ODD):
        assert loaded(text)["input_ids"][1:-1] == theirs.encode(text).ids[1:-1]
    assert Tokenizer.from_pretrained(tmp_path).fingerprint == ours.fingerprint
    assert ByteLevelBPETokenizer(**ours.get_config()).fingerprint == ours.fingerprint
    (tmp_path / "tokenizer.json").unlink()
    again = Tokenizer.from_pretrained(tmp_path)
    assert again.mask_strips_left
    assert (again.vocabulary, again.merges) == (ours.vocabulary, ours.merges)


@pytest.fixture(scope="module")
def of_letters():
    """A BPE of `tokenizers` with 3,000 merges of random letters, and its files' content."""
    draw = random.Random(0)
    learner = tokenizers.ByteLevelBPETokenizer()
    words = ["".join(draw.choices("abcdefghij", k=8)) for _ in range(4000)]
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    learner.train_from_iterator(
        [*words, "=" * 64], 3300, special_tokens=special, show_progress=False
    )
    model = json.loads(learner.to_str())["model"]
    return learner, ByteLevelBPETokenizer(model["vocab"], model["merges"])


def long_words(size):
    """Words without a place at which they can be cut, with runs of one letter and repetitions."""
    draw = random.Random(1)
    letters = "".join(draw.choices("abcdefghij", k=size))
    runs = "".join(
        letter * draw.randint(1, 300) + "".join(draw.choices("abcdefghij", k=draw.randint(0, 90)))
        for letter in draw.choices("abcdefghij", k=size // 200)
    )
    again = (letters[:41] * size)[:size]
    return [
        letters,
        runs,
        again,
        "a" * size,
        "=" * size,
        "x" + "=" * 65,
        letters[:65],
        letters[:66],
    ]


def test_long_words_equal_tokenizers(of_letters):
    theirs, ours = of_letters
    texts = [*long_words(3000), *(f"a {word} b" for word in long_words(400)), "", "abc"]
    ids, starts, ends = (part.to_list() for part in ours.tokenize_with_offsets(texts))
    for text, row, first, last in zip(texts, ids, starts, ends):
        expected = theirs.encode(text)
        assert row == expected.ids, text
        assert [*zip(first, last)] == [(a + (text[a] == " "), b) for a, b in expected.offsets], text
    assert ours.tokenize(texts).to_list() == ids


@pytest.mark.parametrize("number", range(5))
def test_rounds_do_not_grow_with_the_length_of_a_word(of_letters, number, monkeypatch):
    merge, rounds = of_letters[1]._merge, []
    round_of = merge._round
    monkeypatch.setattr(merge, "_round", lambda *state: rounds.append(1) or round_of(*state))
    merge(tf.constant([long_words(6000)[number]]))
    assert len(rounds) < 400  # one for each of some thousand merges otherwise


@pytest.mark.parametrize("unk", [None, "<unk>"])
def test_bytes_that_the_vocabulary_lacks(tmp_path, unk):
    """As in models of chemical formulas: dropped, or the unknown token if the files name one."""
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "Ġ", "C", "O", "c", "CC"]
    model = tokenizers.models.BPE({t: i for i, t in enumerate(tokens)}, [("C", "C")], unk_token=unk)
    whole = tokenizers.Tokenizer(model)
    whole.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    names = ("pad", "unk", "mask")
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_object=whole, **{f"{name}_token": f"<{name}>" for name in names}
    )
    theirs.save_pretrained(tmp_path)
    ours = Tokenizer.from_pretrained(tmp_path)
    ours.save_pretrained(tmp_path / "again")
    texts = ["CCqCC", "é", "C%C é CC O", "cxc", "", "C" * 150 + "q" * 80 + "CO" * 90, "qq"]
    expected = [theirs(text, add_special_tokens=False)["input_ids"] for text in texts]
    assert ours.tokenize(texts).to_list() == expected
    assert Tokenizer.from_pretrained(tmp_path / "again").get_config() == ours.get_config()
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert [theirs(text, add_special_tokens=False)["input_ids"] for text in texts] == expected
    _, starts, ends = (part.to_list() for part in ours.tokenize_with_offsets(["CCqCC"]))
    assert (starts[0][-1], ends[0][-1]) == (3, 5)


def test_detokenize(ours):
    text = "  two  spaces, über 😀 it's"
    assert ours.detokenize(ours([text])["token_ids"][0]) == text


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda path: (path / "vocab.json").write_text("{"),
            "vocab.json, line 1, is not valid JSON",
        ),
        (lambda path: (path / "vocab.json").unlink(), "cannot read .*vocab.json"),
        (edit("vocab.json", lambda ids: ids.update({"<s>": 7})), "ids must be 0 to"),
        (edit("vocab.json", lambda ids: ids.popitem()), "vocabulary lacks '"),
        (lambda path: (path / "merges.txt").write_text("a b\nc\n"), "merge 2 must be a pair"),
        (lambda path: (path / "merges.txt").write_text("zzz yyy\n"), "vocabulary lacks 'zzz'"),
        (lambda path: (path / "merges.txt").write_bytes(b"\xff\n"), "line 1: not UTF-8"),
        (
            lambda path: (path / "tokenizer_config.json").write_text('{"add_prefix_space": 1}'),
            "add_prefix_space=1 is not supported",
        ),
    ],
)
def test_rejects_damaged_files(directory, tmp_path, damage, message):
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes((directory / name).read_bytes())
    damage(tmp_path)
    with pytest.raises(InputError, match=message):
        Tokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda whole: whole["model"].update(type="WordLevel"),
            "model 'WordLevel' is not supported",
        ),
        (
            lambda whole: whole.update(normalizer={"type": "NFD"}),
            "normalizer.type='NFD' is not supported",
        ),
        (
            lambda whole: whole["pre_tokenizer"].update(type="Split"),
            "type='Split' is not supported",
        ),
        (lambda whole: whole["model"].pop("merges"), "model.merges is missing"),
        (
            lambda whole: whole["added_tokens"].append({"content": "<new>"}),
            "an added token needs a content and an id: {'content': '<new>'}",
        ),
        (
            lambda whole: whole["added_tokens"].append({"content": "<new>", "id": 99999}),
            "the id 99999 of '<new>' is much larger",
        ),
        (
            lambda whole: whole["added_tokens"][0].update(rstrip=1),
            "added token '<s>': rstrip must be true or false",
        ),
    ],
)
def test_rejects_damaged_tokenizer_json(ours, tmp_path, change, message):
    ours.save_pretrained(tmp_path)
    edit("tokenizer.json", change)(tmp_path)
    with pytest.raises(InputError, match=message):
        Tokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize("normalize", [False, True])
def test_adds_a_space_before_the_first_word(ours, directory, tmp_path, normalize):
    """`add_prefix_space=True`, as in tagging models; the reference is `tokenizers`."""
    theirs = transformers.RobertaTokenizer.from_pretrained(directory, add_prefix_space=True)
    theirs.add_tokens(["[E1]", tokenizers.AddedToken("<L>", lstrip=True)])
    if normalize:
        theirs.backend_tokenizer.normalizer = tokenizers.normalizers.NFC()
    theirs.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.from_pretrained(tmp_path)
    assert (ours.add_prefix_space, ours.normalize) == (True, normalize)
    texts = [
        "the",
        " the",
        "  the",
        "",
        " ",
        "the<mask>the  <L>the[E1] e\u0301",
        "\t<L>a",
        "<mask>",
        "\n",
    ]
    ids, starts, ends = (ragged.to_list() for ragged in ours.tokenize_with_offsets(texts))
    rows = theirs.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    assert ids == [row.ids for row in rows]
    assert [list(zip(*pair)) for pair in zip(starts, ends)] == [row.offsets for row in rows]
    ours.save_pretrained(tmp_path / "again")
    assert Tokenizer.from_pretrained(tmp_path / "again").get_config() == ours.get_config()


@pytest.mark.parametrize("is_whole", [True, False], ids=["tokenizer.json", "vocab and merges"])
def test_gpt2(tmp_path, is_whole):
    theirs = learn_gpt2(tmp_path)
    if is_whole:
        theirs.save_pretrained(tmp_path)
    ours = Tokenizer.from_pretrained(tmp_path)
    texts = [ENGLISH, *ODD, "one<|endoftext|> two"]
    encoded = theirs(texts, return_offsets_mapping=True)
    ids, starts, ends = (part.to_list() for part in ours.tokenize_with_offsets(texts))
    assert ids == encoded["input_ids"]
    offsets = [list(zip(*row)) for row in zip(starts, ends, strict=True)]
    assert offsets == encoded["offset_mapping"]
    end = theirs.eos_token_id
    assert [ours.pad_id, ours.unk_id, ours.cls_id, ours.sep_id, ours.mask_id] == [end] * 5
    assert ours(["a"])["token_ids"][0].numpy().tolist() == [end, *theirs("a")["input_ids"], end]
    ours.save_pretrained(tmp_path / "ours")
    assert Tokenizer.from_pretrained(tmp_path / "ours").fingerprint == ours.fingerprint
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert (again.bos_token_id, again.eos_token_id, again.pad_token_id) == (end, end, end)
    assert again(texts)["input_ids"] == encoded["input_ids"]
