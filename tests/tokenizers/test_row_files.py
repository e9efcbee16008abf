"""Rows follow the files as in `transformers`: post-processor, `model_input_names`, and limits."""

import json

import numpy as np
import pytest
import tokenizers
import transformers
from tokenizers import models, normalizers, pre_tokenizers, processors

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.tokenizers import (
    ByteLevelBPETokenizer,
    SentencePieceTokenizer,
    Tokenizer,
    WordPieceTokenizer,
)
from keras_bert_impl.utils.errors import InputError
from tests.tokenizers.kinds import BERT, edit, learn_bytes

VOCABULARY = [*BERT, "a", "b", "c"]
WITH_SEGMENTS = ["input_ids", "token_type_ids", "attention_mask"]
WITHOUT_SEGMENTS = ["input_ids", "attention_mask"]
GENERIC = "TokenizersBackend"
PAIR = "[CLS] $A [SEP] $B:1 [SEP]:1"


def wordpiece(path, pair=PAIR, single="[CLS] $A [SEP]", **config):
    """Writes a generic tokenizer with a post-processor, if `pair` is not None."""
    whole = tokenizers.Tokenizer(models.WordPiece(dict(zip(VOCABULARY, range(8)))))
    whole.normalizer = normalizers.BertNormalizer()
    whole.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if pair is not None:
        whole.post_processor = processors.TemplateProcessing(
            single=single, pair=pair, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    save(path, whole, BERT, tokenizer_class="PreTrainedTokenizerFast", **config)


def byte_level(path, pair="<s> $A </s> $B </s>", normalizer=None, **config):
    learn_bytes(path)
    files = (str(path / name) for name in ("vocab.json", "merges.txt"))
    whole = tokenizers.Tokenizer(models.BPE.from_file(*files))
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    whole.normalizer = normalizer
    whole.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair=pair, special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    special = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    save(path, whole, special, tokenizer_class="PreTrainedTokenizerFast", **config)


def save(path, whole, special, **config):
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    whole.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps(config | dict(zip(names, special))))


def assert_rows_equal_transformers(ours, path):
    theirs = transformers.AutoTokenizer.from_pretrained(path)
    pairs = [("a b", "c"), ("b", "a a b")]
    features = ours(pairs)
    expected = theirs(*map(list, zip(*pairs)), padding=True)
    np.testing.assert_array_equal(features["token_ids"], expected["input_ids"])
    segments = expected.get("token_type_ids", np.zeros_like(features["segment_ids"]))
    np.testing.assert_array_equal(features["segment_ids"], segments)
    np.testing.assert_array_equal(ours(["a b"])["token_ids"][0], theirs("a b")["input_ids"])


@pytest.mark.parametrize("names", [WITH_SEGMENTS, WITHOUT_SEGMENTS])
@pytest.mark.parametrize("pair", ["<s> $A </s> $B </s>", "<s> $A </s> </s> $B:1 </s>:1"])
def test_byte_level_rows_follow_the_post_processor(tmp_path, pair, names):
    byte_level(tmp_path, pair, model_input_names=names)
    ours = Tokenizer.from_pretrained(tmp_path)
    assert ours.num_separators == pair.count("</s> ")
    assert_rows_equal_transformers(ours, tmp_path)
    ours.save_pretrained(tmp_path / "saved")
    again = Tokenizer.from_pretrained(tmp_path / "saved")
    assert again.packing == ours.packing and again.fingerprint == ours.fingerprint
    assert_rows_equal_transformers(ours, tmp_path / "saved")
    assert ours.add_tokens(["[E]"]).packing == ours.packing


def test_an_unusual_number_of_separators_changes_the_fingerprint(tmp_path):
    byte_level(tmp_path)
    single = Tokenizer.from_pretrained(tmp_path)
    settings = single.get_config()
    double = ByteLevelBPETokenizer(**settings | {"num_separators": 2})
    del settings["num_separators"]
    assert ByteLevelBPETokenizer(**settings).fingerprint == double.fingerprint != single.fingerprint
    with pytest.raises(InputError, match="num_separators must be"):
        ByteLevelBPETokenizer(**settings | {"num_separators": 3})


@pytest.mark.parametrize(
    "pair, single",
    [
        ("[CLS] $A [SEP] $B", "[CLS] $A"),
        ("[CLS] $A [SEP] [SEP] $B:1 [SEP]:1", "[CLS] $A [SEP]"),
        ("[SEP] $A [CLS] $B:1 [CLS]:1", "[SEP] $A [CLS]"),
        ("[CLS] $A [SEP]:1 $B:1 [SEP]:1", "[CLS] $A [SEP]"),
    ],
)
def test_rejects_other_rows(tmp_path, pair, single):
    wordpiece(tmp_path, pair, single, model_input_names=WITH_SEGMENTS)
    with pytest.raises(
        InputError, match=r"tokenizer\.json: the templates in post_processor.*are \[CLS"
    ):
        Tokenizer.from_pretrained(tmp_path)
    # A class of its own builds rows in its own way.
    edit("tokenizer_config.json", lambda config: config.update(tokenizer_class="BertTokenizer"))(
        tmp_path
    )
    assert_rows_equal_transformers(Tokenizer.from_pretrained(tmp_path), tmp_path)


def test_rejects_a_damaged_post_processor(tmp_path):
    wordpiece(tmp_path)
    edit("tokenizer.json", lambda whole: whole.update(post_processor={"type": "Odd"}))(tmp_path)
    with pytest.raises(InputError, match="post_processor is damaged or unknown"):
        Tokenizer.from_pretrained(tmp_path)


def test_warns_if_transformers_adds_no_special_tokens(tmp_path):
    wordpiece(tmp_path, None)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs("a", "b")["input_ids"] == [5, 6]
    with pytest.warns(UserWarning, match="post_processor adds no special tokens") as caught:
        ours = Tokenizer.from_pretrained(tmp_path)
    assert len(caught) == 1
    assert ours([("a", "b")])["token_ids"][0].numpy().tolist() == [2, 5, 3, 6, 3]
    assert ours.segment_of_second == 1


@pytest.mark.parametrize("names", [None, WITH_SEGMENTS, WITHOUT_SEGMENTS])
@pytest.mark.parametrize(
    "kind", ["BertTokenizer", "DistilBertTokenizerFast", "ElectraTokenizer", "TokenizersBackend"]
)
def test_segments_follow_model_input_names(tmp_path, caplog, kind, names):
    config = {} if names is None else {"model_input_names": names}
    wordpiece(tmp_path, **config)
    edit("tokenizer_config.json", lambda config: config.update(tokenizer_class=kind))(tmp_path)
    ours = Tokenizer.from_pretrained(tmp_path)
    assert_rows_equal_transformers(ours, tmp_path)
    assert ("has no model_input_names" in caplog.text) == (kind == GENERIC and names is None)
    ours.save_pretrained(tmp_path / "saved")
    assert Tokenizer.from_pretrained(tmp_path / "saved").packing == ours.packing
    assert_rows_equal_transformers(ours, tmp_path / "saved")


def test_a_tokenizer_json_alone_keeps_its_segments(tmp_path, caplog):
    wordpiece(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    assert Tokenizer.from_pretrained(tmp_path).segment_of_second == 1
    assert not caplog.text


def test_segment_ids_that_no_model_gets_are_not_checked(tmp_path):
    wordpiece(tmp_path, "[CLS] $A [SEP]:1 $B:1 [SEP]:1", model_input_names=WITHOUT_SEGMENTS)
    assert_rows_equal_transformers(Tokenizer.from_pretrained(tmp_path), tmp_path)


def test_rejects_damaged_input_names(tmp_path):
    wordpiece(tmp_path, model_input_names="input_ids")
    with pytest.raises(InputError, match="model_input_names must be a list"):
        Tokenizer.from_pretrained(tmp_path)


def test_a_normalizer_that_a_class_ignores_is_saved_with_a_generic_class(tmp_path):
    byte_level(tmp_path, "<s> $A </s> </s> $B </s>", normalizers.NFC())
    ours = Tokenizer.from_pretrained(tmp_path)
    ours.save_pretrained(tmp_path / "saved")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    text = "e\u0301 A\u030a"
    assert ours([text])["token_ids"][0].numpy().tolist() == theirs(text)["input_ids"]
    assert_rows_equal_transformers(ours, tmp_path / "saved")
    assert not (tmp_path / "saved" / "vocab.json").exists()  # which knows no normalizer


@pytest.mark.parametrize(
    "family, scheme, segment",
    [
        ("XLM-RoBERTa", "first", None),
        ("XLM-RoBERTa", "never", None),
        ("XLM-RoBERTa", "always", 1),
        ("ALBERT", "first", None),
        ("ALBERT", "never", 0),
    ],
)
def test_sentencepiece_settings_are_saved_for_transformers(tmp_path, family, scheme, segment):
    first = ["<s>", "<pad>", "</s>", "<unk>"]
    if family == "ALBERT":
        first = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*first, "▁", "▁a", "a", "b", "▁b", "c", "<mask>"]
    scores = [0.0] * len(first) + [-9, -2, -3, -4, -2.5, -5, 0]
    ours = SentencePieceTokenizer(
        family, vocabulary, scores, prepend_scheme=scheme, segment_of_second=segment
    )
    ours.save_pretrained(tmp_path)
    assert_rows_equal_transformers(ours, tmp_path)
    again = Tokenizer.from_pretrained(tmp_path)
    assert again.fingerprint == ours.fingerprint and again.packing == ours.packing


def test_warns_of_sentencepiece_settings_that_a_class_ignores(tmp_path, caplog):
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "▁a", "a", "<mask>"]
    ours = SentencePieceTokenizer("XLM-RoBERTa", vocabulary, [0.0] * 7, prepend_scheme="first")
    ours.save_pretrained(tmp_path)
    Tokenizer.from_pretrained(tmp_path)
    assert not caplog.text
    kind = {"tokenizer_class": "XLMRobertaTokenizer"}
    edit("tokenizer_config.json", lambda config: config.update(kind))(tmp_path)
    assert Tokenizer.from_pretrained(tmp_path).prepend_scheme == "first"
    assert "prepend_scheme=first of tokenizer.json is used. XLMRobertaTokenizer" in caplog.text


@pytest.mark.parametrize("part", ["normalizer", "add_prefix_space"])
def test_warns_of_byte_level_settings_that_a_class_ignores(tmp_path, caplog, part):
    byte_level(tmp_path, normalizer=normalizers.NFC() if part == "normalizer" else None)
    if part == "add_prefix_space":
        prefix = {"add_prefix_space": True}
        edit("tokenizer.json", lambda whole: whole["pre_tokenizer"].update(prefix))(tmp_path)
    Tokenizer.from_pretrained(tmp_path)
    assert not caplog.text
    kind = {"tokenizer_class": "RobertaTokenizer"}
    edit("tokenizer_config.json", lambda config: config.update(kind))(tmp_path)
    Tokenizer.from_pretrained(tmp_path)
    messages = {
        "normalizer": "not by RobertaTokenizer of transformers",
        "add_prefix_space": "has no add_prefix_space: add_prefix_space=True of tokenizer.json",
    }
    assert messages[part] in caplog.text and len(caplog.records) == 1


def test_files_beside_a_model_have_its_limits(tmp_path):
    ours = WordPieceTokenizer(VOCABULARY)
    sizes = dict(vocabulary_size=8, hidden_dim=4, num_layers=1, num_heads=1, intermediate_dim=4)
    ours.save_pretrained(tmp_path, EncoderConfig(**sizes, max_length=7))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs.model_max_length == 7 and theirs.model_input_names == WITH_SEGMENTS
    row = ours(["a " * 9], length=7)["token_ids"][0].numpy().tolist()
    assert theirs("a " * 9, truncation=True)["input_ids"] == row
    ours.save_pretrained(tmp_path, EncoderConfig(**sizes, max_length=7, num_segments=1))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs.model_input_names == WITHOUT_SEGMENTS
    ours.save_pretrained(tmp_path)
    assert "model_max_length" not in json.loads((tmp_path / "tokenizer_config.json").read_text())


def test_copies_keep_the_segment():
    ours = WordPieceTokenizer(VOCABULARY, segment_of_second=0)
    assert ours.fingerprint == WordPieceTokenizer(VOCABULARY).fingerprint
    single = WordPieceTokenizer(VOCABULARY).with_one_segment()
    for copy in (ours, single, single.add_tokens(["x"]), WordPieceTokenizer(**single.get_config())):
        assert copy.segment_of_second == 0
    with pytest.raises(InputError, match="segment_of_second must be"):
        WordPieceTokenizer(VOCABULARY, segment_of_second=2)


def test_a_template_of_one_text_alone_is_read_with_a_warning(tmp_path, caplog):
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"])
    tokenizer.save_pretrained(tmp_path)
    whole = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    whole.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    whole.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "unk_token": "[UNK]",'
        ' "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}'
    )
    again = Tokenizer.from_pretrained(tmp_path)
    assert "post_processor has no template for pairs of texts" in caplog.text
    assert again(["a b"])["token_ids"].numpy().tolist() == [[2, 5, 6, 3]]
