"""New tokens for every kind of vocabulary; `transformers` tokenizes texts the same way."""

import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf
import tokenizers
import transformers
from tokenizers import models, pre_tokenizers, trainers

from keras_bert_impl.tokenizers import (
    ByteLevelBPETokenizer,
    Tokenizer,
    WordPieceTokenizer,
    learn_wordpiece_vocabulary,
    learning,
)
from keras_bert_impl.tokenizers.byte_level_bpe.files import ROBERTA
from keras_bert_impl.tokenizers.learning import further_merges, learn_tokens
from keras_bert_impl.utils.errors import InputError
from tests.tokenizers.kinds import ENGLISH, KINDS, texts

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def corpus():
    """Words of random syllables: many pairs are equally frequent, so there are ties."""
    draw = random.Random(0)
    syllables = ["ba", "ko", "li", "mu", "né", "st", "ra", "TE", "zu", "中"]
    for _ in range(2000):
        yield " ".join("".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(8))


def test_learns_a_small_vocabulary():
    """h-u is the most frequent pair, then hu-g (5 of "hug" and 3 of "hugs"), then p-u."""
    texts = ["hug " * 5, "hugs " * 3, "pun " * 4, "pug"]
    vocabulary = learn_wordpiece_vocabulary(texts, vocabulary_size=16)
    assert vocabulary == [
        *SPECIAL, "g", "h", "n", "p", "s", "u", "##g", "##n", "##s", "##u", "##ug"
    ]  # fmt: skip


def test_size_and_order():
    vocabulary = learn_wordpiece_vocabulary(corpus(), vocabulary_size=200)
    assert vocabulary[:5] == SPECIAL
    assert len(vocabulary) == len(set(vocabulary)) == 200
    assert "".join(vocabulary[5:]).islower() and "é" not in "".join(vocabulary)


def test_cased_keeps_case_and_accents():
    vocabulary = learn_wordpiece_vocabulary(corpus(), vocabulary_size=200, lowercase=False)
    assert {"T", "##é"} <= set(vocabulary)


def test_splits_its_training_texts_without_unknown_tokens():
    vocabulary = learn_wordpiece_vocabulary(corpus(), vocabulary_size=200)
    tokenizer = WordPieceTokenizer(vocabulary)
    ids = tokenizer.tokenize(list(corpus())).flat_values.numpy()
    assert tokenizer.unk_id not in ids
    characters = sum(len(text.replace(" ", "")) for text in corpus())
    assert len(ids) < characters / 2  # over two characters on average


def test_min_frequency():
    texts = ["aaaa bbbb bbbb"]
    assert "##bb" in learn_wordpiece_vocabulary(texts, min_frequency=2)
    assert "bbbb" not in learn_wordpiece_vocabulary(texts, min_frequency=7)


def test_special_tokens_and_very_long_words_in_the_texts_are_not_learned():
    texts = ["[MASK] abc " * 3, "x" * 101]
    vocabulary = learn_wordpiece_vocabulary(texts)
    assert vocabulary[:5] == SPECIAL
    assert set("".join(vocabulary[5:])) == set("#abc")


SCRIPT = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from test_learning import corpus
from keras_bert_impl.tokenizers import learn_wordpiece_vocabulary
print(hashlib.sha256("\\n".join(learn_wordpiece_vocabulary(corpus(), 300)).encode()).hexdigest())
"""


@pytest.mark.slow
def test_another_process_learns_the_same_list():
    """The order in the trainer's hash tables differs between processes."""
    command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parent)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    here = "\n".join(learn_wordpiece_vocabulary(corpus(), 300))
    assert process.stdout.strip() == hashlib.sha256(here.encode()).hexdigest()


@pytest.mark.parametrize("texts", [[], [""], [" \n", "\u200b"], ["[MASK]"]])
def test_rejects_an_empty_corpus(texts):
    with pytest.raises(InputError, match="the texts contain no words"):
        learn_wordpiece_vocabulary(texts)


def test_rejects_a_size_too_small_for_the_characters():
    with pytest.raises(InputError, match="vocabulary_size=10 is too small.* need 15"):
        learn_wordpiece_vocabulary(["abcde abcde eabcd"], vocabulary_size=10)


# Words that the small vocabularies split, and special tokens of each, which are not words.
DOMAIN = ["wanthe wanthe, runnab! <mask> [MASK] <special1>", "Wanthe runnab (wanthe) runnab"] * 3
DOMAIN += ["hélas détente l'homme détente, détente; hélas"] * 3
# Covered by the other kinds; what these add has separate tests.
SLOW = ("CamemBERT", "uncased FlauBERT", "uncased WordPiece", "ALBERT", "ModernBERT")
SOME_SLOW = [pytest.param(kind, marks=[pytest.mark.slow] if kind in SLOW else []) for kind in KINDS]


@pytest.fixture(scope="module", params=SOME_SLOW)
def base(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("theirs")
    KINDS[request.param](tmp_path_factory.mktemp("made")).save_pretrained(path)
    return Tokenizer.from_pretrained(path)


def test_every_kind_learns_tokens_that_transformers_splits_alike(base, tmp_path):
    larger, pieces, _ = learn_tokens(base, DOMAIN, 12, min_frequency=3)
    assert 0 < len(pieces) <= 12
    assert larger.vocabulary == [*base.vocabulary, *pieces]
    before, after = (kind.tokenize(DOMAIN).to_list() for kind in (base, larger))
    assert sum(map(len, after)) < sum(map(len, before))
    old_ids = [[number] for number in range(base.vocabulary_size)] + list(pieces.values())
    for old, new in zip(before, after):
        # Each new token replaces its old subwords.
        assert [part for number in new for part in old_ids[number]] == old
    larger.save_pretrained(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    some = [*DOMAIN, *texts()]
    expected = [theirs(text, add_special_tokens=False)["input_ids"] for text in some]
    assert larger.tokenize(some).to_list() == expected
    assert Tokenizer.from_pretrained(tmp_path).get_config() == larger.get_config()


def test_learning_after_adding_tokens_keeps_them(base, tmp_path):
    small = base.add_tokens(["[E1]", {"content": "run", "single_word": True}])
    larger, pieces, _ = learn_tokens(small, DOMAIN, 3, min_frequency=3)
    assert larger.vocabulary == [*small.vocabulary, *pieces] and len(pieces) == 3
    assert larger.added_tokens == small.added_tokens
    larger.save_pretrained(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    some = ["[E1] run wanthe", "x[E1] runs run", *DOMAIN]
    expected = [theirs(text, add_special_tokens=False)["input_ids"] for text in some]
    assert larger.tokenize(some).to_list() == expected
    assert {larger.token_to_id("[E1]"), larger.token_to_id("run")} < {*expected[0]}


def test_further_merges_equal_those_of_one_training():
    whole = tokenizers.Tokenizer(models.BPE())
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        special_tokens=list(ROBERTA),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    lines = ENGLISH.split("\n")
    whole.train_from_iterator(lines, trainer)
    model = json.loads(whole.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    vocabulary = sorted(model["vocab"], key=model["vocab"].get)
    assert len(merges) > 60
    base = ByteLevelBPETokenizer(vocabulary[: 20 - len(merges)], merges[:20])
    larger, *_ = learn_tokens(base, lines, len(merges) - 20, min_frequency=1)
    assert larger.merges == merges and larger.vocabulary == vocabulary


def test_does_not_merge_a_token_that_other_merges_make():
    vocabulary = ["a", "b", "c", "ab", "abc"]
    merges = [("a", "b"), ("ab", "c")]
    words = [("", [0, 1, 2], 9), ("", [2, 0, 2, 0, 2], 2)]  # a b c, c a c a c
    pieces, new_merges = further_merges(words, vocabulary, merges, 5, min_frequency=2)
    # "a b" exists. "b c" occurs 9 times, "a c" and "c a" 4 times each; ties go to the lower ids.
    assert new_merges == [("b", "c"), ("a", "c"), ("c", "ac"), ("cac", "ac")]
    assert pieces == {"bc": [1, 2], "ac": [0, 2], "cac": [2, 0, 2], "cacac": [2, 0, 2, 0, 2]}


def test_words_that_save_the_most_tokens_come_first():
    base = WordPieceTokenizer(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc", "##a", "##b", "##c", "cab"]
    )
    lines = ["abc abc ab ab ab ca ca cab cab cab cab x1 [MASK]", "aa aa"]
    _, pieces, _ = learn_tokens(base, lines, 3, min_frequency=2)
    # Savings: 2 * 2 subwords, 3 * 1, then 2 * 1, where ties go to the first in the alphabet.
    assert pieces == {"abc": [5, 9, 10], "ab": [5, 9], "aa": [5, 8]}
    assert learn_tokens(base, [], 3)[1:] == ({}, [])


def test_a_long_text_is_counted_in_pieces(monkeypatch):
    def pieces(text):
        return list(learning._split_text(text))

    text = "one two three " * 200
    assert pieces(text) == [text] and pieces("") == [""]
    monkeypatch.setattr(learning, "_CHARACTERS_AT_ONCE", 100)
    assert "".join(pieces(text)) == text and max(map(len, pieces(text))) <= 100
    assert pieces("x" * 250) == ["x" * 100, "x" * 100, "x" * 50]
    counts = learning.count_words([text], lambda batch: tf.strings.split(batch).values)
    assert counts == {"one": 200, "two": 200, "three": 200}
