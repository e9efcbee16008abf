"""Tokenizers that run inside the graph, and learning a vocabulary for them."""

from keras_bert_impl.tokenizers.byte_level_bpe import ByteLevelBPETokenizer
from keras_bert_impl.tokenizers.moses import MosesBPETokenizer
from keras_bert_impl.tokenizers.packing import pack_segments
from keras_bert_impl.tokenizers.sentencepiece import SentencePieceTokenizer
from keras_bert_impl.tokenizers.tokenizer import Tokenizer
from keras_bert_impl.tokenizers.vocabulary import learn_wordpiece_vocabulary
from keras_bert_impl.tokenizers.wordpiece import WordPieceTokenizer

__all__ = [
    "ByteLevelBPETokenizer",
    "MosesBPETokenizer",
    "SentencePieceTokenizer",
    "Tokenizer",
    "WordPieceTokenizer",
    "learn_wordpiece_vocabulary",
    "pack_segments",
]
