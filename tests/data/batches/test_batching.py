import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.batches import batching
from tests.tasks.helpers import WORDS, examples, tokenizer

TEXTS, _ = examples(count=1000)
NUMBERS = np.arange(len(TEXTS), dtype="int32")


TOKENIZER = tokenizer()


def tokenized(texts=TEXTS, max_length=16, widths=None):
    return batching.tokenize_texts(texts, TOKENIZER, max_length, widths)


def epoch(data, number, batch_size=32, **kwargs):
    """Returns the numbers of the texts in each batch of an epoch."""
    per_epoch = batching.num_batches(data, batch_size)
    batches = batching.training_batches(
        data, (NUMBERS[: data.num_texts],), batch_size, first_batch=number * per_epoch, **kwargs
    )
    return [rows.numpy().tolist() for _, rows in batches]


def test_features_are_those_of_the_tokenizer_padded_to_the_longest():
    texts = ["good film", ("a plot", "the film is not good"), "", ("", "dull")]
    features = tokenized(texts, max_length=8).features(tf.range(4, dtype=tf.int64))
    expected = TOKENIZER(texts, length=8)
    for name, feature in features.items():
        np.testing.assert_array_equal(feature, expected[name])


def test_long_texts_are_cut_to_max_length():
    lengths = tokenized(["good " * 100, "good"], max_length=7).lengths
    np.testing.assert_array_equal(lengths, [7, 3])


class _Counting:
    """A tokenizer that records the largest number of characters per call."""

    def __init__(self):
        self.most, self.can_be_cut, self.pad_id = 0, True, TOKENIZER.pad_id

    def __call__(self, texts, length):
        self.most = max(self.most, sum(map(len, texts)))
        return TOKENIZER(texts, length=length)


def test_tokenizes_only_the_beginning_of_long_texts():
    texts = [
        "good film " * 2000,
        "\x01\x02 a\u0301" * 3000 + " good film",
        "x" * 20_000,
        "good",
        "",
    ]
    texts += [" ".join(["\x01"] * 10 + ["a b"]) * 3000]  # few tokens per character
    counting = _Counting()
    rows = batching.tokenize_texts(texts * 20, TOKENIZER, 16)
    data = batching.tokenize_texts(texts[:1] * 200, counting, 16)
    assert counting.most < 200 * 16 * 40
    np.testing.assert_array_equal(data.lengths, [16] * 200)
    expected = TOKENIZER(texts * 20, length=16)
    features = rows.features(tf.range(len(texts) * 20, dtype=tf.int64))
    for name, feature in features.items():
        np.testing.assert_array_equal(feature, expected[name])


def test_widths_bound_the_number_of_shapes():
    data = tokenized(widths=batching.doublings(16, first=4))
    widths = {
        features["token_ids"].shape[1]
        for features, _ in batching.training_batches(data, (NUMBERS,), 8, seed=0, steps=100)
    }
    assert widths <= {4, 8, 16} and len(widths) > 1


def test_one_width_is_a_static_shape():
    data = batching.training_batches(tokenized(widths=[16]), (NUMBERS,), 8, seed=0)
    assert data.element_spec[0]["token_ids"].shape.as_list() == [None, 16]


@pytest.mark.parametrize("shuffle", [True, False])
def test_epoch_has_every_text_once(shuffle):
    batches = epoch(tokenized(), 1, seed=3, shuffle=shuffle)
    numbers = sum(batches, [])
    assert sorted(numbers) == NUMBERS.tolist()
    assert (numbers == NUMBERS.tolist()) is not shuffle
    assert sorted(map(len, batches)) == [8] + [32] * 31  # 1000 = 31 * 32 + 8


def test_seed_and_epoch_determine_the_order():
    data = tokenized()
    assert epoch(data, 1, seed=3) == epoch(data, 1, seed=3)
    assert epoch(data, 1, seed=3) != epoch(data, 0, seed=3)
    assert epoch(data, 1, seed=3) != epoch(data, 1, seed=4)


def test_resumed_run_sees_the_batches_of_an_uninterrupted_one():
    data = tokenized()
    undisturbed = batching.training_batches(data, (NUMBERS,), 32, seed=3, steps=85)
    resumed = batching.training_batches(data, (NUMBERS,), 32, seed=3, first_batch=45, steps=40)
    assert undisturbed.cardinality() == 85 and resumed.cardinality() == 40
    for (_, expected), (_, rows) in zip(undisturbed.skip(45), resumed, strict=True):
        np.testing.assert_array_equal(rows, expected)


def test_sorted_windows_leave_little_padding():
    def waste(batches):
        real = sum(int(tf.reduce_sum(features["padding_mask"])) for features, _ in batches)
        return 1 - real / sum(int(tf.size(features["token_ids"])) for features, _ in batches)

    data = tokenized()
    in_order = list(batching.training_batches(data, (NUMBERS,), 32, 0, shuffle=False).take(32))
    shuffled = list(batching.training_batches(data, (NUMBERS,), 32, 0).take(32))
    # Lengths are uniform from 3 to 13, mean 8, so unsorted batches are about 13 long. A window of
    # 256 has about 23 texts of each length; a batch of 32 spans three lengths at most: 1.5 / 8.
    assert waste(in_order) > 0.35
    assert waste(shuffled) < 1 / 8


@pytest.mark.parametrize("count, most", [(100, 0.36), (400, 0.22), (1000, 0.22)])
def test_few_texts_meet_again_in_the_next_epoch(count, most):
    """If batches never changed, in-batch negatives would always be the same."""
    data = tokenized(TEXTS[:count])
    shares = []
    for number in range(4):
        place = np.empty(count, int)  # batch of each text in the next epoch
        for batch, rows in enumerate(epoch(data, number + 1, seed=0)):
            place[rows] = batch
        same = total = 0
        for rows in epoch(data, number, seed=0):
            together = np.bincount(place[rows])
            same += np.sum(together * (together - 1))
            total += len(rows) * (len(rows) - 1)
        shares.append(same / total)
    # Random: 31 / (count - 1), or 31 %, 8 % and 3 %. With windows of 16 batches: 90 % and 75 %.
    assert np.mean(shares) < most


@pytest.mark.parametrize(
    "batches, window", [(1, 1), (4, 1), (13, 3), (63, 15), (64, 16), (9999, 16)]
)
def test_windows_are_a_share_of_an_epoch(batches, window):
    assert batching.window_batches(batches) == window


def test_pipeline_has_no_python_functions():
    data = batching.training_batches(tokenized(), (NUMBERS,), 32, seed=0)
    graph = data._as_serialized_graph().numpy()
    assert b"PyFunc" not in graph and b"EagerPyFunc" not in graph


def test_words_of_the_helpers_are_single_tokens():
    np.testing.assert_array_equal(tokenized([" ".join(WORDS[:9])]).lengths, [11])
