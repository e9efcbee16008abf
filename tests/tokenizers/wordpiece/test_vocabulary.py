import hashlib
import random
import subprocess
import sys
from pathlib import Path

import pytest

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tokenizers import WordPieceTokenizer, learn_wordpiece_vocabulary

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
from test_vocabulary import corpus
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
    with pytest.raises(InputError, match="corpus is empty"):
        learn_wordpiece_vocabulary(texts)


def test_rejects_a_size_too_small_for_the_characters():
    with pytest.raises(InputError, match="vocabulary_size=10 is too small.* need 15"):
        learn_wordpiece_vocabulary(["abcde abcde eabcd"], vocabulary_size=10)
