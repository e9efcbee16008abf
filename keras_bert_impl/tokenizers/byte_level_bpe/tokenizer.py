"""Byte-level BPE tokenizer of RoBERTa and ModernBERT, as one graph of TensorFlow operations."""

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.io.settings import OneOf, check
from keras_bert_impl.tokenizers.added_tokens import found_tokens
from keras_bert_impl.tokenizers.added_tokens import special_tokens as as_special
from keras_bert_impl.tokenizers.byte_level_bpe import files
from keras_bert_impl.tokenizers.byte_level_bpe.byte_pairs import BytePairMerger
from keras_bert_impl.tokenizers.byte_level_bpe.files import ROBERTA, byte_characters
from keras_bert_impl.tokenizers.byte_level_bpe.words import ByteLevelSplitter
from keras_bert_impl.tokenizers.files import as_vocabulary
from keras_bert_impl.tokenizers.graphs import subwords_of_unique
from keras_bert_impl.tokenizers.packing import SegmentId
from keras_bert_impl.tokenizers.tokenizer import Tokenizer
from keras_bert_impl.tokenizers.unicode.places import chosen


@keras.saving.register_keras_serializable("keras_bert_impl")
class ByteLevelBPETokenizer(Tokenizer):
    """The tokenizer of RoBERTa and ModernBERT in the graph, with `tokenizers`' ids and offsets.

    If the vocabulary has all bytes, no text is unknown. A special or added token written in the
    text becomes that token.

    Args:
        vocabulary: The token of each id, with bytes written as characters (`Ġthe`); or the path of
            a JSON file with the id of each token.
        merges: (left, right) pairs of tokens, best first.
        mask_strips_left: Whether a `<mask>` in the text includes the white space before it, as in
            RoBERTa.
        special_tokens: Padding, unknown, start of a row, separator, mask. Two segments become
            `<s> A </s></s> B </s>` with RoBERTa's and `[CLS] A [SEP] B [SEP]` with others, unless
            `num_separators` says otherwise.
        added_tokens: str, `AddedToken` or dicts of its fields: further tokens matched literally in
            the text. Those missing from the vocabulary get the next ids. A special token listed
            here changes how it is matched.
        normalize: Whether texts are normalized to composed characters (NFC) before tokens are
            matched.
        trim_offsets: Whether offsets exclude the space before a token, as in RoBERTa but not in
            ModernBERT.
        add_prefix_space: Whether the first word of a text, and the first after an added token, is
            treated as if a space preceded it.
        num_separators: Number of separators between two texts, 1 or 2. Default: 2 with RoBERTa's
            special tokens and 1 with others.
        segment_of_second: The segment id of the second text of a pair, 0 or 1. Default: 0 with
            RoBERTa's special tokens and 1 with others.
        keeps_unknown_bytes: Whether a byte that the vocabulary lacks becomes the unknown token.
            Default: it is dropped, as by RoBERTa's tokenizer in `transformers`.

    Raises:
        InputError: If the vocabulary has a token twice, or does not have a special token or the
            result of a merge.

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section
    2.2; Liu et al. 2019 (arXiv:1907.11692), section 4.4.
    """

    kind = "byte-level BPE"
    files = files
    later_settings = {"add_prefix_space": False, "keeps_unknown_bytes": False}

    def __init__(
        self,
        vocabulary: Sequence[str] | dict[str, int] | str | Path,
        merges: Iterable[Sequence[str]],
        mask_strips_left: bool = True,
        special_tokens: Sequence[str] = ROBERTA,
        added_tokens: Iterable[Any] = (),
        normalize: bool = False,
        trim_offsets: bool = True,
        add_prefix_space: bool = False,
        num_separators: int | None = None,
        segment_of_second: int | None = None,
        keeps_unknown_bytes: bool = False,
    ) -> None:
        self.merges = [tuple(pair) for pair in merges]
        self.mask_strips_left = check("mask_strips_left", mask_strips_left, bool)
        self.special_tokens = tuple(special_tokens)
        self.normalize = check("normalize", normalize, bool)
        self.trim_offsets = check("trim_offsets", trim_offsets, bool)
        self.add_prefix_space = check("add_prefix_space", add_prefix_space, bool)
        self.keeps_unknown_bytes = check("keeps_unknown_bytes", keeps_unknown_bytes, bool)
        separators, segment = files.usual_rows(self.special_tokens)
        self.later_settings = self.later_settings | {"num_separators": separators}
        if num_separators is not None:
            separators = check("num_separators", num_separators, Annotated[int, OneOf(1, 2)])
        if segment_of_second is not None:
            segment = check("segment_of_second", segment_of_second, SegmentId)
        self.num_separators, self.segment_of_second = separators, segment
        self._set_vocabulary(as_vocabulary(vocabulary), added_tokens)
        special = as_special(self.special_tokens, self.mask_strips_left)
        tokens = found_tokens(special, self.added_tokens)
        self._whole_tokens = [token.content for token in tokens]
        self._split = ByteLevelSplitter(
            tokens,
            len({*self.special_tokens}),
            self.normalize,
            self.trim_offsets,
            self.add_prefix_space,
        )
        missing = self.unk_id if self.keeps_unknown_bytes else -1
        self._merge = BytePairMerger(
            [self._ids_of.get(character, missing) for character in byte_characters()],
            [
                (self.token_to_id(a), self.token_to_id(b), self.token_to_id(a + b))
                for a, b in self.merges
            ],
        )

    def _is_word_start(self, token):
        # Space, newline and tab, as the vocabulary writes these bytes.
        return token.startswith(("Ġ", "Ċ", "ĉ")) or token in self._whole_tokens

    def _join(self, tokens):
        bytes_of = {character: byte for byte, character in enumerate(byte_characters())}
        tokens = [self._split.written.get(token, token) for token in tokens]
        # A token with a character that represents no byte, such as a space, is kept as text.
        data = b"".join(
            bytes(map(bytes_of.get, token)) if bytes_of.keys() >= set(token) else token.encode()
            for token in tokens
        )
        return data.decode("utf-8", "replace")

    def words(self, texts: tf.Tensor) -> tf.Tensor:
        words = self._split(texts)
        return chosen(words.strings, words.added < 0)

    def word_ids(self, words: tf.Tensor) -> tf.RaggedTensor:
        return self._merge(words)[0]

    def _subwords(self, words):
        ids = [self.token_to_id(token) for token in self._whole_tokens]
        return subwords_of_unique(words, self._merge, ids)

    @functools.cached_property
    def _num_spaces(self):
        """int32 arrays [vocabulary] of leading and trailing spaces, as written there."""
        space = byte_characters()[ord(" ")]
        leading = [len(token) - len(token.lstrip(space)) for token in self.vocabulary]
        trailing = [len(token) - len(token.rstrip(space)) for token in self.vocabulary]
        return np.array(leading, np.int32), np.array(trailing, np.int32)

    def _trimmed(self, ids, starts, ends):
        if not self.trim_offsets:
            return starts, ends
        leading, trailing = (tf.gather(spaces, ids) for spaces in self._num_spaces)
        if self.add_prefix_space:  # as in `tokenizers`: exclude the prefix space
            leading -= tf.cast(tf.equal(starts, 0) & (leading > 0), tf.int32)
        starts = tf.minimum(starts + leading, ends)
        return starts, tf.maximum(ends - trailing, starts)
