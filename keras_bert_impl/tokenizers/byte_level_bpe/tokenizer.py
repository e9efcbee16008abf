"""Byte-level BPE tokenizer of RoBERTa and ModernBERT, as one graph of TensorFlow operations."""

import functools

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.settings import check
from keras_bert_impl.tokenizers.added_tokens import found_tokens
from keras_bert_impl.tokenizers.byte_level_bpe import files
from keras_bert_impl.tokenizers.byte_level_bpe.byte_pairs import BytePairMerger
from keras_bert_impl.tokenizers.byte_level_bpe.files import ROBERTA
from keras_bert_impl.tokenizers.byte_level_bpe.words import ByteLevelSplitter
from keras_bert_impl.tokenizers.tokenizer import Tokenizer, in_graph, per_text


def byte_characters():
    """Returns the printable characters that represent the 256 bytes in vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


@keras.saving.register_keras_serializable("keras_bert_impl")
class ByteLevelBPETokenizer(Tokenizer):
    """The tokenizer of RoBERTa and ModernBERT in the graph, with `tokenizers`' ids and offsets.

    No text is unknown, since every text consists of bytes. A special or added token written in the
    text becomes that token.

    Args:
        vocabulary: list of str, the token of each id, with bytes written as characters (`Ġthe`).
        merges: list of (left, right) pairs of tokens, best first.
        mask_strips_left: bool. Whether a `<mask>` in the text includes the white space before it.
            Default True, as in RoBERTa.
        special_tokens: tuple of str: padding, unknown, start of a row, separator, mask. Two
            segments become `<s> A </s></s> B </s>` with RoBERTa's, the default, and
            `[CLS] A [SEP] B [SEP]` with others.
        added_tokens: list of str, `AddedToken` or dicts of its fields: further tokens matched
            literally in the text. Those missing from the vocabulary get the next ids. A special
            token listed here changes how it is matched.
        normalize: bool. Whether texts are normalized to composed characters (NFC) before tokens
            are matched. Default False.
        trim_offsets: bool. Whether offsets exclude the space before a token, as in RoBERTa but not
            in ModernBERT. Default True.
        add_prefix_space: bool. Whether the first word of a text, and the first after an added
            token, is treated as if a space preceded it. Default False.

    Raises:
        InputError: If the vocabulary has a token twice, or lacks a byte, a special token or the
            result of a merge.

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section
    2.2; Liu et al. 2019 (arXiv:1907.11692), section 4.4.
    """

    kind = "byte-level BPE"
    files = files
    later_settings = {"add_prefix_space": False}

    def __init__(
        self,
        vocabulary,
        merges,
        mask_strips_left=True,
        special_tokens=ROBERTA,
        added_tokens=(),
        normalize=False,
        trim_offsets=True,
        add_prefix_space=False,
    ):
        self.merges = [tuple(pair) for pair in merges]
        self.mask_strips_left = check("mask_strips_left", mask_strips_left, bool)
        self.special_tokens = tuple(special_tokens)
        self.normalize = check("normalize", normalize, bool)
        self.trim_offsets = check("trim_offsets", trim_offsets, bool)
        self.add_prefix_space = check("add_prefix_space", add_prefix_space, bool)
        is_roberta = self.special_tokens == ROBERTA
        self.num_separators = 2 if is_roberta else 1  # between the two segments
        self.segment_of_second = 0 if is_roberta else 1
        self._set_vocabulary(files.as_vocabulary(vocabulary), added_tokens)
        if len(self._ids_of) < sum(map(bool, self.vocabulary)):
            raise InputError("the vocabulary has a token twice.")
        special = files.special(self.special_tokens, self.mask_strips_left)
        tokens = found_tokens(special, self.added_tokens)
        self._whole_tokens = [token.content for token in tokens]
        self._split = ByteLevelSplitter(
            tokens, len(special), self.normalize, self.trim_offsets, self.add_prefix_space
        )
        self._merge = BytePairMerger(
            [self.token_to_id(character) for character in byte_characters()],
            [
                (self.token_to_id(a), self.token_to_id(b), self.token_to_id(a + b))
                for a, b in self.merges
            ],
        )

    def _is_word_start(self, piece):
        # Space, newline and tab, as the vocabulary writes these bytes.
        return piece.startswith(("Ġ", "Ċ", "ĉ")) or piece in self._whole_tokens

    def get_config(self):
        """Returns the constructor's arguments, for `.keras` files."""
        return {
            "vocabulary": self.vocabulary,
            "merges": self.merges,
            "mask_strips_left": self.mask_strips_left,
            "special_tokens": self.special_tokens,
            "added_tokens": [token.setting for token in self.added_tokens],
            "normalize": self.normalize,
            "trim_offsets": self.trim_offsets,
            "add_prefix_space": self.add_prefix_space,
        }

    def _join(self, pieces):
        bytes_of = {character: byte for byte, character in enumerate(byte_characters())}
        pieces = [self._split.written.get(piece, piece) for piece in pieces]
        # A token with a character that represents no byte, such as a space, is kept as text.
        data = b"".join(
            bytes(map(bytes_of.get, piece)) if bytes_of.keys() >= set(piece) else piece.encode()
            for piece in pieces
        )
        return data.decode("utf-8", "replace")

    def words(self, texts):
        words = self._split(texts)
        return tf.boolean_mask(words.strings, words.tokens < 0)

    def word_ids(self, words):
        return self._merge(words)[0]

    @functools.cached_property
    def _tokenize(self):
        def tokenize(texts):
            words = self._split(texts)
            return per_text(self._pieces(words)[0], words)

        return in_graph(tokenize)

    @functools.cached_property
    def _with_offsets(self):
        # Numbers of leading and trailing spaces per token; added tokens are already trimmed.
        spaces = byte_characters()[ord(" ")] + " "
        whole = set(self._whole_tokens)
        pieces = ["" if token in whole else token for token in self.vocabulary]
        leading = np.array([len(t) - len(t.lstrip(spaces)) for t in pieces], np.int32)
        trailing = np.array([len(t) - len(t.rstrip(spaces)) for t in pieces], np.int32)

        def tokenize_with_offsets(texts):
            words = self._split(texts)
            ids, in_word = self._pieces(words)
            starts, ends = words.characters_of(in_word)  # [tokens]
            ids = per_text(ids, words)
            before = tf.gather(words.text_starts, ids.value_rowids())
            starts, ends = starts - before, ends - before
            if self.trim_offsets:
                spaces = tf.gather(leading, ids.values)
                if self.add_prefix_space:  # as in `tokenizers`: exclude the prefix space
                    spaces -= tf.cast(tf.equal(starts, 0) & (spaces > 0), tf.int32)
                starts = tf.minimum(starts + spaces, ends)
                ends = tf.maximum(ends - tf.gather(trailing, ids.values), starts)
            return ids, ids.with_values(starts), ids.with_values(ends)

        return in_graph(tokenize_with_offsets)

    def _pieces(self, words):
        """Returns the ids of each word's tokens and their byte offsets in the word, both ragged."""
        unique, number = tf.unique(words.strings)
        ids, starts = self._merge(unique)
        whole = tf.constant([[self.token_to_id(token)] for token in self._whole_tokens])
        ids = tf.concat([ids, tf.RaggedTensor.from_tensor(whole)], axis=0)
        nothing = tf.RaggedTensor.from_tensor(tf.zeros_like(whole))
        starts = tf.concat([starts, nothing], axis=0)
        row = tf.where(words.tokens >= 0, tf.size(unique) + words.tokens, number)
        return tf.gather(ids, row), tf.gather(starts, row)
