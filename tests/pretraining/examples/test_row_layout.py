import random
import types

import numpy as np
import pytest

from keras_bert_impl.pretraining.examples import row_layout
from keras_bert_impl.pretraining.examples.pairs import Example, TokenBlock

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
    made = random_examples(60, 9, seed=num_separators)
    packed = [[4, 0, 8], [2], [7, 1], [3, 6, 5]]
    tokenizer = types.SimpleNamespace(
        pad_id=PAD, cls_id=CLS, sep_id=SEP, num_separators=num_separators
    )
    spans = row_layout.spans_of(made)
    labels = [example.label for example in made]
    arrays = row_layout.lay_out(block, spans, labels, packed, LENGTH, MOST, tokenizer)
    lengths = row_layout.lengths_of(spans, num_separators)
    for number, row in enumerate(packed):
        ids, of_examples = [], {"example_lengths": [], "first_lengths": [], "pair_labels": []}
        for index in row:
            first, second = (list(tokens[begin:end]) for begin, end in made[index][:2])
            one = [CLS, *first, *[SEP] * (num_separators if second else 1)]
            of_examples["first_lengths"].append(len(one))
            one += [*second, SEP] if second else []
            assert len(one) == lengths[index]
            of_examples["example_lengths"].append(len(one))
            of_examples["pair_labels"].append(made[index].label)
            ids += one
        assert arrays["token_ids"][number].tolist() == ids + [PAD] * (LENGTH - len(ids))
        for name, values in of_examples.items():
            assert arrays[name][number].tolist() == values + [0] * (MOST - len(row))


def test_spans_of_an_array():
    values, starts, lengths = np.array([5, 6, 7, 8]), np.array([2, 0, 1]), np.array([1, 2, 0])
    assert row_layout.concatenated_spans(values, starts, lengths).tolist() == [7, 5, 6]


def test_no_examples():
    assert row_layout.spans_of([]).shape == (0, 4)
    assert row_layout.lengths_of(row_layout.spans_of([]), 2).tolist() == []
