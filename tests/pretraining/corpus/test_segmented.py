"""Segmented Chinese text: the masking units are its words."""

import numpy as np
import pytest
import tensorflow_datasets as tfds
from transformers import BertTokenizer

from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.pretraining.examples.tfds_builder import PretrainingRecords
from keras_bert_impl.pretraining.masking.dataset import pretraining_dataset
from keras_bert_impl.pretraining.masking.masking import Masking
from keras_bert_impl.tokenizers import WordPieceTokenizer
from keras_bert_impl.utils.errors import InputError
from tests.pretraining.corpus.test_preparation import each, read_rows

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*"使用语言模型来预测下一个词的概率北京大学生活动,。", "bert", "##s", "2019"]
LINES = [
    "使用 语言 模型 来 预测 下 一个 词 的 概率 。",
    "2019 年 berts , 北京大学 的 大学生 活动 。",
    "使用\u3000语言模型\t来 预测 。",  # the spaces of other segmenters
]


@pytest.fixture(scope="module")
def chinese():
    return WordPieceTokenizer(SPECIAL + PIECES)


def marked(words, tokens):
    """The tokens as `run_chinese_ref.py` of transformers marks them: `##` inside a word.

    From left to right, the longest sequence of Chinese characters that is a word is marked.
    """
    is_chinese = ["\u4e00" <= token[0] <= "\u9fff" and len(token) == 1 for token in tokens]
    chinese = {word for word in words if len(word) > 1 and all(c >= "\u4e00" for c in word)}
    marks, place = list(tokens), 0
    while place < len(tokens):
        sizes = [len(tokens) - place, max(map(len, chinese), default=0)]
        for size in range(min(sizes), 1, -1):
            run = tokens[place : place + size]
            if all(is_chinese[place : place + size]) and "".join(run) in chinese:
                marks[place + 1 : place + size] = [f"##{token}" for token in run[1:]]
                place += size - 1
                break
        place += 1
    return marks


def prepared(tmp_path, tokenizer, lines, **settings):
    path = tmp_path / "segmented.txt"
    path.write_text("".join(f"{line}\n\n" for line in lines), encoding="utf-8")
    defaults = {"length": 32, "objective": "mlm", "pack": False, "num_workers": 1}
    prepare(path, tmp_path / "records", tokenizer, **defaults | {"segmented": True} | settings)
    return tmp_path / "records"


def test_marks_equal_those_of_transformers_script(tmp_path, chinese):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(chinese.vocabulary), encoding="utf-8")
    theirs = BertTokenizer(str(vocabulary))
    expected = {}
    for line in LINES:
        tokens = theirs.tokenize(line)
        expected[tuple(tokens)] = marked(line.split(), tokens)
    received = {}
    for row in each(read_rows(prepared(tmp_path, chinese, LINES))):
        inside = slice(1, row["example_lengths"][0] - 1)
        tokens = [chinese.vocabulary[token] for token in row["token_ids"][inside]]
        marks = row["inside_word"][inside]
        received[tuple(tokens)] = [f"##{t}" if mark else t for t, mark in zip(tokens, marks)]
    assert received == expected
    marks = [token for line in received.values() for token in line if token.startswith("##")]
    assert len(marks) == 18 and marks.count("##s") == 1


def test_token_ids_are_those_of_the_text_without_spaces(tmp_path, chinese):
    rows = {tuple(row["token_ids"]) for row in each(read_rows(prepared(tmp_path, chinese, LINES)))}
    texts = ["".join(line.split()) for line in (LINES[0], LINES[2])]
    ids = chinese(texts, length=32)["token_ids"]
    assert {tuple(row) for row in np.array(ids).tolist()} < rows


@pytest.mark.parametrize("size", [2, 3])
def test_words_are_masked_whole(tmp_path, chinese, size):
    """Of `L` tokens, `n = round(0.15 L)` are predicted, and with words of `size`, `n - n % size`."""
    words = ["".join(PIECES[place : place + size]) for place in range(0, 23 - size, size)]
    directory = prepared(tmp_path, chinese, [" ".join(words[:k]) for k in range(4, len(words) + 1)])
    for unit in ("token", "word"):
        dataset = pretraining_dataset(directory, batch_size=8, masking=Masking(unit=unit))
        for features, _, weights in dataset.take(4):
            lengths = (features["example_ids"].numpy() > 0).sum(axis=1)
            counts = np.maximum(1, np.round(lengths * 0.15)).astype(int)
            used = weights["masked_lm"].numpy().astype(bool)
            if unit == "token":
                assert used.sum(axis=1).tolist() == counts.tolist()
                continue
            assert used.sum(axis=1).tolist() == (counts - counts % size).tolist()
            for positions, is_used in zip(features["masked_positions"].numpy() - 1, used):
                masked = set(positions[is_used].tolist())
                starts = {place - place % size for place in masked}
                assert masked == {start + k for start in starts for k in range(size)}


def test_tensorflow_datasets_reads_the_words(tmp_path, chinese):
    directory = prepared(tmp_path, chinese, LINES)
    builder = PretrainingRecords(records=directory, data_dir=tmp_path / "tfds")
    builder.download_and_prepare()
    rows = tfds.as_numpy(builder.as_dataset(split="train"))
    assert sum(row["inside_word"].sum() for row in rows) == 17


def test_ids_beyond_two_bytes(tmp_path):
    """Twice the vocabulary size decides about the number of bytes of an id."""
    tokenizer = WordPieceTokenizer([*SPECIAL, *PIECES, *(f"t{i}" for i in range(40_000))])
    directory = prepared(tmp_path, tokenizer, LINES)
    assert records.token_type(records.num_ids(tokenizer.vocabulary_size, True)).itemsize == 4
    assert sum(row["inside_word"].sum() for row in each(read_rows(directory))) == 17


@pytest.mark.parametrize(
    "changed, lines, message",
    [
        ({"split_on_cjk": False}, LINES, "requires a WordPiece tokenizer that splits Chinese"),
        ({"added_tokens": ["[E]"]}, LINES, "has no added tokens"),
        ({}, ["a b", "b a"] * 4, "the text has no words of several Chinese characters"),
        ({}, ["".join(line.split()) for line in LINES[::2]], "the text is not segmented"),
    ],
)
def test_unusable_text_and_tokenizers(tmp_path, changed, lines, message):
    with pytest.raises(InputError, match=message):
        prepared(tmp_path, WordPieceTokenizer(SPECIAL + PIECES, **changed), lines)
    assert not (tmp_path / "records").exists()
