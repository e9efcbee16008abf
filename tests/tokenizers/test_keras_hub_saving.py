"""Tokenizers converted to KerasHub's give the same ids and are read back unchanged."""

import json
import logging

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from keras_bert_impl.tokenizers import SentencePieceTokenizer, Tokenizer, WordPieceTokenizer
from keras_bert_impl.tokenizers.keras_hub_saving import make_model, to_keras_hub, write_notes
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.keras_hub_models import random_backbone
from tests.tokenizers.sentencepiece_models import ODD, TEXT, train

keras_hub = pytest.importorskip("keras_hub")

CASES = {"ALBERT": "albert", "XLM-RoBERTa": "xlm-roberta"}
CLASSES = {"ALBERT": "AlbertTokenizer", "XLM-RoBERTa": "XLMRobertaTokenizer"}
EQUAL_SCORES = next(text for text in ODD if text.startswith("aaaaa"))
MARKS = next(text for text in ODD if text.startswith("ﬁ\u0301"))
TEXTS = [
    *TEXT.split("\n"),
    *("Café NAÏVE ÉTÉ", "``Quoted'' and '''more'''", "ＦＵＬＬ ½ ﬁ Ǆ"),
    "12, 2, 1,000, 2,666, (22,)",
]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """Tokenizers of small models, one per family."""
    family_tokenizers = {}
    for family in CASES:
        folder = tmp_path_factory.mktemp("models")
        train(folder, family)
        family_tokenizers[family] = Tokenizer.from_pretrained(folder)
    return family_tokenizers


def ids(theirs, texts):
    return [list(map(int, row)) for row in theirs(texts)]


def write_preset(directory, tokenizer, theirs):
    """Writes a backbone as well: KerasHub's `from_preset` reads its config.json first."""
    random_backbone(CASES[tokenizer.family]).save_to_preset(str(directory))
    theirs.save_to_preset(str(directory))
    write_notes(directory, tokenizer)


@pytest.mark.parametrize("family", CASES)
def test_writes_a_preset_that_keras_hub_reads(family, tokenizers, tmp_path):
    tokenizer = tokenizers[family]
    write_preset(tmp_path, tokenizer, to_keras_hub(tokenizer, CASES[family]))
    theirs = getattr(keras_hub.models, CLASSES[family]).from_preset(str(tmp_path))
    assert theirs.vocabulary_size() == len(tokenizer.vocabulary)
    assert theirs.get_vocabulary() == tokenizer.vocabulary
    assert theirs.mask_token_id == tokenizer.mask_id
    assert (theirs.start_token_id, theirs.end_token_id) == (tokenizer.cls_id, tokenizer.sep_id)
    # U+0085, a line break, is white space in ours; XLM-RoBERTa's character map leaves it.
    texts = TEXTS + ["a\x85b"] if family == "ALBERT" else TEXTS
    assert ids(theirs, texts) == tokenizer.tokenize(texts).to_list()
    again = Tokenizer.from_pretrained(tmp_path)
    assert again.get_config() == tokenizer.get_config()


@pytest.mark.parametrize("family", CASES)
def test_odd_strings(family, tokenizers):
    """Differences are limited to special tokens, multiple combining marks and equal scores."""
    tokenizer = tokenizers[family]
    theirs = ids(to_keras_hub(tokenizer, CASES[family]), ODD)
    ours = tokenizer.tokenize(ODD).to_list()
    exceptions = [text for text in ODD if any(mark in text for mark in "[<＜")]
    exceptions.append({"ALBERT": EQUAL_SCORES, "XLM-RoBERTa": MARKS}[family])
    differ = [text for text, row, their_row in zip(ODD, ours, theirs) if row != their_row]
    assert len(ODD) - len(exceptions) == 14
    assert set(differ) <= set(exceptions)


@pytest.mark.parametrize("family", CASES)
def test_reads_a_preset_of_keras_hub(family, tmp_path):
    proto = train(tmp_path, family).read_bytes()
    theirs = getattr(keras_hub.models, CLASSES[family])(proto=proto)
    theirs.save_to_preset(str(tmp_path / "preset"))
    ours = Tokenizer.from_pretrained(tmp_path / "preset")
    assert ours.get_config() == Tokenizer.from_pretrained(tmp_path).get_config()
    lines = ["it's a test of what", "doesn't they've been i'd say; aaaaaa bbbb the"]
    assert ids(theirs, lines) == ours.tokenize(lines).to_list()


def test_without_the_notes_albert_is_the_same_function(tokenizers, tmp_path):
    """Models the case that KerasHub loads the preset and saves it again."""
    tokenizer = tokenizers["ALBERT"]
    to_keras_hub(tokenizer, "albert").save_to_preset(str(tmp_path))
    again = Tokenizer.from_pretrained(tmp_path)
    assert again.character_map != tokenizer.character_map
    texts = TEXTS + ODD
    assert again.tokenize(texts).to_list() == tokenizer.tokenize(texts).to_list()
    assert again.scores == tokenizer.scores


def test_added_tokens_are_kept_with_a_warning(tokenizers, tmp_path, caplog):
    config = tokenizers["XLM-RoBERTa"].get_config()
    token = config["vocabulary"][7]
    tokenizer = SentencePieceTokenizer(
        **config | {"added_tokens": [token], "mask_strips_left": False}
    )
    with caplog.at_level(logging.WARNING):
        write_preset(tmp_path, tokenizer, to_keras_hub(tokenizer, "xlm-roberta"))
    assert f"treats these tokens as ordinary text: {token}" in caplog.text
    assert Tokenizer.from_pretrained(tmp_path).get_config() == tokenizer.get_config()


def test_scores_in_float64_are_rounded(tokenizers, caplog):
    config = tokenizers["ALBERT"].get_config()
    scores = [*config["scores"][:-2], -1.1, config["scores"][-1]]
    make_model(SentencePieceTokenizer(**config))
    assert caplog.text == ""
    make_model(SentencePieceTokenizer(**config | {"scores": scores}))
    assert "1 scores of the tokenizer are rounded to float32" in caplog.text


def test_the_model_is_one_of_sentencepiece(tokenizers):
    """SentencePiece's library can read the model; the pieces that ALBERT avoids are unused."""
    data = make_model(tokenizers["ALBERT"])
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    last = processor.get_piece_size() - 1
    assert processor.id_to_piece(last) == "2," and processor.is_unused(last)
    assert processor.is_control(tokenizers["ALBERT"].mask_id)
    assert processor.unk_id() == 1
    model = sentencepiece_model_pb2.ModelProto.FromString(data)
    assert model.pieces[last].score == -2.0


def xlm(*vocabulary):
    return SentencePieceTokenizer("XLM-RoBERTa", vocabulary, [0.0] * len(vocabulary))


FIRST = ["<s>", "<pad>", "</s>", "<unk>"]
WORDPIECE = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])


@pytest.mark.parametrize(
    ("tokenizer", "architecture", "message"),
    [
        (WORDPIECE, "roberta", "a WordPieceTokenizer cannot be converted to KerasHub's RobertaTok"),
        (WORDPIECE, "camembert", "cannot be converted to KerasHub's tokenizer of camembert"),
        (xlm(*FIRST, "<mask>"), "albert", "Tokenizer of XLM-RoBERTa cannot be .* AlbertTokenizer"),
        (
            xlm(*FIRST, "<mask>", "x"),
            "xlm-roberta",
            "to <mask>. .* <unk> and ends with x",
        ),
        (
            xlm(*FIRST[::-1], "<mask>"),
            "xlm-roberta",
            "vocabulary begins with <unk> </s> <pad> <s> and",
        ),
        (
            xlm(*FIRST, "", "<mask>"),
            "xlm-roberta",
            "id without a token, which a SentencePiece model cannot have",
        ),
    ],
)
def test_rejects_tokenizers_without_an_equivalent(tokenizer, architecture, message):
    with pytest.raises(InputError, match=message):
        to_keras_hub(tokenizer, architecture)


@pytest.mark.parametrize(
    ("inner", "notes", "message"),
    [
        ({"add_bos": True}, {}, "add_bos=True is not supported"),
        ({}, [], "keras_bert_impl must contain"),
        ({}, {"added_tokens": "x"}, "keras_bert_impl must contain"),
        ({}, {"added_tokens": [["x"]]}, "must be a non-empty string"),
        ({}, {"mask_strips_left": "no"}, "keras_bert_impl must contain"),
        ({}, {"character_map": "%"}, "the character map .* is damaged"),
    ],
)
def test_rejects_damaged_presets(inner, notes, message, tokenizers, tmp_path):
    to_keras_hub(tokenizers["ALBERT"], "albert").save_to_preset(str(tmp_path))
    path = tmp_path / "tokenizer.json"
    settings = json.loads(path.read_text())
    settings["config"] |= inner
    path.write_text(json.dumps(settings | {"keras_bert_impl": notes}))
    with pytest.raises(InputError, match=message):
        Tokenizer.from_pretrained(tmp_path)
