"""A small vocabulary and the reference tokenizer for it."""

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def small_vocabulary():
    """Special tokens, words, and single characters of many kinds, first and inside of a word."""
    ranges = [(0x21, 0x7F), (0xA1, 0x180), (0x300, 0x310), (0x391, 0x3CA), (0x410, 0x450)]
    ranges += [(0x5D0, 0x5EB), (0x93E, 0x940), (0x1100, 0x1113), (0x1161, 0x1176), (0x11A8, 0x11C3)]
    ranges += [(0x302E, 0x3030), (0x4E2D, 0x4E2E), (0x1D157, 0x1D166), (0x10400, 0x10450)]
    characters = [chr(code) for start, end in ranges for code in range(start, end)]
    words = ["want", "##want", "##ed", "wa", "un", "runn", "##ing", "hello", "the", "##ab"]
    # A run of special tokens' first characters and an empty entry must not confuse anything.
    return [*SPECIAL_TOKENS, "", *words, *characters, *(f"##{c}" for c in characters)]


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
    """What `tokenizers` makes of the same vocabulary."""
    ids = {token: position for position, token in enumerate(vocabulary)}
    whole = tokenizers.Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    whole.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    whole.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    whole.add_special_tokens(SPECIAL_TOKENS)
    return whole


@pytest.fixture(scope="session")
def assert_equal(tokenizer, reference):
    """Checks ids and offsets of texts against the reference."""

    def check(texts):
        ids, starts, ends = (ragged.to_list() for ragged in tokenizer.tokenize_with_offsets(texts))
        assert tokenizer.tokenize(texts).to_list() == ids
        for text, *ours, theirs in zip(
            texts, ids, starts, ends, reference.encode_batch(texts, add_special_tokens=False)
        ):
            assert ours[0] == theirs.ids, text
            assert list(zip(*ours[1:])) == theirs.offsets, text

    return check
