"""Word boundaries according to the markers of each kind of vocabulary."""

from keras_bert_impl.tokenizers import (
    ByteLevelBPETokenizer,
    MosesBPETokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
)
from keras_bert_impl.tokenizers.byte_level_bpe.files import ROBERTA
from keras_bert_impl.tokenizers.byte_level_bpe.tokenizer import byte_characters
from keras_bert_impl.tokenizers.moses.characters import SPECIAL_TOKENS


def starts(tokenizer, text):
    """Returns (token, whether it begins a word) for each token of a text."""
    ids = tokenizer.tokenize([text]).to_tensor()
    flags = tokenizer.word_starts(ids).numpy()[0]
    return [(tokenizer.vocabulary[i], bool(flag)) for i, flag in zip(ids.numpy()[0], flags)]


def test_wordpiece():
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = WordPieceTokenizer([*special, "play", "##ing", ",", "on"])
    expected = [("play", True), ("##ing", False), (",", True), ("on", True), ("[UNK]", True)]
    assert starts(tokenizer, "playing, on x") == expected


def test_byte_level_bpe():
    tokenizer = ByteLevelBPETokenizer([*ROBERTA, *byte_characters(), "Ġa"], [("Ġ", "a")])
    assert starts(tokenizer, "b ab c")[1:] == [
        ("Ġa", True),
        ("b", False),
        ("Ġ", True),
        ("c", False),
    ]


def test_sentencepiece():
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "▁a", "b", "<mask>"]
    tokenizer = SentencePieceTokenizer("XLM-RoBERTa", vocabulary, [0, 0, 0, 0, -2, -3, 0])
    assert starts(tokenizer, "ab a") == [("▁a", True), ("b", False), ("▁a", True)]


def test_moses_tokens_mark_the_end_of_a_word():
    tokenizer = MosesBPETokenizer([*SPECIAL_TOKENS, "a", "b</w>", "c</w>"], [])
    tokens = starts(tokenizer, "ab c ab")
    # Ignores the first token after a special token, for which the result is unspecified.
    assert tokens[1:] == [("b</w>", False), ("c</w>", True), ("a", True), ("b</w>", False)]
