"""Unmasked examples from a block of tokenized documents: sentence pairs, or single segments.

A block holds its tokens in one array, so that every segment of every example is a span
[start, end) of that array: making, trimming and packing examples moves no token.
"""

import bisect
import itertools
from typing import NamedTuple

import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.pretraining.examples import draws


class TokenBlock(NamedTuple):
    """Consecutive documents of a corpus as token ids.

    Attributes:
        token_ids: int32 [tokens].
        sentence_starts: list (sentences + 1) of int, where each sentence begins in `token_ids`, and
            at the end the number of tokens. No sentence is empty.
        document_starts: list (documents + 1) of int, the same for documents in `sentence_starts`.
        document_numbers: list (documents) of int, the running number of each in the corpus.
    """

    token_ids: np.ndarray
    sentence_starts: list
    document_starts: list
    document_numbers: list

    @classmethod
    def from_documents(cls, documents):
        """Builds a block from a list (documents) of lists (sentences) of lists of token ids."""
        sentences = [sentence for document in documents for sentence in document]
        return cls(
            np.array([token for sentence in sentences for token in sentence], np.int32),
            [0, *itertools.accumulate(map(len, sentences))],
            [0, *itertools.accumulate(map(len, documents))],
            list(range(len(documents))),
        )


class Example(NamedTuple):
    """Two spans of a block's tokens; `second` is empty, and the label 0, for one segment.

    Attributes:
        first, second: (start, end) in `TokenBlock.token_ids`.
        label: int, 1 where the second segment comes from a random other document; or, of pairs
            for sentence order, where the two are swapped.
    """

    first: tuple
    second: tuple
    label: int

    @property
    def length(self):
        """Tokens of the example with [CLS] and one [SEP] a segment."""
        second = self.second[1] - self.second[0]
        return 2 + self.first[1] - self.first[0] + (second + 1 if second else 0)


def next_sentence_examples(block, length, seed=0, pass_number=0, short_sequence_probability=0.1):
    """Pairs of segments for next-sentence prediction, as BERT makes them.

    For each document a target length: the `length` − 3 tokens that [CLS] a [SEP] b [SEP] leaves,
    or, with the probability of a short sequence, uniform from 2 to that. Sentences are gathered
    until the target is reached or the document ends. The first randint(1, n − 1) of the n
    gathered are segment a. With probability ½, and always where n is 1, segment b is read from
    a random sentence of a random other document of the block until the target is reached, its
    label is 1, and the gathered sentences not used go back; else b is the rest and its label 0.
    The longer segment loses tokens, each from its front or its back, until both fit.

    Args:
        block: `TokenBlock` of at least two documents.
        length: int, the longest example in tokens, [CLS] and [SEP] included.
        seed, pass_number: ints; with the document's running number they name every draw.
        short_sequence_probability: float.

    Returns:
        List of `Example`.

    Raises:
        InputError: there is no other document.

    Source: Devlin et al. 2018, section 3.1 and appendix A.2.
    """
    num_documents = len(block.document_starts) - 1
    if num_documents < 2:
        raise InputError(
            "next-sentence prediction takes its wrong pairs from another document, and there is "
            "only one; give more documents or choose --objective mlm."
        )
    examples = []
    for document in range(num_documents):
        generator = draws.stream(seed, "pairs", pass_number, block.document_numbers[document])
        examples += _document_pairs(
            block, document, length - 3, short_sequence_probability, generator
        )
    return examples


def _target(most_tokens, short_sequence_probability, generator):
    if generator.random() < short_sequence_probability:
        return draws.integer(generator, 2, most_tokens)
    return most_tokens


def _end_of_chunk(block, sentence, document_end, target):
    """The sentence after the one that reaches the target, or the end of the document."""
    starts = block.sentence_starts
    return bisect.bisect_left(starts, starts[sentence] + target, sentence, document_end)


def _document_pairs(block, document, most_tokens, short_sequence_probability, generator):
    starts = block.sentence_starts
    target = _target(most_tokens, short_sequence_probability, generator)
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
    """At least `target` tokens (and a sentence) of another document, or all up to its end."""
    other = draws.integer(generator, 0, len(block.document_starts) - 3)
    other += other >= document
    begin, end = block.document_starts[other : other + 2]
    sentence = draws.integer(generator, begin, end - 1)
    starts = block.sentence_starts
    return starts[sentence], starts[_end_of_chunk(block, sentence, end, max(target, 1))]


def _trim(first, second, most_tokens, generator):
    """Takes tokens one by one from the longer segment (the second, where they are equal)."""
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
    """Removes `count` tokens, each from the front or the back by the toss of a coin."""
    front = generator.getrandbits(count).bit_count() if count else 0
    return span[0] + front, span[1] - (count - front)


def sentence_order_examples(block, length, seed=0, pass_number=0, short_sequence_probability=0.1):
    """Pairs of consecutive segments, in order or swapped; never of two documents.

    Sentences are gathered and cut to the length as for `next_sentence_examples`. The first
    randint(1, n − 1) of the n gathered are one segment and the rest the other; of a sentence
    alone, the first randint(1, k − 1) of its k tokens are. With probability ½ the two are
    swapped, and the label is 1. A sentence of one token that stands alone is left out.

    Args:
        block: `TokenBlock`.
        length, seed, pass_number, short_sequence_probability: as of `next_sentence_examples`.

    Returns:
        List of `Example`.

    Source: Lan et al. 2019, "ALBERT", section 3.1; there, a sentence alone is cut nowhere.
    """
    examples, most_tokens = [], length - 3
    for document, number in enumerate(block.document_numbers):
        generator = draws.stream(seed, "order", pass_number, number)
        target = _target(most_tokens, short_sequence_probability, generator)
        sentence, document_end = block.document_starts[document : document + 2]
        while sentence < document_end:
            chunk_end = _end_of_chunk(block, sentence, document_end, target)
            places = block.sentence_starts[sentence : chunk_end + 1]
            begin, end = places[0], places[-1]
            if len(places) == 2:
                places = range(begin, end + 1)
            if len(places) > 2:
                middle = places[draws.integer(generator, 1, len(places) - 2)]
                first, second = _trim((begin, middle), (middle, end), most_tokens, generator)
                if generator.random() < 0.5:
                    examples.append(Example(second, first, 1))
                else:
                    examples.append(Example(first, second, 0))
            sentence = chunk_end
    return examples


def contiguous_examples(block, length):
    """Single segments: each document, cut into as long pieces as fit, without draws.

    A piece may begin and end within a sentence. Pieces of whole sentences would leave a few tokens
    of nearly every row to padding, as what remains of a document is rarely so short: 4 % of rows of
    512 tokens of Wikipedia, and 13 % of rows of 128.

    Args:
        block: `TokenBlock`.
        length: int, the longest example in tokens, [CLS] and [SEP] included.

    Returns:
        List of `Example` with an empty second segment.

    Source: Joshi et al. 2019, "SpanBERT", section 3.3.
    """
    examples, most_tokens = [], length - 2
    document_bounds = [block.sentence_starts[sentence] for sentence in block.document_starts]
    for begin, end in itertools.pairwise(document_bounds):
        for start in range(begin, end, most_tokens):
            stop = min(start + most_tokens, end)
            examples.append(Example((start, stop), (stop, stop), 0))
    return examples
