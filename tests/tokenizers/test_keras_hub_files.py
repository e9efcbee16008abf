"""Tokenizers of KerasHub presets."""

import json

import pytest

from keras_bert_impl.tokenizers import ByteLevelBPETokenizer, Tokenizer, WordPieceTokenizer
from keras_bert_impl.tokenizers.byte_level_bpe.tokenizer import byte_characters
from keras_bert_impl.tokenizers.keras_hub_files import kind_of, sentencepiece_model
from keras_bert_impl.utils.errors import InputError

keras_hub = pytest.importorskip("keras_hub")

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cafe", "##s", "?", "Cafe"]
TEXTS = ["The cafes?", "cafe the cafe??"]


def write_bert(path, name="BertTokenizer", **settings):
    tokenizer = getattr(keras_hub.models, name)(vocabulary=TOKENS, **settings)
    tokenizer.save_to_preset(str(path))
    return tokenizer


@pytest.mark.parametrize("name", ["BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"])
@pytest.mark.parametrize("lowercase", [True, False])
def test_wordpiece(name, lowercase, tmp_path):
    theirs = write_bert(tmp_path, name, lowercase=lowercase)
    ours = Tokenizer.from_pretrained(tmp_path)
    assert type(ours) is WordPieceTokenizer
    assert (ours.lowercase, ours.vocabulary) == (lowercase, TOKENS)
    ids = [list(row) for row in theirs(TEXTS)]
    assert ours.tokenize(TEXTS).to_list() == ids
    assert ids[0] == ([5, 6, 7, 8] if lowercase else [1, 6, 7, 8])


def test_accents_are_stripped_as_in_training(tmp_path):
    theirs = write_bert(tmp_path, lowercase=True)
    ours = Tokenizer.from_pretrained(tmp_path)
    assert list(theirs(["Cafés"])[0]) == [1]
    assert ours.tokenize(["Cafés"]).to_list() == [[6, 7]]


def test_byte_pairs(tmp_path):
    characters = byte_characters()
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *characters, "th", "the", "Ġthe"]
    merges = ["t h", "th e", "Ġ the"]
    theirs = keras_hub.models.RobertaTokenizer(
        vocabulary={token: number for number, token in enumerate(vocabulary)}, merges=merges
    )
    theirs.save_to_preset(str(tmp_path))
    ours = Tokenizer.from_pretrained(tmp_path)
    assert type(ours) is ByteLevelBPETokenizer
    texts = ["the the, they", "naïve <mask> cafés!"]
    ids = [list(row) for row in theirs(["the the, they"])]
    assert ours.tokenize(texts[:1]).to_list() == ids
    assert ids[0][:2] == [vocabulary.index("the"), vocabulary.index("Ġthe")]
    ours.save_pretrained(tmp_path / "ours")
    again = Tokenizer.from_pretrained(tmp_path / "ours")
    assert again.tokenize(texts).to_list() == ours.tokenize(texts).to_list()


def edit(path, inner=None, **changes):
    settings = json.loads((path / "tokenizer.json").read_text()) | changes
    if inner:
        settings["config"] |= inner
    (path / "tokenizer.json").write_text(json.dumps(settings))


def test_reads_presets_of_keras_nlp(tmp_path):
    write_bert(tmp_path)
    edit(tmp_path, registered_name="keras_nlp>BertTokenizer")
    assert Tokenizer.from_pretrained(tmp_path).vocabulary == TOKENS


def test_sentencepiece_is_found(tmp_path):
    write_bert(tmp_path)
    edit(tmp_path, registered_name="keras_hub>AlbertTokenizer")
    assert kind_of(tmp_path / "tokenizer.json") == "SentencePiece"
    assert sentencepiece_model(tmp_path) == tmp_path / "assets" / "tokenizer" / "vocabulary.spm"


@pytest.mark.parametrize(
    ("inner", "changes", "message"),
    [
        ({}, {"registered_name": "keras_hub>GemmaTokenizer"}, "'keras_hub>GemmaTokenizer' is not"),
        ({}, {"registered_name": "Lambda"}, "registered_name 'Lambda' is not supported"),
        ({}, {"registered_name": ["x"]}, "is not supported. Supported are BertTokenizer"),
        ({}, {"config": None}, "tokenizer.json has no config"),
        ({"split": False}, {}, "split=False is not supported, only True"),
        ({"suffix_indicator": "@@"}, {}, "suffix_indicator='@@' is not supported"),
        ({"lowercase": "yes"}, {}, "lowercase='yes' is not supported"),
        ({"strip_accents": 1}, {}, "strip_accents=1 is not supported"),
    ],
)
def test_rejects_unsupported_presets(tmp_path, inner, changes, message):
    write_bert(tmp_path)
    edit(tmp_path, inner, **changes)
    with pytest.raises(InputError, match=message) as caught:
        Tokenizer.from_pretrained(tmp_path)
    assert str(tmp_path / "tokenizer.json") in str(caught.value)


def test_rejects_a_missing_vocabulary(tmp_path):
    write_bert(tmp_path)
    (tmp_path / "assets" / "tokenizer" / "vocabulary.txt").unlink()
    with pytest.raises(InputError, match="cannot read .*vocabulary.txt"):
        Tokenizer.from_pretrained(tmp_path)
