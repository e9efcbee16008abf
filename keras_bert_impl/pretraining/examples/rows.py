"""Creates examples from a block of tokenized documents and packs them into rows.

All token ids of a block are in one array. A segment is a range [start, end) of this array, so that
no token ids are copied. Random numbers are hashes of a name, such as the seed and the document
number, so they do not depend on the order of the calls.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from keras_bert_impl.tokenizers import Tokenizer


def stable_hash(*name: Any) -> int:
    """Hashes numbers and strings to an integer in [0, 2⁶⁴), equally on all machines."""
    digest = hashlib.blake2b(repr(name).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def uniform(*name: Any) -> float:
    """Returns a pseudorandom float in [0, 1), computed from a hash of `name`."""
    return (stable_hash(*name) >> 11) * 2.0**-53


def stream(*name: Any) -> random.Random:
    """Returns a random number generator that is seeded with a hash of `name`."""
    return random.Random(stable_hash(*name))


def integer(generator: random.Random, low: int, high: int) -> int:
    """Returns an int from `low` to `high`, both included."""
    return low + int(generator.random() * (high - low + 1))


def permutation(generator: random.Random, count: int) -> list[int]:
    """Returns the integers below `count` in random order."""
    keys = [generator.random() for _ in range(count)]
    return sorted(range(count), key=keys.__getitem__)


class TokenBlock(NamedTuple):
    """Consecutive documents of a corpus as token ids.

    Attributes:
        token_ids: int32 [tokens].
        sentence_starts: Start of each sentence in `token_ids`; the last element is the number of
            tokens. No sentence is empty.
        document_starts: Start of each document in `sentence_starts`; the last element is the number
            of sentences.
        document_numbers: Index of each document in the corpus.
    """

    token_ids: np.ndarray
    sentence_starts: list[int]
    document_starts: list[int]
    document_numbers: list[int]


class Example(NamedTuple):
    """A single segment or a segment pair. For a single segment, `second` is empty and `label` 0."""

    first: tuple[int, int]  # start and end in `TokenBlock.token_ids`
    second: tuple[int, int]
    label: int

    @property
    def length(self) -> int:
        """Number of tokens, including [CLS] and one [SEP] per segment."""
        second = self.second[1] - self.second[0]
        return 2 + self.first[1] - self.first[0] + (second + 1 if second else 0)


def next_sentence_examples(
    block: TokenBlock,
    length: int,
    seed: int = 0,
    pass_number: int = 0,
    short_sequence_probability: float = 0.1,
    random_next_share: float = 0.5,
) -> list[Example]:
    """Creates segment pairs for next-sentence prediction, as in BERT's published code.

    If the last sentence of a document is the first segment of a pair, the second segment is always
    random. BERT's published code therefore creates more random pairs than consecutive pairs. This
    function draws fewer of the other pairs at random, so that the fraction of random pairs is
    `random_next_share`.

    If the block contains only one document, random segments are from this document, but not from
    the sentences next to the first segment.

    Source: Devlin et al. 2018, section 3.1 and appendix A.2.
    """
    examples: list[Example] = []
    is_alone = len(block.document_numbers) == 1
    # The correction is slow, so that the position in the document does not reveal the label.
    coin = _Coin(random_next_share, gain=1.0 if is_alone else 1 / 16)
    for document, number in enumerate(block.document_numbers):
        generator = stream(seed, "pairs", pass_number, number)
        target = _draw_target(length - 3, short_sequence_probability, generator)
        if is_alone:  # Both labels need at least two chunks.
            target = min(target, -(-len(block.token_ids) // 2))
        examples += _create_document_pairs(block, document, length - 3, target, generator, coin)
    return examples


class _Coin:
    """Adjusts the probability of a random pair so that `fraction` of all pairs are random."""

    def __init__(self, fraction, gain):
        self.fraction, self.gain = fraction, gain
        self._surplus = 0.0  # random pairs above `fraction`

    def is_random(self, generator, is_only_choice):
        probability = self.fraction - self.gain * self._surplus
        is_random = is_only_choice or generator.random() < probability
        self._surplus += is_random - self.fraction
        return is_random


def _draw_target(most_tokens, short_sequence_probability, generator):
    if generator.random() < short_sequence_probability:
        return integer(generator, 2, most_tokens)
    return most_tokens


def _find_chunk_end(block, sentence, document_end, target):
    """Returns the index after the last sentence of a chunk with at least `target` tokens."""
    starts = block.sentence_starts
    return bisect.bisect_left(starts, starts[sentence] + target, sentence, document_end)


def _create_document_pairs(block, document, most_tokens, target, generator, coin):
    starts, is_alone = block.sentence_starts, len(block.document_numbers) == 1
    sentence, document_end = block.document_starts[document : document + 2]
    while sentence < document_end:
        chunk_end = _find_chunk_end(block, sentence, document_end, target)
        num_sentences = chunk_end - sentence
        middle = sentence + 1
        if num_sentences > 1:
            middle = sentence + integer(generator, 1, num_sentences - 1)
        first = starts[sentence], starts[middle]
        distant = _find_distant_sentences(block, sentence, middle) if is_alone else []
        may_be_random = not is_alone or bool(distant)
        if num_sentences == 1 and not may_be_random:
            sentence = middle
            continue
        if may_be_random and coin.is_random(generator, num_sentences == 1):
            label, sentence = 1, middle
            places = distant or [_choose_other_document(block, document, generator)]
            second = _draw_segment(block, places, target - (first[1] - first[0]), generator)
        else:
            label, sentence = 0, chunk_end
            second = starts[middle], starts[chunk_end]
        yield Example(*_trim(first, second, most_tokens, generator), label)


def _find_distant_sentences(block, sentence, middle):
    # The sentences in the first segment and next to the first segment are excluded.
    begin, end = block.document_starts
    return [place for place in (range(begin, sentence - 1), range(middle + 1, end)) if place]


def _choose_other_document(block, document, generator):
    other_document = integer(generator, 0, len(block.document_starts) - 3)
    other_document += other_document >= document
    return range(*block.document_starts[other_document : other_document + 2])


def _draw_segment(block, places, target, generator):
    """Returns a segment of about `target` tokens that starts at a random sentence of `places`."""
    sentence_index = integer(generator, 0, sum(map(len, places)) - 1)
    place = places[0]
    if sentence_index >= len(place):
        sentence_index, place = sentence_index - len(place), places[1]
    starts = block.sentence_starts
    sentence, end = place[sentence_index], place.stop
    return starts[sentence], starts[_find_chunk_end(block, sentence, end, max(target, 1))]


def _trim(first, second, most_tokens, generator):
    """Truncates a pair to `most_tokens` tokens: first the longer segment, then both equally."""
    lengths = first[1] - first[0], second[1] - second[0]
    excess = sum(lengths) - most_tokens
    if excess <= 0:
        return first, second
    longer_by = lengths[0] - lengths[1]
    if longer_by > 0:
        first_excess = min(excess, longer_by) + max(excess - longer_by, 0) // 2
    else:
        first_excess = max(excess + longer_by, 0) // 2
    return _cut(first, first_excess, generator), _cut(second, excess - first_excess, generator)


def _cut(span, count, generator):
    """Removes `count` tokens, each from a randomly chosen end of the segment."""
    front = generator.getrandbits(count).bit_count() if count else 0
    return span[0] + front, span[1] - (count - front)


def sentence_order_examples(
    block: TokenBlock,
    length: int,
    seed: int = 0,
    pass_number: int = 0,
    short_sequence_probability: float = 0.1,
) -> list[Example]:
    """Creates pairs of consecutive segments of a document, in order or swapped.

    Source: Lan et al. 2019, "ALBERT", section 3.1. Unlike in the paper, a single sentence
    may be split into two segments.
    """
    examples, most_tokens = [], length - 3
    for document, number in enumerate(block.document_numbers):
        generator = stream(seed, "order", pass_number, number)
        target = _draw_target(most_tokens, short_sequence_probability, generator)
        sentence, document_end = block.document_starts[document : document + 2]
        while sentence < document_end:
            chunk_end = _find_chunk_end(block, sentence, document_end, target)
            places: Sequence[int] = block.sentence_starts[sentence : chunk_end + 1]
            begin, end = places[0], places[-1]
            if len(places) == 2:
                places = range(begin, end + 1)
            if len(places) > 2:
                middle = places[integer(generator, 1, len(places) - 2)]
                first, second = _trim((begin, middle), (middle, end), most_tokens, generator)
                is_swapped = generator.random() < 0.5
                pair = (second, first) if is_swapped else (first, second)
                examples.append(Example(*pair, int(is_swapped)))
            sentence = chunk_end
    return examples


def translation_examples(
    block: TokenBlock, length: int, num_languages: int, seed: int = 0, pass_number: int = 0
) -> list[Example]:
    """Creates a pair of sentences in two random languages from each document.

    A document contains one sentence in each language. If one of the sentences has no tokens, the
    document is skipped. The label is `first * num_languages + second`, where `first` and `second`
    are the indices of the languages of the two sentences.

    Source: Lample and Conneau 2019 (arXiv:1901.07291), section 3.4, with the languages in random
    order.
    """
    examples = []
    for document, number in enumerate(block.document_numbers):
        begin, end = block.document_starts[document : document + 2]
        if end - begin != num_languages:
            continue
        generator = stream(seed, "translations", pass_number, number)
        first_language, second_language = permutation(generator, num_languages)[:2]
        first, second = (
            (block.sentence_starts[begin + language], block.sentence_starts[begin + language + 1])
            for language in (first_language, second_language)
        )
        first, second = _trim(first, second, length - 3, generator)
        examples.append(Example(first, second, first_language * num_languages + second_language))
    return examples


def contiguous_examples(block: TokenBlock, length: int) -> list[Example]:
    """Cuts each document into single segments of `length` tokens, including [CLS] and [SEP].

    Source: Joshi et al. 2019, "SpanBERT", section 3.3.
    """
    examples, most_tokens = [], length - 2
    document_bounds = [block.sentence_starts[sentence] for sentence in block.document_starts]
    for begin, end in itertools.pairwise(document_bounds):
        for start in range(begin, end, most_tokens):
            stop = min(start + most_tokens, end)
            examples.append(Example((start, stop), (stop, stop), 0))
    return examples


def pack_rows(
    lengths: Sequence[int], row_length: int, max_examples_per_row: int
) -> list[list[int]]:
    """Packs examples into rows; returns the indices of the examples in each row.

    Uses best-fit decreasing: the longest example is packed first, and each example is added to the
    fullest row that has enough free tokens.
    """
    rows: list[list[int]] = []
    open_rows: list[list[list[int]]] = [
        [] for _ in range(row_length + 1)
    ]  # indexed by the number of free tokens
    occupied = 0  # Bit f is set if open_rows[f] is not empty. A bit scan finds the best row.
    for index in np.argsort(np.negative(lengths), kind="stable").tolist():
        length = lengths[index]
        fitting = occupied >> length << length
        if fitting:
            free = (fitting & -fitting).bit_length() - 1
            row = open_rows[free].pop()
            if not open_rows[free]:
                occupied ^= 1 << free
        else:
            free, row = row_length, []
            rows.append(row)
        row.append(index)
        free -= length
        if free and len(row) < max_examples_per_row:
            open_rows[free].append(row)
            occupied |= 1 << free
    return rows


def spans_of(examples: Iterable[Example]) -> np.ndarray:
    """Returns the start and end of the first and second segments: int64 [examples, 4]."""
    spans = [(*example.first, *example.second) for example in examples]
    return np.array(spans, np.int64).reshape(-1, 4)


def lengths_of(spans: np.ndarray, num_separators: int) -> np.ndarray:
    """Returns the length of each example, with special tokens: int64 [examples]."""
    return _measure_parts(spans, num_separators).sum(axis=1)


def lay_out(
    block: TokenBlock,
    spans: np.ndarray,
    labels: Sequence[int],
    packed: Sequence[Sequence[int]],
    length: int,
    max_examples_per_row: int,
    tokenizer: Tokenizer,
) -> dict[str, np.ndarray]:
    """Returns the arrays for `records.serialize_rows`."""
    order = [index for row in packed for index in row]
    row_sizes = np.array([len(row) for row in packed])
    spans = spans[order]
    parts = _measure_parts(spans, tokenizer.num_separators)
    lengths = parts.sum(axis=1)
    first_in_row = np.cumsum(row_sizes) - row_sizes
    row_lengths = np.add.reduceat(lengths, first_in_row)

    token_ids = np.full((len(packed), length), tokenizer.pad_id, np.int32)
    token_ids[np.arange(length) < row_lengths[:, None]] = _collect_tokens(
        block, spans, parts, tokenizer
    )
    row_indices = np.repeat(np.arange(len(packed)), row_sizes)
    slot = np.arange(len(order)) - np.repeat(first_in_row, row_sizes)

    def fill_rows(values):
        array = np.zeros((len(packed), max_examples_per_row), np.int32)
        array[row_indices, slot] = values
        return array

    return {
        "token_ids": token_ids,
        "example_lengths": fill_rows(lengths),
        "first_lengths": fill_rows(np.where(parts[:, 3], parts[:, :3].sum(axis=1), lengths)),
        "pair_labels": fill_rows(np.array(labels)[order]),
    }


def concatenated_spans(values: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenates the slices `values[start : start + length]`."""
    ends = np.cumsum(lengths)
    return values[np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1])]


def _measure_parts(spans, num_separators):
    """Returns the lengths of [CLS], segment, separators, segment, [SEP]: int64 [examples, 5]."""
    first, second = spans[:, 1] - spans[:, 0], spans[:, 3] - spans[:, 2]
    ones = np.ones_like(first)
    return np.stack([ones, first, num_separators * (second > 0), second, ones], axis=1)


def _collect_tokens(block, spans, parts, tokenizer):
    special = [tokenizer.cls_id, *[tokenizer.sep_id] * tokenizer.num_separators]
    values = np.concatenate([block.token_ids, special]).astype(np.int32)
    cls, sep = np.full((2, len(spans)), len(block.token_ids)) + [[0], [1]]
    starts = np.stack([cls, spans[:, 0], sep, spans[:, 2], sep], axis=1)
    return concatenated_spans(values, starts.ravel(), parts.ravel())
