"""Records for byte-level tokenizers: spaces belong to words, pairs have two separators."""

import numpy as np
import pytest

from keras_bert_impl.pretraining.corpus import blocks, readers
from keras_bert_impl.pretraining.corpus.blocks import WordTokens
from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.pretraining.masking.dataset import pretraining_dataset
from keras_bert_impl.tokenizers import ByteLevelBPETokenizer
from keras_bert_impl.tokenizers.byte_level_bpe.files import ROBERTA
from keras_bert_impl.tokenizers.byte_level_bpe.tokenizer import byte_characters

LENGTH = 24
DOCUMENTS = [["He ran.", "She hid.", "It rained."], ["One.", "Two."], ["Blue sky.", "Sun."]]


@pytest.fixture(scope="module")
def roberta():
    return ByteLevelBPETokenizer([*ROBERTA, *byte_characters(), "ĠS"], [("Ġ", "S")])


def text(tokenizer, ids):
    return "".join(map(tokenizer.id_to_token, ids.tolist())).replace("Ġ", " ")


@pytest.mark.parametrize("ending, between", [("sentences", "\n"), ("paragraphs", " ")])
def test_sentences_have_the_same_tokens_as_their_text(tmp_path, roberta, ending, between):
    """One line per sentence, or one paragraph that contains them all."""
    if ending == "sentences":
        text = "\n\n".join(between.join(document) for document in DOCUMENTS)
        (tmp_path / "corpus.txt").write_text(text + "\n")
        documents = readers.read_documents(tmp_path / "corpus.txt")
    else:
        for number, document in enumerate(DOCUMENTS):
            (tmp_path / f"{number}.txt").write_text(between.join(document))
        documents = readers.read_documents(tmp_path)
    block, _ = blocks.tokenize(list(enumerate(documents)), WordTokens(roberta))
    expected = roberta.tokenize([" ".join(document) for document in DOCUMENTS])
    np.testing.assert_array_equal(block.token_ids, expected.flat_values)
    assert len(block.sentence_starts) - 1 == 7


@pytest.mark.parametrize("objective", ["mlm_nsp", "mlm_sop"])
def test_pairs_are_packed_like_the_tokenizer(tmp_path, roberta, objective):
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join("\n".join(document) for document in DOCUMENTS) + "\n")
    prepare(path, tmp_path / "records", roberta, LENGTH, objective, passes=4, num_workers=1)
    dataset = pretraining_dataset(tmp_path / "records", 8, objectives=["left_to_right"])
    features = {name: value.numpy() for name, value in next(iter(dataset))[0].items()}
    assert not features["segment_ids"].any()  # RoBERTa has one segment
    num_pairs = 0
    for row, numbers in zip(features["token_ids"], features["example_ids"]):
        for number in range(1, numbers.max() + 1):
            ids = row[numbers == number]
            first, second = np.flatnonzero(ids == roberta.sep_id)[:2]
            assert second == first + 1 < len(ids) - 2  # the second segment is not empty
            expected = roberta([(text(roberta, ids[1:first]), text(roberta, ids[second + 1 : -1]))])
            np.testing.assert_array_equal(ids, expected["token_ids"][0, : len(ids)])
            num_pairs += 1
    assert num_pairs >= 8
