"""Byte-level BPE tokenizer of RoBERTa, ModernBERT and GPT-2 in the TensorFlow graph."""

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.tokenizers.added_tokens import found_tokens
from keras_bert_impl.tokenizers.added_tokens import special_tokens as as_special
from keras_bert_impl.tokenizers.byte_level_bpe import files
from keras_bert_impl.tokenizers.byte_level_bpe.files import ROBERTA, byte_characters
from keras_bert_impl.tokenizers.byte_level_bpe.words import ByteLevelSplitter
from keras_bert_impl.tokenizers.files import as_vocabulary
from keras_bert_impl.tokenizers.graphs import (
    after,
    before,
    chosen,
    numbers_of,
    places_of,
    put,
    subwords_of_unique,
    token_ends,
    without_overlaps,
)
from keras_bert_impl.tokenizers.inputs import SegmentId
from keras_bert_impl.tokenizers.tokenizer import Tokenizer
from keras_bert_impl.utils.settings import OneOf, check

_NO_RANK = np.iinfo(np.int32).max
_PART, _SHARED = 65, 24  # symbols in a chunk of a long word; symbols in the overlap of two chunks
# Distance between the starts of chunks. If it is prime, all chunks of a repeated letter are merged
# in the same step.
_STEP = _PART - _SHARED


@keras.saving.register_keras_serializable("keras_bert_impl")
class ByteLevelBPETokenizer(Tokenizer):
    """Byte-level BPE tokenizer. Ids and offsets are the same as with the `tokenizers` library.

    Special tokens and added tokens are also recognized inside texts. If the vocabulary contains all
    256 bytes, every text can be tokenized without the unknown token.

    Args:
        vocabulary: List of tokens in id order, or path of a JSON file with the id of each token.
            Each byte is written as a printable character, as in `Ġthe`.
        merges: (left, right) pairs of tokens, highest priority first.
        mask_strips_left: Whether the white space before a `<mask>` in a text is part of the mask
            token, as in RoBERTa.
        special_tokens: Padding, unknown, first, separator and mask token. Two segments become `<s>
            A </s></s> B </s>` with RoBERTa's special tokens, and `[CLS] A [SEP] B [SEP]` with other
            tokens, unless `num_separators` is set. In the tokenizer of GPT-2, `<|endoftext|>` is
            used for all five tokens.
        added_tokens: Additional tokens, which are matched as literal strings: str, `AddedToken`, or
            dicts of the fields of `AddedToken`. Tokens that are not in the vocabulary get the next
            free ids. An entry for a special token sets the matching options of the special token.
        normalize: Whether texts are normalized to NFC (composed characters) before tokenization.
        trim_offsets: Whether offsets exclude the space before a token. True in RoBERTa, False in
            ModernBERT.
        add_prefix_space: If True, each text, and the text after each added token, gets a space at
            the start unless it already starts with a space.
        num_separators: Number of separator tokens between the two texts of a pair, 1 or 2. Default:
            2 with RoBERTa's special tokens, otherwise 1.
        segment_of_second: The segment id of the second text of a pair, 0 or 1. Default: 0 with
            RoBERTa's special tokens, otherwise 1.
        keeps_unknown_bytes: If True, bytes that are not in the vocabulary become the unknown token.
            If False, such bytes are dropped, as in `RobertaTokenizer` of `transformers`.

    Raises:
        InputError: The vocabulary contains a token twice, or lacks a special token or the result of
            a merge.

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2,
        and Liu et al. 2019 (arXiv:1907.11692), section 4.4.
    """

    kind = "byte-level BPE"
    _read, _write = staticmethod(files.read), staticmethod(files.write)
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
        # Space, newline and tab, as characters of the vocabulary.
        return token.startswith(("Ġ", "Ċ", "ĉ")) or token in self._whole_tokens

    def _join(self, tokens):
        bytes_of = {character: byte for byte, character in enumerate(byte_characters())}
        tokens = [self._split.written.get(token, token) for token in tokens]
        # A token with characters that do not represent bytes is kept as text.
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

    def _split_into_subwords(self, words):
        ids = [self.token_to_id(token) for token in self._whole_tokens]
        return subwords_of_unique(words, self._merge, ids)

    @functools.cached_property
    def _num_spaces(self):
        """Returns the number of leading and trailing spaces of each token, int32 [vocabulary]."""
        space = byte_characters()[ord(" ")]
        leading = [len(token) - len(token.lstrip(space)) for token in self.vocabulary]
        trailing = [len(token) - len(token.rstrip(space)) for token in self.vocabulary]
        return np.array(leading, np.int32), np.array(trailing, np.int32)

    def _trim_spaces(self, ids, starts, ends):
        if not self.trim_offsets:
            return starts, ends
        leading, trailing = (tf.gather(spaces, ids) for spaces in self._num_spaces)
        if self.add_prefix_space:  # As in `tokenizers`, the added space is excluded.
            leading -= tf.cast(tf.equal(starts, 0) & (leading > 0), tf.int32)
        starts = tf.minimum(starts + leading, ends)
        return starts, tf.maximum(ends - trailing, starts)


class BytePairMerger:
    """Splits words into tokens by byte-pair encoding of their bytes.

    Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units",
    section 3.2. BPE of bytes: Radford et al. 2019, section 2.2.
    """

    def __init__(self, byte_ids: Sequence[int], merges: Sequence[Sequence[int]]) -> None:
        self._byte_ids = np.array(byte_ids, np.int32)
        left_ids, right_ids, merged = np.array(merges, np.int64).reshape(-1, 3).T
        keys = (left_ids << 32) | right_ids
        order = np.argsort(keys)
        # This sentinel is greater than every pair, so a search always returns a valid index.
        self._keys = np.append(keys[order], np.iinfo(np.int64).max)
        self._ranks = np.append(order, _NO_RANK).astype(np.int32)
        self._merged = np.append(merged, -1).astype(np.int32)  # id of the merged token, by rank

    def __call__(self, words: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Returns the ids and the byte offsets of the tokens, ragged int32 [words, (tokens)]."""
        lengths = tf.strings.length(words)
        data = tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8)
        ids = tf.gather(self._byte_ids, tf.cast(data, tf.int32))
        if (self._byte_ids >= 0).all():
            return self._merge_ids(ids, lengths)
        is_known = ids >= 0
        num_known = tf.math.unsorted_segment_sum(
            tf.cast(is_known, tf.int32), numbers_of(lengths), tf.size(words)
        )
        token_ids, starts = self._merge_ids(chosen(ids, is_known), num_known)
        word = numbers_of(starts.row_lengths())
        first, first_known = (tf.cumsum(sizes, exclusive=True) for sizes in (lengths, num_known))
        place = tf.gather(places_of(is_known), starts.values + tf.gather(first_known, word))
        return token_ids, starts.with_values(place - tf.gather(first, word))

    def _merge_ids(self, ids, lengths):
        """Returns (ids, starts) of the tokens of each word, ragged int32 [words, (tokens)]."""
        word = numbers_of(lengths)
        ends = tf.cumsum(lengths)
        token_ids, start = tf.cond(
            tf.reduce_max(lengths) > _PART,
            lambda: self._merge_in_chunks(ids, ends - lengths, ends),
            lambda: list(self._merge_in_rounds(ids, word, tf.range(tf.size(ids)))[::2]),
        )
        splits = tf.searchsorted(start, tf.concat([[0], ends], axis=0), out_type=tf.int64)
        token_ids = tf.RaggedTensor.from_row_splits(token_ids, splits, validate=False)
        word = tf.gather(word, start)
        return token_ids, token_ids.with_values(start - tf.gather(ends - lengths, word))

    def _merge_in_chunks(self, ids, starts, ends):
        """Splits long words into overlapping chunks, and returns (ids, starts) of the tokens."""
        counts = 1 + tf.maximum(ends - starts - _SHARED - 1, 0) // _STEP
        word = numbers_of(counts)
        first = tf.gather(tf.cumsum(counts, exclusive=True), word)
        begins = tf.gather(starts, word) + (tf.range(tf.size(word)) - first) * _STEP
        is_start = put(tf.fill([tf.size(ids) + 1], False), starts, True)  # [symbols + 1]

        def step(reach, begins, ends, is_new, tokens, _):
            new = self._merge_chunks(ids, begins, ends, places_of(is_new))
            tokens = [tf.concat(pair, axis=0) for pair in zip(tokens, new)]
            tokens = _gather_all(tokens, tf.argsort(tokens[1], stable=True))
            is_first = tf.gather(is_start, begins)
            meets = _find_meeting_places(tf.size(ids), begins, ends, *tokens[1:])
            meets = tf.where(is_first, begins, meets)
            begins_group = is_first | ~_mark_near(meets < 0, reach)
            first = places_of(begins_group)
            last = after(first, tf.size(begins_group)) - 1
            is_joined = last > first
            token_ids, part, start = tokens
            part = tf.gather(tf.cumsum(tf.cast(begins_group, tf.int32)) - 1, part)
            tokens = _gather_all([token_ids, part, start], places_of(~tf.gather(is_joined, part)))
            begins, ends = tf.gather(begins, first), tf.gather(ends, last)
            return 2 * reach + 1, begins, ends, is_joined, tokens, tf.gather(meets, first)

        vector = tf.TensorShape([None])
        nothing = tf.zeros([0], tf.int32)
        ends = tf.minimum(begins + _PART, tf.gather(ends, word))
        *_, (token_ids, part, start), meets = tf.while_loop(
            lambda reach, begins, ends, is_new, *_: tf.reduce_any(is_new),
            step,
            (0, begins, ends, tf.fill(tf.shape(begins), True), [nothing] * 3, begins),
            shape_invariants=(tf.TensorShape([]), *3 * [vector], [vector] * 3, vector),
        )
        limits = tf.gather(after(meets, tf.int32.max), part)
        return _gather_all(
            (token_ids, start), places_of((start >= tf.gather(meets, part)) & (start < limits))
        )

    def _merge_chunks(self, ids, begins, ends, parts):
        """Returns (ids, chunk indices, starts) of the tokens of chunks, each int32 [tokens]."""
        begins, ends = tf.gather(begins, parts), tf.gather(ends, parts)
        number = numbers_of(ends - begins)
        start = tf.ragged.range(begins, ends).values
        token_ids, number, start = self._merge_in_rounds(tf.gather(ids, start), number, start)
        return token_ids, tf.gather(parts, number), start

    def _merge_in_rounds(self, ids, word, start):
        """Applies merges until no two neighboring tokens can be merged."""
        rank = self._find_ranks(ids, after(ids, 0), after(word, -1) == word)
        vector = tf.TensorShape([None])
        return tf.while_loop(
            lambda *state: tf.reduce_any(state[-1] != _NO_RANK),
            self._round,
            (ids, word, start, rank),
            shape_invariants=4 * (vector,),
        )[:3]

    def _round(self, ids, word, start, rank):
        # The best rank of each word. The words are in order, as `segment_min` needs.
        best = tf.gather(tf.math.segment_min(rank, word), word)
        merges = without_overlaps((rank == best) & (rank != _NO_RANK))
        places = places_of(merges)
        ids = put(ids, places, tf.gather(self._merged, tf.gather(rank, places)))
        remaining = places_of(~before(merges, False))
        ids, word, start, rank, merges = (
            tf.gather(values, remaining) for values in (ids, word, start, rank, merges)
        )
        # Only pairs that contain a new token get a new rank.
        places = places_of(merges | after(merges, False))
        following = tf.minimum(places + 1, tf.size(ids) - 1)
        is_pair = (following > places) & (tf.gather(word, places) == tf.gather(word, following))
        ranks = self._find_ranks(tf.gather(ids, places), tf.gather(ids, following), is_pair)
        return ids, word, start, put(rank, places, ranks)

    def _find_ranks(self, left_ids, right_ids, is_pair):
        """Returns the merge rank of each pair of ids, or _NO_RANK if there is no merge."""
        keys = tf.cast(left_ids, tf.int64) * (1 << 32) + tf.cast(right_ids, tf.int64)
        number = tf.searchsorted(self._keys, keys)
        is_merge = is_pair & tf.equal(tf.gather(self._keys, number), keys)
        return tf.where(is_merge, tf.gather(self._ranks, number), _NO_RANK)


def _find_meeting_places(size, begins, ends, part, start):
    """Returns the start of the first token that a chunk and the previous chunk share, or -1."""
    end = token_ends(start, part, ends)
    odd, even = (
        put(tf.zeros([size], tf.int32), chosen(start, mask), chosen(end, mask))
        for mask in (part % 2 == 1, part % 2 == 0)
    )
    common = places_of((odd > 0) & tf.equal(odd, even))
    number = tf.searchsorted(begins, common, side="right") - 1
    first_common = tf.math.unsorted_segment_min(common, number, tf.size(begins))
    return tf.where(first_common < size, first_common, -1)


def _mark_near(mask, reach):
    """Returns bool, True at positions within `reach` positions of a True value in `mask`."""
    count = tf.cumsum(tf.concat([[0], tf.cast(mask, tf.int32)], axis=0))
    place = tf.range(tf.size(mask))
    last = tf.gather(count, tf.minimum(place + reach + 1, tf.size(mask)))
    return last > tf.gather(count, tf.maximum(place - reach, 0))


def _gather_all(vectors, places):
    return [tf.gather(values, places) for values in vectors]
