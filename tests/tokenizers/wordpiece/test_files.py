import json
import random

import pytest
import transformers

from keras_bert_impl.tokenizers import Tokenizer, WordPieceTokenizer
from keras_bert_impl.tokenizers.wordpiece.files import read_vocabulary
from keras_bert_impl.utils.errors import InputError

SPECIAL = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"


@pytest.fixture
def saved(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def edit(path, **changes):
    """Changes keys of a JSON file; `__` in a name separates nested keys."""
    whole = json.loads(path.read_text())
    for name, value in changes.items():
        *outer, last = name.split("__")
        inner = whole
        for key in outer:
            inner = inner[key]
        inner[last] = value
    path.write_text(json.dumps(whole))


def test_writes_the_files_that_others_read(saved):
    names = {"vocab.txt", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"}
    assert {path.name for path in saved.iterdir()} == names


@pytest.mark.parametrize("remaining", ["vocab.txt", "tokenizer.json"])
def test_reads_what_it_wrote_from_either_file(tokenizer, saved, remaining):
    for name in ("vocab.txt", "tokenizer.json"):
        if name != remaining:
            (saved / name).unlink()
    assert Tokenizer.from_pretrained(saved).fingerprint == tokenizer.fingerprint


def test_transformers_gives_the_same_ids(tokenizer, saved, vocabulary):
    theirs = transformers.AutoTokenizer.from_pretrained(saved)
    draw = random.Random(5)
    parts = [token for token in vocabulary if len(token) == 1]
    parts += [" ", " [MASK] ", "é", "中", "É"] * 20
    texts = ["", *("".join(draw.choices(parts, k=20)) for _ in range(300))]
    expected = theirs(texts, add_special_tokens=False)["input_ids"]
    assert tokenizer.tokenize(texts).to_list() == expected
    ours = tokenizer(texts, length=12)["token_ids"].numpy().tolist()
    expected = theirs(texts, truncation=True, max_length=12, padding="max_length")["input_ids"]
    assert ours == expected
    assert theirs.mask_token_id == tokenizer.mask_id


def test_reads_what_transformers_wrote(tokenizer, saved, tmp_path):
    transformers.AutoTokenizer.from_pretrained(saved).save_pretrained(tmp_path / "again")
    assert Tokenizer.from_pretrained(tmp_path / "again").fingerprint == tokenizer.fingerprint


def words(count, capitals):
    """The content of a vocabulary file in which some words have capital letters."""
    return SPECIAL + "".join(f"{'W' if n < capitals else 'w'}ord{n}\n" for n in range(count))


@pytest.mark.parametrize("place", ["vocab.txt", "assets/vocab.txt"])
@pytest.mark.parametrize(("capitals", "lowercase"), [(0, True), (1, True), (60, False)])
def test_infers_the_case_from_the_vocabulary(tmp_path, caplog, place, capitals, lowercase):
    """As in Google's checkpoints; ignores a few capitals, such as SciBERT's Greek letters."""
    (tmp_path / "assets").mkdir()
    (tmp_path / place).write_text(words(200, capitals))
    assert Tokenizer.from_pretrained(tmp_path).lowercase == lowercase
    assert f"Inferred lowercase={lowercase}, because" in caplog.text
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": not lowercase}))
    assert Tokenizer.from_pretrained(tmp_path).lowercase != lowercase


@pytest.mark.parametrize(
    ("folder", "config", "lowercase"),
    [
        ("scibert_scivocab_uncased", {}, True),
        ("models--allenai--scibert_scivocab_uncased/snapshots/0123", {}, True),
        ("x", {"_name_or_path": "allenai/scibert_scivocab_uncased"}, True),
        ("bert-base-chinese", {}, True),
        ("uncased_L-12_H-768_A-12", {}, True),
        ("cased_L-12_H-768_A-12", {}, False),
    ],
)
def test_a_published_name_takes_precedence_over_the_vocabulary(tmp_path, folder, config, lowercase):
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "vocab.txt").write_text(words(200, 200 if lowercase else 0))
    (tmp_path / folder / "config.json").write_text(json.dumps(config))
    assert Tokenizer.from_pretrained(tmp_path / folder).lowercase == lowercase


def test_reads_the_case_from_the_configuration(tmp_path):
    (tmp_path / "vocab.txt").write_text(SPECIAL)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert not Tokenizer.from_pretrained(tmp_path).lowercase


def test_reads_windows_line_ends_and_unusual_spaces(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes((SPECIAL + "a\u2028b\n\nc\x85").replace("\n", "\r\n").encode())
    assert read_vocabulary(path)[5:] == ["a\u2028b", "", "c\x85"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (SPECIAL.encode() + b"a\n\xff\xfe\n", r"vocab.txt, line 7: not UTF-8"),
        (SPECIAL.encode() + b"\x00\x01", r"vocab.txt, line 6: not UTF-8"),
        (b"[PAD]\n[UNK]\na\n", r"lacks \[CLS\] \[SEP\] \[MASK\]"),
        (f"{SPECIAL}{'😀' * 65}\n".encode(), r", line 6: a token is longer than 256 bytes"),
    ],
)
def test_rejects_bad_vocabulary_files(tmp_path, content, message):
    (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        Tokenizer.from_pretrained(tmp_path)


def test_a_token_longer_than_any_word_is_no_part_of_a_text(tmp_path):
    (tmp_path / "vocab.txt").write_text(f"{SPECIAL}{'a' * 300}\n##{'b' * 101}\na\n##b\n")
    tokenizer = Tokenizer.from_pretrained(tmp_path)
    texts = ["ab", "a" * 300, "a" + "b" * 101]
    assert tokenizer.tokenize(texts).to_list() == [[7, 8], [1], [1]]
    assert tokenizer.vocabulary[5] == "a" * 300


def test_rejects_a_file_that_is_too_large(tmp_path):
    with open(tmp_path / "vocab.txt", "wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(InputError, match="larger than 64 MiB"):
        Tokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [([], "is empty"), (["a"], "lacks"), (["a", 3], "line 2: 3 must be a string")],
)
def test_rejects_bad_vocabulary_lists(vocabulary, message):
    with pytest.raises(InputError, match=message):
        WordPieceTokenizer(vocabulary)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strip_accents": "no"}, "strip_accents='no'"),
        ({"tokenize_chinese_chars": 1}, "tokenize_chinese_chars=1"),
        ({"do_basic_tokenize": False}, "do_basic_tokenize=False"),
        ({"padding_side": "left"}, "padding_side='left'"),
        ({"truncation_side": "left"}, "truncation_side='left'"),
        ({"split_special_tokens": True}, "split_special_tokens=True"),
        ({"extra_special_tokens": 3}, "extra_special_tokens must be a list, not int"),
        ({"extra_special_tokens": [3]}, "added token must be a non-empty string"),
        ({"added_tokens_decoder": {"x": {"content": "[X]"}}}, "'x' is not the id of a token"),
        (
            {"added_tokens_decoder": {"5": {"content": "[X]", "lstrip": 1}}},
            "lstrip must be true or",
        ),
        ({"do_lower_case": "yes"}, "do_lower_case='yes'"),
        (
            {"tokenizer_class": "RobertaTokenizerFast"},
            'directory contains WordPiece.*"BertTokenizer"',
        ),
        ({"tokenizer_class": "BertJapaneseTokenizer"}, 'It needs MeCab.*"strip_accents": false'),
        ({"tokenizer_class": "PhobertTokenizer"}, "bpe.codes.*Use a model with another tokenizer"),
        ({"pad_token": "<|endoftext|>"}, r"Set \"pad_token\": \"\[PAD\]\" in this file"),
        ({"mask_token": "<mask>"}, "mask_token='<mask>'"),
        ({"mask_token": {"content": "<mask>"}}, "mask_token='<mask>'"),
    ],
)
def test_rejects_unsupported_settings(saved, changes, message):
    edit(saved / "tokenizer_config.json", **changes)
    with pytest.raises(InputError, match=f"tokenizer_config.json: .*{message}"):
        Tokenizer.from_pretrained(saved)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model__type": "WordLevel"}, "model 'WordLevel'"),
        ({"normalizer": None}, "normalizer None"),
        ({"pre_tokenizer__type": "Whitespace"}, "pre_tokenizer 'Whitespace'"),
        ({"model__max_input_chars_per_word": 200}, "model.max_input_chars_per_word=200"),
        ({"normalizer__clean_text": False}, "normalizer.clean_text=False"),
        ({"model__vocab": {"a": 0, "b": 99}}, "must be 0 to 1"),
        ({"model__vocab": {"a": 0, "b": 0}}, "must be 0 to 1"),
        ({"model__vocab": {"a": 0, "b": "1"}}, "the id of 'b' must be an integer, not '1'"),
        ({"model__vocab": None}, "has no vocabulary"),
        ({"added_tokens": [{"content": "[X]"}]}, "needs a content and an id"),
        (
            {"added_tokens": [{"content": "[X]", "id": "1"}]},
            r"the id of '\[X\]' must be an integer, not '1'",
        ),
    ],
)
def test_rejects_unsupported_tokenizer_json(saved, changes, message):
    (saved / "vocab.txt").unlink()
    edit(saved / "tokenizer.json", **changes)
    with pytest.raises(InputError, match=f"tokenizer.json:? .*{message}"):
        Tokenizer.from_pretrained(saved)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n"a": }', "line 2, is not valid JSON"),
        ("[1]", "one JSON object"),
        ("[" * 100_000, "is nested too deeply"),
    ],
)
def test_rejects_damaged_json(saved, name, text, message):
    (saved / name).write_text(text)
    with pytest.raises(InputError, match=f"{name}.*{message}"):
        Tokenizer.from_pretrained(saved)


def test_rejects_two_different_vocabularies(saved):
    with open(saved / "vocab.txt", "a") as file:
        file.write("more\n")
    with pytest.raises(InputError, match="differ"):
        Tokenizer.from_pretrained(saved)


@pytest.mark.parametrize(
    ("name", "message"),
    [("spiece.model", "SentencePiece"), ("merges.txt", "vocab.json"), ("x", "no tokenizer")],
)
def test_an_error_names_the_kind_of_tokenizer(tmp_path, name, message):
    (tmp_path / name).write_text("")
    with pytest.raises(InputError, match=message):
        Tokenizer.from_pretrained(tmp_path)


def test_rejects_a_missing_directory(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        Tokenizer.from_pretrained(tmp_path / "none")


# === Side files, against `transformers` ===

PLAIN = SPECIAL + "\n".join(
    ["a", "b", "[", "]", "##1", "e", "##e", "é", "##é", "x", "中", "##中", "1"]
)
TEXTS = [
    "a [E1] b",
    "<tag>a",
    "a[E1]b",
    "É é e\u0301",
    "a中中b",
    "[MASK] a  [MASK]b",
    "A B",
    "[e1]x",
]


def write(path, **files):
    """Writes vocab.txt and JSON files named by the keywords."""
    (path / "vocab.txt").write_text(files.pop("vocab", PLAIN))
    for name, value in files.items():
        (path / f"{name}.json").write_text(json.dumps(value))


@pytest.mark.parametrize(
    "files",
    [
        {"added_tokens": {"[E1]": 18, "<tag>": 19}},
        {
            "added_tokens": {"[E1]": 18},
            "special_tokens_map": {"additional_special_tokens": ["[E1]"]},
        },
        {"special_tokens_map": {"additional_special_tokens": ["[E1]", "<tag>"]}},
        {"tokenizer_config": {"additional_special_tokens": ["<tag>"]}},
        {"tokenizer_config": {"extra_special_tokens": ["<tag>"], "do_lower_case": False}},
        {"tokenizer_config": {"extra_special_tokens": {"entity_token": "[E1]"}}},
        {"tokenizer_config": {"entity_token": "[E1]"}},
        {
            "tokenizer_config": {
                "added_tokens_decoder": {
                    "18": {"content": "[E1]", "lstrip": True, "normalized": True},
                    "4": {
                        "content": "[MASK]",
                        "lstrip": True,
                        "special": True,
                        "normalized": False,
                    },
                }
            }
        },
        {"tokenizer_config": {"strip_accents": False}},
        {"tokenizer_config": {"strip_accents": True, "do_lower_case": False}},
        {"tokenizer_config": {"tokenize_chinese_chars": False}},
        {"vocab": PLAIN + "\na\nb\nzzz"},
        {"vocab": PLAIN + "\n\n\n"},
        {"vocab": PLAIN.replace("\n", "\r\n")},
    ],
)
def test_reads_side_files(tmp_path, files):
    write(tmp_path, **{"tokenizer_config": {"do_lower_case": True}} | files)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    if "do_lower_case" not in config:
        edit(tmp_path / "tokenizer_config.json", do_lower_case=True)
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    ours = Tokenizer.from_pretrained(tmp_path)
    rows = theirs.backend_tokenizer.encode_batch(TEXTS, add_special_tokens=False)
    ids, starts, ends = (ragged.to_list() for ragged in ours.tokenize_with_offsets(TEXTS))
    assert ids == [row.ids for row in rows]
    assert [list(zip(*pair)) for pair in zip(starts, ends)] == [row.offsets for row in rows]
    ours.save_pretrained(tmp_path / "again")
    assert Tokenizer.from_pretrained(tmp_path / "again").get_config() == ours.get_config()
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert [again(text, add_special_tokens=False)["input_ids"] for text in TEXTS] == ids


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (6, r"'\[X\]' has the id 6, but the vocabulary has 'b' at this id"),
        (20, r"added_tokens.json: '\[X\]' has the id 20, but no token has the ids 18 to 19"),
        (10**7, "no token has the ids 18 to 9999999"),
    ],
)
def test_rejects_ids_that_added_tokens_cannot_have(tmp_path, number, message):
    write(tmp_path, added_tokens={"[X]": number})
    with pytest.raises(InputError, match=message):
        Tokenizer.from_pretrained(tmp_path)


def test_added_tokens_decoder_may_leave_a_gap(tmp_path):
    """`transformers` has written such tokenizers, and their models have rows for all ids."""
    decoder = {"20": {"content": "[X]"}}
    write(tmp_path, tokenizer_config={"do_lower_case": True, "added_tokens_decoder": decoder})
    tokenizer = Tokenizer.from_pretrained(tmp_path)
    assert (tokenizer.token_to_id("[X]"), len(tokenizer)) == (20, 21)
    decoder = {str(10**7): {"content": "[X]"}}
    write(tmp_path, tokenizer_config={"do_lower_case": True, "added_tokens_decoder": decoder})
    with pytest.raises(InputError, match="much larger than the other ids"):
        Tokenizer.from_pretrained(tmp_path)


def test_a_special_token_needs_an_entry_in_the_vocabulary(tmp_path):
    write(tmp_path, vocab=PLAIN.replace("[SEP]\n", ""), tokenizer_config={"sep_token": "[SEP]"})
    with pytest.raises(InputError, match=r"lacks \[SEP\]"):
        Tokenizer.from_pretrained(tmp_path)


def test_removes_a_byte_order_mark(tmp_path):
    write(tmp_path, vocab="\ufeff" + PLAIN.replace("\n", " \t\n"))
    assert Tokenizer.from_pretrained(tmp_path).pad_id == 0


def test_uses_the_last_id_of_a_repeated_token():
    tokenizer = WordPieceTokenizer([*SPECIAL.split(), "a", "b", "a", "", ""])
    assert tokenizer.tokenize(["a b"]).to_list() == [[7, 6]]
    assert (tokenizer.token_to_id("a"), tokenizer.id_to_token(5)) == (7, "a")


@pytest.mark.parametrize(
    ("kind", "lowercase"), [("BertTokenizer", True), ("TokenizersBackend", False)]
)
def test_which_file_sets_the_case(tmp_path, caplog, kind, lowercase):
    """tokenizer_config.json for BERT's class, tokenizer.json for the generic one."""
    WordPieceTokenizer(PLAIN.split(), lowercase=False).save_pretrained(tmp_path)
    edit(tmp_path / "tokenizer_config.json", do_lower_case=True, tokenizer_class=kind)
    ours = Tokenizer.from_pretrained(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert ours.lowercase == lowercase
    assert ours.tokenize(["A"]).to_list() == [theirs("A", add_special_tokens=False)["input_ids"]]
    assert ("tokenizer.json has False" in caplog.text) == lowercase


@pytest.mark.parametrize("name", ["lowercase", "strip_accents", "split_on_cjk"])
def test_rejects_settings_that_are_not_bool(name):
    with pytest.raises(InputError, match=f"{name} must be True or False"):
        WordPieceTokenizer(SPECIAL.split(), **{name: "no"})


def test_never_split_is_ignored_as_in_transformers(tmp_path):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[", "]", "x", "a"]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary))
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": False, "never_split": ["[x]"]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    expected = theirs("a [x] x", add_special_tokens=False)["input_ids"]
    assert Tokenizer.from_pretrained(tmp_path).tokenize(["a [x] x"]).to_list() == [expected]
