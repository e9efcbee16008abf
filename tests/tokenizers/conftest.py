"""A small vocabulary and the reference tokenizer for it."""

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from tests.tokenizers.kinds import BERT, small_vocabulary


@pytest.fixture(scope="session")
def vocabulary():
    return small_vocabulary()


@pytest.fixture(scope="session", params=[True, False], ids=["uncased", "cased"])
def lowercase(request):
    return request.param


@pytest.fixture(scope="session")
def tokenizer(vocabulary, lowercase):
    from keras_bert_impl.tokenizers import WordPieceTokenizer

    return WordPieceTokenizer(vocabulary, lowercase)


@pytest.fixture(scope="session")
def reference(vocabulary, lowercase):
    """The `tokenizers` tokenizer with the same vocabulary."""
    ids = {token: position for position, token in enumerate(vocabulary)}
    whole = tokenizers.Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    whole.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    whole.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    whole.add_special_tokens(BERT)
    return whole


@pytest.fixture(scope="session")
def assert_equal(tokenizer, reference):
    """Compares ids and offsets of texts with the reference."""

    def check(texts):
        ids, starts, ends = (ragged.to_list() for ragged in tokenizer.tokenize_with_offsets(texts))
        assert tokenizer.tokenize(texts).to_list() == ids
        for text, *ours, theirs in zip(
            texts, ids, starts, ends, reference.encode_batch(texts, add_special_tokens=False)
        ):
            assert ours[0] == theirs.ids, text
            assert list(zip(*ours[1:])) == theirs.offsets, text

    return check
