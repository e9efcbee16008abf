"""Byte-level BPE: ids and offsets equal those of `tokenizers`."""

import random

import pytest
import tokenizers
import transformers

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tokenizers import ByteLevelBPETokenizer, Tokenizer
from tests.tokenizers.kinds import ENGLISH, edit, learn_bytes

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
        (edit("vocab.json", lambda ids: ids.pop("!")), "vocabulary lacks '!'"),
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
            "the id 99999 of '<new>' is far beyond",
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
