"""Byte-level BPE as RoBERTa and ModernBERT have it, as one graph of TensorFlow operations."""

import functools

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.errors import InputError
from keras_bert_impl.tokenizers import bpe_files, nfc
from keras_bert_impl.tokenizers.bpe_files import ROBERTA
from keras_bert_impl.tokenizers.byte_level_words import ByteLevelSplitter
from keras_bert_impl.tokenizers.byte_pairs import BytePairMerger
from keras_bert_impl.tokenizers.tokenizer import Tokenizer, in_graph, per_text


def byte_characters():
    """list of 256 str: the printable character that stands for each byte in vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


@keras.saving.register_keras_serializable("keras_bert_impl")
class ByteLevelBPETokenizer(Tokenizer):
    """The tokenizer of RoBERTa or ModernBERT, equal to `tokenizers`' in ids and offsets, in graph.

    Nothing is unknown: every text is bytes. A special or added token written in the text becomes
    that token.

    Args:
        vocabulary: list of str, the token of each id, bytes written as characters (`Ġthe`).
        merges: list of (left, right) pairs of tokens, best first.
        mask_strips_left: bool. Whether a `<mask>` in the text takes the white space before it
            along. Default True, as RoBERTa's does.
        special_tokens: tuple of str: padding, unknown, start of a row, separator, mask. Two
            segments stand as `<s> A </s></s> B </s>` with RoBERTa's, the default, and as
            `[CLS] A [SEP] B [SEP]` with others.
        added_tokens: list of str, further tokens that are found as they are written.
        normalize: bool. Whether texts are normalized to composed characters (NFC), before tokens
            are looked for. Default False.
        trim_offsets: bool. Whether offsets leave out the space before a piece, as RoBERTa's do and
            ModernBERT's do not. Default True.

    Raises:
        InputError: the vocabulary has a token twice, or lacks a byte, a special token or what a
            merge makes.

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section
    2.2; Liu et al. 2019 (arXiv:1907.11692), section 4.4.
    """

    kind = "byte-level BPE"

    def __init__(
        self,
        vocabulary,
        merges,
        mask_strips_left=True,
        special_tokens=ROBERTA,
        added_tokens=(),
        normalize=False,
        trim_offsets=True,
    ):
        self.vocabulary = list(vocabulary)
        self.merges = [tuple(pair) for pair in merges]
        self.mask_strips_left = bool(mask_strips_left)
        self.special_tokens = tuple(special_tokens)
        self.added_tokens = list(added_tokens)
        self.normalize = bool(normalize)
        self.trim_offsets = bool(trim_offsets)
        is_roberta = self.special_tokens == ROBERTA
        self.num_separators = 2 if is_roberta else 1  # between the two segments
        self.segment_of_second = 0 if is_roberta else 1
        self._ids = {token: number for number, token in enumerate(self.vocabulary)}
        if len(self._ids) < len(self.vocabulary):
            raise InputError("the vocabulary has a token twice.")
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            self._id(token) for token in self.special_tokens
        )
        self._whole_tokens = [*self.special_tokens, *self.added_tokens]
        mask = self.special_tokens[-1]
        self._split = ByteLevelSplitter(
            self._whole_tokens, mask if mask_strips_left else None, self.trim_offsets
        )
        self._merge = BytePairMerger(
            [self._id(character) for character in byte_characters()],
            [(self._id(a), self._id(b), self._id(a + b)) for a, b in self.merges],
        )

    def _id(self, token):
        if token not in self._ids:
            raise InputError(f"the vocabulary lacks {token!r}.")
        return self._ids[token]

    def _is_word_start(self, piece):
        # A space, a line end and a tab, as the vocabulary writes these bytes
        return piece.startswith(("Ġ", "Ċ", "ĉ")) or piece in self._whole_tokens

    def get_config(self):
        """The arguments that it was made with, for `.keras` files."""
        return {
            "vocabulary": self.vocabulary,
            "merges": self.merges,
            "mask_strips_left": self.mask_strips_left,
            "special_tokens": self.special_tokens,
            "added_tokens": self.added_tokens,
            "normalize": self.normalize,
            "trim_offsets": self.trim_offsets,
        }

    def detokenize(self, ids):
        """The text of one sequence of ids.

        Args:
            ids: list or array of int [tokens]. Padding, start and separators are left out.

        Returns:
            str; bytes that are no UTF-8 become U+FFFD.
        """
        pieces = self._without_frame(ids)
        bytes_of = {character: byte for byte, character in enumerate(byte_characters())}
        data = b"".join(
            piece.encode() if piece in self._whole_tokens else bytes(bytes_of[c] for c in piece)
            for piece in pieces
        )
        return data.decode("utf-8", "replace")

    @classmethod
    def from_pretrained(cls, directory):
        """Reads `tokenizer.json`, or `vocab.json` and `merges.txt`, of a directory.

        Args:
            directory: str or `Path`.

        Raises:
            InputError: a file is missing or damaged, or asks for something not supported.
        """
        return cls(**bpe_files.read(directory))

    def save_pretrained(self, directory):
        """Writes vocab.json, merges.txt, tokenizer_config.json and tokenizer.json.

        `transformers.AutoTokenizer` reads them and gives the same ids.

        Args:
            directory: str or `Path`; made if needed. Other files in it stay.
        """
        bpe_files.write(directory, **self.get_config())

    def words(self, texts):
        words = self._words(texts)
        return tf.boolean_mask(words.strings, words.tokens < 0)

    def word_ids(self, words):
        return self._merge(words)[0]

    @functools.cached_property
    def _tokenize(self):
        def tokenize(texts):
            words = self._words(texts)
            return per_text(self._pieces(words)[0], words)

        return in_graph(tokenize)

    @functools.cached_property
    def _with_offsets(self):
        # How many of its first and of its last characters are spaces.
        spaces = byte_characters()[ord(" ")] + " "
        leading = np.array([len(t) - len(t.lstrip(spaces)) for t in self.vocabulary], np.int32)
        trailing = np.array([len(t) - len(t.rstrip(spaces)) for t in self.vocabulary], np.int32)

        def tokenize_with_offsets(texts):
            words = self._words(texts)
            ids, in_word = self._pieces(words)
            starts, ends = words.characters_of(in_word)  # [pieces]
            text_starts = words.text_starts
            if self.normalize:
                origins = nfc.origins(texts)
                ends = tf.gather(origins, ends - 1) + 1
                starts, text_starts = tf.gather(origins, starts), tf.gather(origins, text_starts)
            if self.trim_offsets:
                starts = tf.minimum(starts + tf.gather(leading, ids.values), ends)
                ends = tf.maximum(ends - tf.gather(trailing, ids.values), starts)
            ids = per_text(ids, words)
            before = tf.gather(text_starts, ids.value_rowids())
            return ids, ids.with_values(starts - before), ids.with_values(ends - before)

        return in_graph(tokenize_with_offsets)

    def _words(self, texts):
        return self._split(nfc.normalize(texts) if self.normalize else texts)

    def _pieces(self, words):
        """Ids of each word's pieces and the bytes of the word they begin at, ragged both."""
        unique, number = tf.unique(words.strings)
        ids, starts = self._merge(unique)
        whole = tf.constant([[self._id(token)] for token in self._whole_tokens])
        ids = tf.concat([ids, tf.RaggedTensor.from_tensor(whole)], axis=0)
        nothing = tf.RaggedTensor.from_tensor(tf.zeros_like(whole))
        starts = tf.concat([starts, nothing], axis=0)
        row = tf.where(words.tokens >= 0, tf.size(unique) + words.tokens, number)
        return tf.gather(ids, row), tf.gather(starts, row)
