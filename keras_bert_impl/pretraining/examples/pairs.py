"""Unmasked examples from a block of tokenized documents: sentence pairs or single segments.

A block holds its tokens in one array, and every segment is a span [start, end) of that array, so
that making, trimming and packing examples copies no tokens.
"""

import bisect
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.pretraining.examples import draws


class TokenBlock(NamedTuple):
    """Consecutive documents of a corpus as token ids.

    Attributes:
        token_ids: int32 [tokens].
        sentence_starts: start of each sentence in `token_ids`, then the number of tokens. No
            sentence is empty.
        document_starts: start of each document in `sentence_starts`, then the number of sentences.
        document_numbers: running number of each document in the corpus.
    """

    token_ids: np.ndarray
    sentence_starts: list[int]
    document_starts: list[int]
    document_numbers: list[int]


class Example(NamedTuple):
    """Two spans of a block's tokens. For a single segment, `second` is empty and the label is 0."""

    first: tuple[int, int]  # start and end in `TokenBlock.token_ids`
    second: tuple[int, int]
    label: int

    @property
    def length(self) -> int:
        """Tokens of the example, including [CLS] and one [SEP] per segment."""
        second = self.second[1] - self.second[0]
        return 2 + self.first[1] - self.first[0] + (second + 1 if second else 0)


def next_sentence_examples(
    block: TokenBlock,
    length: int,
    seed: int = 0,
    pass_number: int = 0,
    short_sequence_probability: float = 0.1,
) -> list[Example]:
    """Makes segment pairs for next-sentence prediction in the same way as BERT.

    Source: Devlin et al. 2018, section 3.1 and appendix A.2.
    """
    if len(block.document_numbers) < 2:
        raise InputError(
            "next-sentence prediction draws random segments from another document, but there is "
            "only one. Add documents, or choose --objective mlm."
        )
    examples: list[Example] = []
    for document, number in enumerate(block.document_numbers):
        generator = draws.stream(seed, "pairs", pass_number, number)
        target = _target(length - 3, short_sequence_probability, generator)
        examples += _document_pairs(block, document, length - 3, target, generator)
    return examples


def _target(most_tokens, short_sequence_probability, generator):
    if generator.random() < short_sequence_probability:
        return draws.integer(generator, 2, most_tokens)
    return most_tokens


def _end_of_chunk(block, sentence, document_end, target):
    """Returns the sentence after the one that reaches the target, or the end of the document."""
    starts = block.sentence_starts
    return bisect.bisect_left(starts, starts[sentence] + target, sentence, document_end)


def _document_pairs(block, document, most_tokens, target, generator):
    starts = block.sentence_starts
    sentence, document_end = block.document_starts[document : document + 2]
    while sentence < document_end:
        chunk_end = _end_of_chunk(block, sentence, document_end, target)
        num_sentences = chunk_end - sentence
        middle = sentence + 1
        if num_sentences > 1:
            middle = sentence + draws.integer(generator, 1, num_sentences - 1)
        first = starts[sentence], starts[middle]
        if num_sentences == 1 or generator.random() < 0.5:
            label, sentence = 1, middle
            second = _random_segment(block, document, target - (first[1] - first[0]), generator)
        else:
            label, sentence = 0, chunk_end
            second = starts[middle], starts[chunk_end]
        yield Example(*_trim(first, second, most_tokens, generator), label)


def _random_segment(block, document, target, generator):
    """Returns at least `target` tokens of another document, or all tokens up to its end."""
    other = draws.integer(generator, 0, len(block.document_starts) - 3)
    other += other >= document
    begin, end = block.document_starts[other : other + 2]
    sentence = draws.integer(generator, begin, end - 1)
    starts = block.sentence_starts
    return starts[sentence], starts[_end_of_chunk(block, sentence, end, max(target, 1))]


def _trim(first, second, most_tokens, generator):
    """Removes tokens one by one from the longer segment (the second on a tie)."""
    lengths = first[1] - first[0], second[1] - second[0]
    excess = sum(lengths) - most_tokens
    if excess <= 0:
        return first, second
    longer_by = lengths[0] - lengths[1]
    if longer_by > 0:
        from_first = min(excess, longer_by) + max(excess - longer_by, 0) // 2
    else:
        from_first = max(excess + longer_by, 0) // 2
    return _cut(first, from_first, generator), _cut(second, excess - from_first, generator)


def _cut(span, count, generator):
    """Removes `count` tokens, each from the front or the back at random."""
    front = generator.getrandbits(count).bit_count() if count else 0
    return span[0] + front, span[1] - (count - front)


def sentence_order_examples(
    block: TokenBlock,
    length: int,
    seed: int = 0,
    pass_number: int = 0,
    short_sequence_probability: float = 0.1,
) -> list[Example]:
    """Makes pairs of consecutive segments of one document, in order or swapped.

    Source: Lan et al. 2019, "ALBERT", section 3.1; there, a single sentence is not split.
    """
    examples, most_tokens = [], length - 3
    for document, number in enumerate(block.document_numbers):
        generator = draws.stream(seed, "order", pass_number, number)
        target = _target(most_tokens, short_sequence_probability, generator)
        sentence, document_end = block.document_starts[document : document + 2]
        while sentence < document_end:
            chunk_end = _end_of_chunk(block, sentence, document_end, target)
            places: Sequence[int] = block.sentence_starts[sentence : chunk_end + 1]
            begin, end = places[0], places[-1]
            if len(places) == 2:
                places = range(begin, end + 1)
            if len(places) > 2:
                middle = places[draws.integer(generator, 1, len(places) - 2)]
                first, second = _trim((begin, middle), (middle, end), most_tokens, generator)
                is_swapped = generator.random() < 0.5
                pair = (second, first) if is_swapped else (first, second)
                examples.append(Example(*pair, int(is_swapped)))
            sentence = chunk_end
    return examples


def contiguous_examples(block: TokenBlock, length: int) -> list[Example]:
    """Cuts each document into single segments of maximum length, [CLS] and [SEP] included.

    Source: Joshi et al. 2019, "SpanBERT", section 3.3.
    """
    examples, most_tokens = [], length - 2
    document_bounds = [block.sentence_starts[sentence] for sentence in block.document_starts]
    for begin, end in itertools.pairwise(document_bounds):
        for start in range(begin, end, most_tokens):
            stop = min(start + most_tokens, end)
            examples.append(Example((start, stop), (stop, stop), 0))
    return examples
