import json
import random

import pytest
import transformers

from keras_bert_impl.errors import InputError
from keras_bert_impl.tokenizers import Tokenizer, WordPieceTokenizer
from keras_bert_impl.tokenizers.wordpiece_files import read_vocabulary

SPECIAL = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"


@pytest.fixture
def saved(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def edit(path, **changes):
    """Changes keys of a JSON file; a name with __ in it goes into nested objects."""
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


@pytest.mark.parametrize("left", ["vocab.txt", "tokenizer.json"])
def test_reads_what_it_wrote_from_either_file(tokenizer, saved, left):
    for name in ("vocab.txt", "tokenizer.json"):
        if name != left:
            (saved / name).unlink()
    assert Tokenizer.from_pretrained(saved).fingerprint == tokenizer.fingerprint


def test_transformers_reads_it_and_gives_the_same_ids(tokenizer, saved, vocabulary):
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


@pytest.mark.parametrize("place", ["vocab.txt", "assets/vocab.txt"])
def test_the_vocabulary_tells_the_case_where_nothing_else_does(tmp_path, caplog, place):
    """As in Google's checkpoints and SavedModels."""
    (tmp_path / "assets").mkdir()
    (tmp_path / place).write_text(SPECIAL + "\u0393\na")  # SciBERT's uncased has Greek capitals
    assert Tokenizer.from_pretrained(tmp_path).lowercase
    (tmp_path / place).write_text(SPECIAL + "A\na")
    assert not Tokenizer.from_pretrained(tmp_path).lowercase
    told = [message.split("; ")[1] for message in caplog.messages]
    assert told == [
        "lowercase=True by the vocabulary, which has no capital letters.",
        "lowercase=False by the vocabulary, which has the capital letters.",
    ]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    assert Tokenizer.from_pretrained(tmp_path).lowercase


def test_case_by_configuration(tmp_path):
    (tmp_path / "vocab.txt").write_text(SPECIAL)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert not Tokenizer.from_pretrained(tmp_path).lowercase


def test_lines_may_end_as_on_windows_and_hold_odd_spaces(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes((SPECIAL + "a\u2028b\n\nc\x85").replace("\n", "\r\n").encode())
    assert read_vocabulary(path)[5:] == ["a\u2028b", "", "c\x85"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (SPECIAL.encode() + b"a\nb\na\n", r"vocab.txt, line 8: the token 'a' stands in line 6 too"),
        (SPECIAL.encode() + b"a\n\xff\xfe\n", r"vocab.txt, line 7: not UTF-8"),
        (SPECIAL.encode() + b"\x00\x01", r"vocab.txt, line 6: not UTF-8"),
        (b"[PAD]\n[UNK]\na\n", r"lacks \[CLS\] \[SEP\] \[MASK\]"),
    ],
)
def test_bad_vocabulary_files(tmp_path, content, message):
    (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        Tokenizer.from_pretrained(tmp_path)


def test_a_file_too_big_is_not_read(tmp_path):
    with open(tmp_path / "vocab.txt", "wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(InputError, match="more than 64 MiB"):
        Tokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [([], "is empty"), (["a", "a"], "line 2"), (["a"], "lacks"), (["a", 3], "line 2: 3 is no str")],
)
def test_bad_vocabulary_lists(vocabulary, message):
    with pytest.raises(InputError, match=message):
        WordPieceTokenizer(vocabulary)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenize_chinese_chars": False}, "tokenize_chinese_chars=False"),
        ({"do_lower_case": True, "strip_accents": False}, "strip_accents=False"),
        ({"do_lower_case": False, "strip_accents": True}, "strip_accents=True"),
        ({"do_lower_case": "yes"}, "do_lower_case='yes'"),
        ({"tokenizer_class": "RobertaTokenizerFast"}, "RobertaTokenizer is not supported"),
        ({"mask_token": "<mask>"}, "mask_token='<mask>'"),
        ({"mask_token": {"content": "<mask>"}}, "mask_token='<mask>'"),
    ],
)
def test_settings_not_supported(saved, changes, message):
    edit(saved / "tokenizer_config.json", **changes)
    with pytest.raises(InputError, match=f"tokenizer_config.json: .*{message}"):
        Tokenizer.from_pretrained(saved)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model__type": "WordLevel"}, "model WordLevel"),
        ({"normalizer": None}, "normalizer None"),
        ({"pre_tokenizer__type": "Whitespace"}, "pre_tokenizer Whitespace"),
        ({"model__max_input_chars_per_word": 200}, "model.max_input_chars_per_word=200"),
        ({"normalizer__clean_text": False}, "normalizer.clean_text=False"),
        ({"model__vocab": {"a": 1}}, "not 0 to 0"),
        ({"model__vocab": {"a": 0, "b": "1"}}, "not 0 to 1"),
        ({"model__vocab": None}, "there is no vocabulary"),
        ({"added_tokens": [{"content": "[X]"}]}, r"the added token '\[X\]'"),
        ({"added_tokens": [{"content": "[MASK]", "lstrip": True}]}, "lstrip=True"),
    ],
)
def test_tokenizer_json_not_supported(saved, changes, message):
    (saved / "vocab.txt").unlink()
    edit(saved / "tokenizer.json", **changes)
    with pytest.raises(InputError, match=f"tokenizer.json: .*{message}"):
        Tokenizer.from_pretrained(saved)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize(
    ("text", "message"),
    [('{\n"a": }', "line 2, is not valid JSON"), ("[1]", "one JSON object"), ("[" * 100_000, "JSON")],
)
def test_damaged_json(saved, name, text, message):
    (saved / name).write_text(text)
    with pytest.raises(InputError, match=f"{name}.*{message}"):
        Tokenizer.from_pretrained(saved)


def test_two_vocabularies_that_differ(saved):
    with open(saved / "vocab.txt", "a") as file:
        file.write("more\n")
    with pytest.raises(InputError, match="differ"):
        Tokenizer.from_pretrained(saved)


@pytest.mark.parametrize(
    ("name", "message"),
    [("spiece.model", "SentencePiece"), ("merges.txt", "vocab.json"), ("x", "no tokenizer")],
)
def test_other_kinds_are_named(tmp_path, name, message):
    (tmp_path / name).write_text("")
    with pytest.raises(InputError, match=message):
        Tokenizer.from_pretrained(tmp_path)


def test_no_directory(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        Tokenizer.from_pretrained(tmp_path / "none")
