"""Reading SentencePiece models, damaged models and unsupported families."""

import json
import shutil

import pytest
import transformers
from tokenizers import pre_tokenizers

from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.tokenizers.row_files import kind_of
from keras_bert_impl.utils.errors import InputError
from tests.tokenizers.sentencepiece_models import ODD, TEXT, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for family in ("ALBERT", "XLM-RoBERTa", "CamemBERT"):
        (folder / family).mkdir()
        train(folder / family, family)
    return folder


@pytest.fixture
def albert(trained, tmp_path):
    return shutil.copytree(trained / "ALBERT", tmp_path / "model")


@pytest.fixture
def whole(albert):
    """A directory with a tokenizer.json and no SentencePiece model."""
    tokenizer = Tokenizer.from_pretrained(albert)
    (albert / "spiece.model").unlink()
    tokenizer.save_pretrained(albert)
    return albert


def write(path, value):
    path.write_text(json.dumps(value))


@pytest.mark.parametrize("family", ["ALBERT", "XLM-RoBERTa", "CamemBERT"])
def test_family_follows_from_the_configuration(trained, tmp_path, family):
    directory = shutil.copytree(trained / family, tmp_path / "model")
    assert kind_of(directory) == "SentencePiece"
    expected = Tokenizer.from_pretrained(directory)
    assert expected.family == family
    (directory / "tokenizer_config.json").unlink()
    write(directory / "config.json", {"model_type": family.lower()})
    assert Tokenizer.from_pretrained(directory).fingerprint == expected.fingerprint
    # tokenizer.json is enough; for a SentencePiece model, its name shows ALBERT or XLM-RoBERTa.
    (directory / "config.json").unlink()
    by_name = Tokenizer.from_pretrained(directory).family
    assert by_name == ("ALBERT" if family == "ALBERT" else "XLM-RoBERTa")
    expected.save_pretrained(directory)
    (directory / "tokenizer_config.json").unlink()
    assert Tokenizer.from_pretrained(directory).family == family


@pytest.mark.parametrize("name", ["30k-clean.model", "assets/30k-clean.model"])
def test_albert_as_google_published_it(albert, name):
    expected = Tokenizer.from_pretrained(albert)
    (albert / "assets").mkdir()
    (albert / "spiece.model").rename(albert / name)
    (albert / "tokenizer_config.json").unlink()
    assert kind_of(albert) == "SentencePiece"
    assert Tokenizer.from_pretrained(albert).fingerprint == expected.fingerprint


def test_layouts(trained):
    xlm = Tokenizer.from_pretrained(trained / "XLM-RoBERTa")
    camembert = Tokenizer.from_pretrained(trained / "CamemBERT")
    assert xlm.vocabulary[:4] == ["<s>", "<pad>", "</s>", "<unk>"]
    first = ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>"]
    assert camembert.vocabulary[:7] == first
    assert xlm.vocabulary[4:] == camembert.vocabulary[7:]  # both end with <mask>
    assert (xlm.cls_id, xlm.sep_id, xlm.mask_id) == (0, 2, len(xlm.vocabulary) - 1)
    assert (camembert.cls_id, camembert.sep_id) == (5, 6)
    assert camembert.scores[4] == -100 and min(xlm.scores) > -100


@pytest.mark.slow
def test_an_added_token_of_tokenizer_json_cuts_words(whole):
    """Like ALBERT's brackets when `transformers` reads a SentencePiece model alone."""
    before = Tokenizer.from_pretrained(whole)
    settings = json.loads((whole / "tokenizer.json").read_text())
    bracket = {"content": "(", "lstrip": False, "rstrip": False, "single_word": False}
    bracket |= {"id": before.vocabulary.index("("), "normalized": False, "special": False}
    settings["added_tokens"].append(bracket)
    write(whole / "tokenizer.json", settings)
    after = Tokenizer.from_pretrained(whole)
    pieces = [[t.vocabulary[i] for i in t.tokenize(["(a"]).to_list()[0]] for t in (before, after)]
    assert pieces == [["▁", "(", "a"], ["(", "▁a"]]


def damage(name, change):
    def apply(directory):
        path = directory / name
        path.write_bytes(change(path.read_bytes()))

    return apply


def trained_as(**options):
    return lambda directory: train(directory, "ALBERT", **options)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (damage("spiece.model", lambda data: data[: len(data) // 3]), "spiece.model is damaged"),
        (damage("spiece.model", lambda data: b""), "spiece.model .*has no pieces"),
        (
            damage("spiece.model", lambda data: TEXT.encode()),
            "spiece.model is damaged or not a SentencePiece model",
        ),
        (
            damage("spiece.model", lambda data: data.replace("▁the".encode(), b"\xff..the")),
            "spiece.model is damaged: a piece is not UTF-8",
        ),
        (
            damage("spiece.model", lambda data: bytes(70 << 20)),
            "spiece.model is larger than 64 MiB",
        ),
        (
            damage("spiece.model", lambda data: data + data),
            "spiece.model has .* pieces, but vocab_size=",
        ),
        (trained_as(model_type="bpe"), "spiece.model: .* of type BPE is not supported"),
        (trained_as(model_type="char"), "spiece.model: .* of type character is not supported"),
        (trained_as(byte_fallback=True), "spiece.model: byte_fallback is not supported"),
        (
            trained_as(add_dummy_prefix=False),
            "spiece.model: only models with the space mark before",
        ),
        (trained_as(control_symbols=["[CLS]", "[SEP]"]), r"lacks '\[MASK\]'"),
        (lambda directory: (directory / "spiece.model").unlink(), "no tokenizer"),
    ],
)
def test_rejects_damaged_models(albert, spoil, message):
    spoil(albert)
    with pytest.raises(InputError, match=message):
        Tokenizer.from_pretrained(albert)


@pytest.mark.parametrize("name", ["T5", "XLNet", "MBart", "DebertaV2"])
def test_rejects_other_families(albert, name):
    write(albert / "tokenizer_config.json", {"tokenizer_class": f"{name}TokenizerFast"})
    with pytest.raises(
        InputError,
        match=f"'{name}Tokenizer' is not supported. The directory contains SentencePiece",
    ):
        Tokenizer.from_pretrained(albert)
    write(albert / "tokenizer_config.json", {})
    write(albert / "config.json", {"model_type": name.lower()})
    with pytest.raises(InputError, match=f"model_type '{name.lower()}' is not supported"):
        Tokenizer.from_pretrained(albert)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"do_lower_case": False}, "do_lower_case=False is not supported"),
        ({"keep_accents": True}, "keep_accents=True is not supported"),
        ({"add_prefix_space": 0}, "add_prefix_space=0 is not supported"),
        ({"mask_token": "<mask>"}, "mask_token='<mask>' is not supported"),
        ({"extra_special_tokens": [["("]]}, "an added token must be a non-empty string"),
    ],
)
def test_rejects_unsupported_settings(albert, settings, message):
    write(albert / "tokenizer_config.json", {"tokenizer_class": "AlbertTokenizer", **settings})
    with pytest.raises(InputError, match=message):
        Tokenizer.from_pretrained(albert)


def test_rejects_more_tokens_than_embeddings(albert):
    write(albert / "config.json", {"model_type": "albert", "vocab_size": 50})
    with pytest.raises(InputError, match="tokens, but config.json has vocab_size=50"):
        Tokenizer.from_pretrained(albert)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w["model"].update(byte_fallback=True), "model.byte_fallback=True"),
        (lambda w: w["model"].update(unk_id=0), "model.unk_id=0"),
        (lambda w: w["model"].update(vocab={}), "tokenizer.json has no vocabulary"),
        (
            lambda w: w["model"]["vocab"].append(["a"]),
            "must be a pair of piece and score, not \\['a'\\]",
        ),
        (
            lambda w: w["model"]["vocab"].append(["<pad>", 0.0]),
            "'<pad>' has the id 0, but the vocabulary",
        ),
        (lambda w: w["model"]["vocab"].pop(3), r"'\[SEP\]' has the id 3, but the vocabulary"),
        (
            lambda w: w.update(normalizer=None),
            "the normalizer of ALBERT must contain Replace ``",
        ),
        (
            lambda w: w["normalizer"]["normalizers"].pop(2),
            "the normalizer of ALBERT must contain NFKD",
        ),
        (
            lambda w: w["normalizer"]["normalizers"].pop(1),
            "the normalizer of ALBERT must contain Replace ''",
        ),
        (
            lambda w: w["normalizer"]["normalizers"].insert(
                0, w["normalizer"]["normalizers"].pop(4)
            ),
            "step 1 of the normalizer of ALBERT must be Replace ``",
        ),
        (lambda w: w["normalizer"]["normalizers"].append({"type": "NFC"}), "type='NFC' is not"),
        (lambda w: w["normalizer"]["normalizers"].append(1), "normalizer is damaged"),
        (lambda w: w["normalizer"]["normalizers"][-1].update(precompiled_charsmap=3), "damaged"),
        (lambda w: w["pre_tokenizer"]["pretokenizers"][1].update(split=False), "split=False"),
        (lambda w: w["added_tokens"].append({"content": "<new>"}), "needs a content and an id"),
        (lambda w: w.update(added_tokens=3), "added_tokens must be a list, not int"),
        (lambda w: w["added_tokens"].append(3), "needs a content and an id: 3"),
        (lambda w: w["added_tokens"][0].update(lstrip=3), "'<pad>': lstrip must be true"),
    ],
)
def test_rejects_damaged_tokenizer_json(whole, change, message):
    settings = json.loads((whole / "tokenizer.json").read_text())
    change(settings)
    write(whole / "tokenizer.json", settings)
    with pytest.raises(InputError, match=message):
        Tokenizer.from_pretrained(whole)


def test_rejects_an_unknown_layout(whole):
    (whole / "tokenizer_config.json").unlink()
    settings = json.loads((whole / "tokenizer.json").read_text())
    settings["model"]["vocab"].insert(0, ["<cls>", 0.0])
    write(whole / "tokenizer.json", settings)
    with pytest.raises(InputError, match="layout of ALBERT or XLM-RoBERTa or CamemBERT"):
        Tokenizer.from_pretrained(whole)


@pytest.mark.parametrize("scheme", ["never", "first"])
def test_prepend_scheme_selects_the_marked_words(tmp_path, scheme):
    """`prepend_scheme` in tokenizer.json; the reference is `tokenizers`."""
    train(tmp_path, "XLM-RoBERTa")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path).backend_tokenizer
    marks = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    theirs.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), marks])
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.from_pretrained(tmp_path)
    assert ours.prepend_scheme == scheme
    texts = [*TEXT.split("\n"), *ODD]
    ids, starts, ends = (ragged.to_list() for ragged in ours.tokenize_with_offsets(texts))
    rows = theirs.encode_batch(texts, add_special_tokens=False)
    assert ids == [row.ids for row in rows]
    assert [list(zip(*pair)) for pair in zip(starts, ends)] == [row.offsets for row in rows]
    ours.save_pretrained(tmp_path / "again")
    assert Tokenizer.from_pretrained(tmp_path / "again").get_config() == ours.get_config()
