"""Normalizers of tokenizer.json that differ from the usual one, or from the class's."""

import json

import pytest
import transformers
from tokenizers import normalizers

from keras_bert_impl.tokenizers import Tokenizer, WordPieceTokenizer
from keras_bert_impl.utils.errors import InputError
from tests.tokenizers.kinds import BERT, edit


def _with_lowercase(path, lowercase, kind="PreTrainedTokenizerFast"):
    """Writes what sentence-transformers makes of `do_lower_case`."""
    WordPieceTokenizer([*BERT, "a", "b"], lowercase=lowercase).save_pretrained(path)
    edit("tokenizer_config.json", lambda config: config.update(tokenizer_class=kind))(path)

    def change(whole):
        steps = [{"type": "Lowercase"}, whole["normalizer"]]
        whole["normalizer"] = {"type": "Sequence", "normalizers": steps}

    edit("tokenizer.json", change)(path)


def test_a_lowercase_before_a_normalizer_that_lowercases(tmp_path):
    _with_lowercase(tmp_path, True)
    ours = Tokenizer.from_pretrained(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert ours.lowercase
    assert ours.tokenize(["A Ba"]).to_list() == [theirs("A Ba", add_special_tokens=False).input_ids]


def test_a_lowercase_before_a_normalizer_that_does_not(tmp_path):
    _with_lowercase(tmp_path, False)
    with pytest.raises(InputError, match="normalizer 'Sequence' is not supported"):
        Tokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize("strip_accents", [None, False])
def test_that_lowercase_changes_no_text(strip_accents):
    """Every 7th code point and all that lowercasing changes; beside letters and marks."""
    normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=strip_accents)
    both = normalizers.Sequence([normalizers.Lowercase(), normalizer])
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    some = [chr(code) for code in codes if code % 7 == 0 or chr(code).lower() != chr(code)]
    for context in ("{}", "A{}\u0301B", "\u03a3{}"):
        text = "\n".join(context.format(character) for character in some)
        assert both.normalize_str(text) == normalizer.normalize_str(text)


@pytest.mark.parametrize("kind", ["BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"])
@pytest.mark.parametrize(
    "setting, name",
    [
        ({"lowercase": False}, "do_lower_case"),
        ({"strip_accents": False}, "strip_accents"),
        ({"split_on_cjk": False}, "tokenize_chinese_chars"),
    ],
)
def test_warns_of_settings_that_a_class_ignores(tmp_path, caplog, kind, setting, name):
    expected = WordPieceTokenizer([*BERT, "a", "b"], **setting)
    expected.save_pretrained(tmp_path)
    Tokenizer.from_pretrained(tmp_path)
    assert not caplog.text
    path = tmp_path / "tokenizer_config.json"
    config = json.loads(path.read_text()) | {"tokenizer_class": kind, "model_input_names": []}
    del config[name]
    path.write_text(json.dumps(config))
    assert Tokenizer.from_pretrained(tmp_path).fingerprint == expected.fingerprint
    (record,) = caplog.records
    assert f"has no {name}: {name}=False of tokenizer.json is used. {kind}" in record.getMessage()


@pytest.mark.parametrize(
    "words",
    [
        "हिंदी में क ##ख",
        "كِتَاب مُدَرِّسَة ب ##ب",
        "ภาษาไทย ไม่ ก",
        "שָׁלוֹם ש",
        "한국 어",
        "ガ が",
        "über und äh",
    ],
)
def test_words_with_accents_are_in_a_vocabulary_with_accents(tmp_path, caplog, words):
    words = words.split()
    (tmp_path / "vocab.txt").write_text("\n".join([*BERT, *words]), encoding="utf-8")
    tokenizer = Tokenizer.from_pretrained(tmp_path)
    whole = [word for word in words if not word.startswith("##")]
    expected = [[len(BERT) + words.index(word)] for word in whole]
    assert tokenizer.tokenize(whole).to_list() == expected
    assert "Inferred lowercase=True, strip_accents=False" in caplog.text
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    assert Tokenizer.from_pretrained(tmp_path).tokenize(whole).to_list() != expected
    assert "accents, so words with these tokens become [UNK]" in caplog.text


@pytest.mark.parametrize("is_whole", [False, True])
def test_special_tokens_of_other_names_are_renamed_as_advised(tmp_path, is_whole):
    WordPieceTokenizer([*BERT, "a", "b"]).save_pretrained(tmp_path)
    if not is_whole:
        (tmp_path / "tokenizer.json").unlink()
    names = dict(zip(("[PAD]", "[UNK]", "[CLS]", "[SEP]"), ("<pad>", "<unk>", "<s>", "</s>")))

    def rename(names):
        for path in tmp_path.iterdir():
            text = path.read_text()
            for old, new in names.items():
                text = text.replace(old, new)
            path.write_text(text)

    rename(names)
    with pytest.raises(InputError, match=r"Rename '<pad>' to '\[PAD\]', .*'</s>' to '\[SEP\]' in"):
        Tokenizer.from_pretrained(tmp_path)
    rename({new: old for old, new in names.items()})
    assert Tokenizer.from_pretrained(tmp_path).tokenize(["a b"]).to_list() == [[5, 6]]
