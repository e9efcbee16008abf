"""BigBird's tokenizer, compared with `transformers` and with SentencePiece's own library."""

import json
import random

import pytest
import sentencepiece
import transformers

from keras_bert_impl.tokenizers import Tokenizer
from tests.tokenizers.sentencepiece_models import ODD, TEXT, train

DRAW = random.Random(0)
ALPHABET = " '\n\t▁astrvmle<>/k12,8.(é日ﬁ½\u00a0\u3000\u200b\u0301"
TEXTS = [TEXT, *TEXT.split("\n"), *ODD]
TEXTS += ["".join(DRAW.choices(ALPHABET, k=DRAW.randint(0, 30))) for _ in range(1000)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A SentencePiece model and a configuration, without tokenizer.json."""
    path = tmp_path_factory.mktemp("model")
    train(path, "BigBird")
    return path


@pytest.fixture(scope="module")
def ours(directory):
    return Tokenizer.from_pretrained(directory)


def test_equals_sentencepiece(directory, ours):
    """Without special tokens in the text, before which SentencePiece keeps a lone `▁`."""
    model = sentencepiece.SentencePieceProcessor(model_file=str(directory / "spiece.model"))
    texts = [text for text in TEXTS if "[" not in text and "<" not in text and "▁" not in text]
    assert len(texts) > 300
    for text, ids in zip(texts, ours.tokenize(texts).to_list()):
        assert ids == model.encode(text), text


def test_transformers_reads_ours(ours, tmp_path):
    ours.save_pretrained(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    parts = (part.to_list() for part in ours.tokenize_with_offsets(TEXTS))
    expected = theirs.backend_tokenizer.encode_batch(TEXTS, add_special_tokens=False)
    for text, ids, starts, ends, encoding in zip(TEXTS, *parts, expected):
        assert ids == encoding.ids, text
        assert list(zip(starts, ends)) == encoding.offsets, text
    pair = theirs("it's a test", "the theirs")
    row = ours((["it's a test"], ["the theirs"]))
    assert row["token_ids"][0].numpy().tolist() == pair["input_ids"]
    assert row["segment_ids"][0].numpy().tolist() == pair["token_type_ids"]
    assert (theirs.bos_token, theirs.eos_token) == ("<s>", "</s>")
    assert Tokenizer.from_pretrained(tmp_path).fingerprint == ours.fingerprint


def test_files_of_transformers(directory, ours, tmp_path):
    """Its class keeps a lone `▁` for spaces at the end of a text and before a mask."""
    theirs = transformers.AutoTokenizer.from_pretrained(directory)
    theirs.save_pretrained(tmp_path)
    again = Tokenizer.from_pretrained(tmp_path)
    assert (again.family, again.vocabulary) == ("BigBird", ours.vocabulary)
    texts = [text.rstrip(" ") for text in TEXTS if "[" not in text and "<" not in text]
    texts = [text for text in texts if "▁" not in text]
    for text, ids in zip(texts, again.tokenize(texts).to_list()):
        assert ids == theirs(text, add_special_tokens=False)["input_ids"], text


def test_family_follows_from_each_file(directory, ours, tmp_path):
    ours.save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    assert Tokenizer.from_pretrained(tmp_path).family == "BigBird"  # from the vocabulary
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "special_tokens_map.json").unlink()
    (tmp_path / "spiece.model").write_bytes((directory / "spiece.model").read_bytes())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "big_bird"}))
    assert Tokenizer.from_pretrained(tmp_path).fingerprint == ours.fingerprint
