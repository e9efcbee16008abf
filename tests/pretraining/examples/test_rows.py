"""Examples of a block and their rows; random draws depend only on their names, on every machine."""

import itertools
import random
import types

import numpy as np
import pytest

from keras_bert_impl.pretraining.examples import rows
from keras_bert_impl.pretraining.examples.rows import (
    Example,
    TokenBlock,
    contiguous_examples,
    next_sentence_examples,
    pack_rows,
    sentence_order_examples,
)

STABLE_HASH = 8268764814506119314
STREAM = 0.5032568568721374


def test_values_are_fixed():
    # A fixed value: a change would silently change every prepared corpus.
    assert rows.stable_hash(0, "pairs", 1) == STABLE_HASH
    assert rows.stream(0, "pairs", 1).random() == STREAM
    assert rows.stable_hash(0, "pairs", 2) != STABLE_HASH


def test_ranges():
    generator = rows.stream(1)
    assert {rows.integer(generator, 3, 5) for _ in range(200)} == {3, 4, 5}
    assert sorted(rows.permutation(generator, 100)) == list(range(100))
    assert all(0 <= rows.uniform(index) < 1 for index in range(100))


def test_uniform_is_uniform():
    # 20,000 draws: the mean of a uniform has a standard deviation of 0.289 / √20000 = 0.002.
    mean = sum(rows.uniform("mean", index) for index in range(20_000)) / 20_000
    assert abs(mean - 0.5) < 4 * 0.00204


@pytest.fixture
def block():
    generator = np.random.default_rng(0)
    sizes = [generator.integers(1, 20, generator.integers(1, 30)) for _ in range(300)]
    starts = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    document_starts = np.concatenate([[0], np.cumsum([len(size) for size in sizes])])
    token_ids = np.arange(starts[-1], dtype=np.int32)
    return TokenBlock(token_ids, starts, document_starts, list(range(300)))


def _block(documents):
    """Builds a block from documents: lists of sentences, which are lists of token ids."""
    sentences = [sentence for document in documents for sentence in document]
    return TokenBlock(
        np.array([token for sentence in sentences for token in sentence], np.int32),
        [0, *itertools.accumulate(map(len, sentences))],
        [0, *itertools.accumulate(map(len, documents))],
        list(range(len(documents))),
    )


class Scripted:
    """Returns the draws listed by a test, in order."""

    def __init__(self, *values):
        self.values = list(values)

    def random(self):
        return self.values.pop(0)

    def getrandbits(self, count):
        return int(self.values.pop(0)) & ((1 << count) - 1)


def script(monkeypatch, *per_document):
    """Replaces the random stream of each document."""
    streams = iter([Scripted(*values) for values in per_document])
    monkeypatch.setattr(rows, "stream", lambda *name: next(streams))


NOT_SHORT, ACTUAL, RANDOM = 0.5, 0.9, 0.1
NO_MORE = [NOT_SHORT, *[RANDOM, 0.0, 0.0] * 50]


def test_chunk_of_several_sentences_in_order(monkeypatch):
    # Target 10 − 3 = 7: sentences of 3 + 2 + 2 reach it; a is the first randint(1, 2) of three.
    block = _block([[[1, 2, 3], [4, 5], [6, 7], [8]], [[20]]])
    script(monkeypatch, [NOT_SHORT, 0.6, ACTUAL, 0.0, 0.0], NO_MORE)
    first, second, *_ = next_sentence_examples(block, 10)
    assert first == Example((0, 5), (5, 7), 0)
    # [8] is left: a chunk of one sentence, so segment b is random whatever the coin says.
    assert second == Example((7, 8), (8, 9), 1)


def test_unused_sentences_go_back(monkeypatch):
    # a = [1 2 3]; b is random, so [4 5] and [6 7] are returned and start the next chunk.
    block = _block([[[1, 2, 3], [4, 5], [6, 7]], [[20, 21], [22, 23], [24, 25]]])
    script(monkeypatch, [NOT_SHORT, 0.0, RANDOM, 0.0, 0.4, 0.0, ACTUAL], NO_MORE)
    first, second, *_ = next_sentence_examples(block, 10)
    # The target of b is 7 − 3 = 4 tokens: two sentences, starting at sentence int(0.4 · 3) = 1.
    assert first == Example((0, 3), (9, 13), 1)
    assert second == Example((3, 5), (5, 7), 0)


def test_random_segment_ends_with_its_document(monkeypatch):
    block = _block([[[1]], [[20], [21]], [[30]]])
    script(monkeypatch, [NOT_SHORT, 0.0, 0.99], NO_MORE, NO_MORE)
    assert next_sentence_examples(block, 20)[0] == Example((0, 1), (2, 3), 1)


def test_short_target_is_drawn_once_a_document(monkeypatch):
    # A short target of randint(2, 7) = 2, so a chunk closes after each sentence of two tokens.
    block = _block([[[1, 2], [3, 4], [5, 6]], [[20, 21], [22, 23]]])
    script(monkeypatch, [0.05, 0.0, *[0.0, 0.0] * 3], [NOT_SHORT, 0.0, ACTUAL])
    examples = next_sentence_examples(block, 10)
    assert examples[:3] == [Example((2 * i, 2 * i + 2), (6, 8), 1) for i in range(3)]
    assert examples[3] == Example((6, 8), (8, 10), 0)


def test_the_longer_segment_is_trimmed_at_front_or_back(monkeypatch):
    # Sentences of 3 + 3 + 5 exceed the target 7. a has 6 tokens and b 5, so four are removed: one
    # from a, then from b, a, b in turn. A bit of 1 removes from the front, 0 from the back.
    block = _block([[[1, 2, 3], [4, 5, 6], [7, 8, 9, 10, 11]], [[20]]])
    script(monkeypatch, [NOT_SHORT, 0.6, ACTUAL, 0b01, 0b11], NO_MORE)
    assert next_sentence_examples(block, 10)[0] == Example((1, 5), (8, 11), 0)


@pytest.mark.parametrize("lengths", [(9, 9), (12, 4), (3, 15), (6, 5), (5, 6), (4, 4), (20, 1)])
def test_trims_single_tokens_of_the_longer_segment(lengths):
    from keras_bert_impl.pretraining.examples.rows import _trim

    a, b = lengths
    while a + b > 10:
        if a > b:
            a -= 1
        else:
            b -= 1
    first, second = _trim((0, lengths[0]), (100, 100 + lengths[1]), 10, rows.stream(0))
    assert (first[1] - first[0], second[1] - second[0]) == (a, b)
    assert first[0] >= 0 and first[1] <= lengths[0]
    assert second[0] >= 100 and second[1] <= 100 + lengths[1]


def document_of(block, token):
    sentence = np.searchsorted(block.sentence_starts, token, side="right") - 1
    return np.searchsorted(block.document_starts, sentence, side="right") - 1


def test_pairs_obey_the_rules(block):
    examples = next_sentence_examples(block, 64, seed=1)
    for example in examples:
        assert 5 <= example.length <= 64
        assert example.first[0] < example.first[1] and example.second[0] < example.second[1]
        documents = [
            {document_of(block, span[0]), document_of(block, span[1] - 1)}
            for span in (example.first, example.second)
        ]
        assert len(documents[0]) == len(documents[1]) == 1
        assert (documents[0] != documents[1]) == bool(example.label)
        if not example.label:
            assert example.first[1] <= example.second[0]


def test_every_token_is_in_a_chunk(block):
    # At a length that needs no trimming, only unused sentences could be lost, and they are
    # returned.
    covered = np.zeros(len(block.token_ids), bool)
    for example in next_sentence_examples(block, 10_000, short_sequence_probability=0.0):
        covered[slice(*example.first)] = True
        if not example.label:
            covered[slice(*example.second)] = True
    assert covered.all()


def test_half_of_the_pairs_are_random():
    # Sentences of one token and targets of 61: only the last chunk of a document can have one
    # sentence, and documents are long. The coin is fair: 4 standard deviations of a binomial.
    block = _block([[[1]] * 5000] * 8)
    labels = [example.label for example in next_sentence_examples(block, 64)]
    assert len(labels) > 800
    assert abs(np.mean(labels) - 0.5) < 4 * 0.5 / np.sqrt(len(labels))


def test_single_sentence_documents_are_all_random():
    block = _block([[[1, 2, 3]]] * 50)
    assert all(example.label for example in next_sentence_examples(block, 32))


def test_draws_are_named(block):
    examples = next_sentence_examples(block, 64, seed=1)
    assert next_sentence_examples(block, 64, seed=1) == examples
    assert next_sentence_examples(block, 64, seed=2) != examples
    assert next_sentence_examples(block, 64, seed=1, pass_number=1) != examples


def test_short_sequences(block):
    always = next_sentence_examples(block, 64, short_sequence_probability=1.0)
    never = next_sentence_examples(block, 64, short_sequence_probability=0.0)
    assert np.mean([e.length for e in always]) < 0.8 * np.mean([e.length for e in never])


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_share_of_random_pairs(block, share):
    # A share of 0.5 as a coin gives more, since a last single sentence is always random.
    labels = [e.label for e in next_sentence_examples(block, 32, random_next_share=share)]
    forced = [e.label for e in next_sentence_examples(block, 32, random_next_share=1e-9)]
    assert 0.1 < np.mean(forced) < 0.3
    assert abs(np.mean(labels) - share) < 16 / len(labels)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("sizes", [[4, 4, 4, 4], [3, 3, 3], [2, 9, 1, 5, 7], [1] * 500])
def test_only_document_gives_its_own_random_segments(sizes, seed):
    block = _block([[[1] * size for size in sizes]])
    examples = next_sentence_examples(block, 64, seed, short_sequence_probability=0.0)
    starts = block.sentence_starts
    assert {example.label for example in examples} == {0, 1}
    for example in examples:
        if example.label:  # at least one sentence lies between the segments
            low, high = sorted([example.first, example.second])
            between = np.searchsorted(starts, [low[1], high[0]])
            assert between[1] - between[0] >= 1 and low[1] < high[0]
        else:
            assert example.first[1] == example.second[0]


@pytest.mark.parametrize("sizes", [[3], [3, 4]])
def test_only_document_without_distant_sentences_has_no_random_pair(sizes):
    examples = next_sentence_examples(_block([[[1] * size for size in sizes]]), 32)
    assert not any(example.label for example in examples)


def test_documents_are_cut_into_segments_that_fit():
    block = _block([[[1] * 4, [1] * 3, [1] * 5], [[1] * 20], [[1] * 2]])
    examples = contiguous_examples(block, 12)
    # 10 tokens besides [CLS] and [SEP], across sentences but within one document.
    assert [example.first for example in examples] == [
        (0, 10),
        (10, 12),
        (12, 22),
        (22, 32),
        (32, 34),
    ]
    assert [example.length for example in examples] == [12, 4, 12, 12, 4]


def test_segments_contain_every_token(block):
    examples = contiguous_examples(block, 32)
    assert [example.first[0] for example in examples[1:]] == [e.first[1] for e in examples[:-1]]
    assert examples[0].first[0] == 0 and examples[-1].first[1] == len(block.token_ids)


def test_sentence_order_pairs_by_hand(monkeypatch):
    # Target 7: three sentences reach it, split after the first of two or the second. A single
    # sentence of three tokens is split after one. The last one has one token and cannot be split.
    block = _block([[[1, 2, 3], [4, 5], [6, 7]], [[8, 9, 10]], [[11]]])
    in_order, swapped = 0.5, 0.4
    script(monkeypatch, [NOT_SHORT, 0.6, in_order], [NOT_SHORT, 0.0, swapped], [NOT_SHORT])
    assert sentence_order_examples(block, 10) == [
        Example((0, 5), (5, 7), 0),
        Example((8, 10), (7, 8), 1),
    ]


def test_sentence_order_pairs_hold_the_text_once(block):
    length = 32
    examples = sentence_order_examples(block, length, seed=1)
    assert examples == sentence_order_examples(block, length, seed=1)
    assert examples != sentence_order_examples(block, length, seed=2)
    assert max(example.length for example in examples) == length
    ends = block.sentence_starts[block.document_starts]
    spans = [(min(e.first, e.second), max(e.first, e.second)) for e in examples]
    for (start, middle), (after, end) in spans:
        assert start < middle <= after < end
        # Both are in one document, and adjacent except for tokens trimmed to fit.
        assert np.searchsorted(ends, start, "right") == np.searchsorted(ends, end - 1, "right")
        assert after == middle or end - start >= length - 3
    assert all(span[1][1] <= next_span[0][0] for span, next_span in zip(spans, spans[1:]))
    swapped = np.array([example.label for example in examples])
    assert ([e.first > e.second for e in examples] == swapped.astype(bool)).all()
    # Binomial: four standard deviations.
    assert abs(swapped.mean() - 0.5) < 2 / np.sqrt(len(examples))


def test_by_hand():
    assert pack_rows([5, 3, 8, 2], 8, 4) == [[2], [0, 1], [3]]
    # The fullest row with room for it: 3 joins 7, not 5.
    assert pack_rows([7, 5, 3], 10, 4) == [[0, 2], [1]]
    assert pack_rows([], 10, 4) == []


@pytest.mark.parametrize("most", [1, 2, 8])
def test_every_example_once_within_the_limits(most):
    generator = random.Random(0)
    lengths = [generator.randint(5, 128) for _ in range(2000)]
    rows = pack_rows(lengths, 128, most)
    assert sorted(index for row in rows for index in row) == list(range(2000))
    assert max(sum(lengths[index] for index in row) for row in rows) <= 128
    assert max(map(len, rows)) <= most
    if most == 8:
        # A row stays open only for lack of short examples: uniform lengths fill to 99 %.
        assert sum(lengths) / (128 * len(rows)) > 0.98


def test_packs_one_example_per_row():
    assert pack_rows([3, 3, 3], 128, 1) == [[0], [1], [2]]


PAD, CLS, SEP = 0, 1, 2
LENGTH, MOST = 40, 3


def random_examples(num_tokens, count, seed):
    generator = random.Random(seed)

    def span():
        start = generator.randrange(num_tokens - 5)
        return start, start + generator.randint(1, 5)

    return [
        Example(span(), span() if generator.random() < 0.5 else (7, 7), generator.randint(0, 1))
        for _ in range(count)
    ]


@pytest.mark.parametrize("num_separators", [1, 2])
def test_rows_equal_a_loop(num_separators):
    tokens = np.arange(100, 160, dtype=np.int32)
    block = TokenBlock(tokens, [0, 60], [0, 1], [0])
    examples = random_examples(60, 9, seed=num_separators)
    packed = [[4, 0, 8], [2], [7, 1], [3, 6, 5]]
    tokenizer = types.SimpleNamespace(
        pad_id=PAD, cls_id=CLS, sep_id=SEP, num_separators=num_separators
    )
    spans = rows.spans_of(examples)
    labels = [example.label for example in examples]
    arrays = rows.lay_out(block, spans, labels, packed, LENGTH, MOST, tokenizer)
    lengths = rows.lengths_of(spans, num_separators)
    for number, row in enumerate(packed):
        ids, of_examples = [], {"example_lengths": [], "first_lengths": [], "pair_labels": []}
        for index in row:
            first, second = (list(tokens[begin:end]) for begin, end in examples[index][:2])
            example_ids = [CLS, *first, *[SEP] * (num_separators if second else 1)]
            of_examples["first_lengths"].append(len(example_ids))
            example_ids += [*second, SEP] if second else []
            assert len(example_ids) == lengths[index]
            of_examples["example_lengths"].append(len(example_ids))
            of_examples["pair_labels"].append(examples[index].label)
            ids += example_ids
        assert arrays["token_ids"][number].tolist() == ids + [PAD] * (LENGTH - len(ids))
        for name, values in of_examples.items():
            assert arrays[name][number].tolist() == values + [0] * (MOST - len(row))


def test_spans_of_an_array():
    values, starts, lengths = np.array([5, 6, 7, 8]), np.array([2, 0, 1]), np.array([1, 2, 0])
    assert rows.concatenated_spans(values, starts, lengths).tolist() == [7, 5, 6]


def test_no_examples():
    assert rows.spans_of([]).shape == (0, 4)
    assert rows.lengths_of(rows.spans_of([]), 2).tolist() == []
