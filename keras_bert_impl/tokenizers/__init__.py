"""Tokenizers that run in the TensorFlow graph, and training of a WordPiece vocabulary."""

from keras_bert_impl.tokenizers.byte_level_bpe.tokenizer import ByteLevelBPETokenizer
from keras_bert_impl.tokenizers.inputs import pack_segments
from keras_bert_impl.tokenizers.learning import learn_wordpiece_vocabulary
from keras_bert_impl.tokenizers.moses.tokenizer import MosesBPETokenizer
from keras_bert_impl.tokenizers.sentencepiece.tokenizer import SentencePieceTokenizer
from keras_bert_impl.tokenizers.tokenizer import Tokenizer
from keras_bert_impl.tokenizers.wordpiece.tokenizer import WordPieceTokenizer

__all__ = [
    "ByteLevelBPETokenizer",
    "MosesBPETokenizer",
    "SentencePieceTokenizer",
    "Tokenizer",
    "WordPieceTokenizer",
    "learn_wordpiece_vocabulary",
    "pack_segments",
]
