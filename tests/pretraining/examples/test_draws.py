"""Random draws depend only on their names, in every process and on every machine."""

from keras_bert_impl.pretraining.examples import draws

STABLE_HASH = 8268764814506119314
STREAM = 0.5032568568721374


def test_values_are_fixed():
    # A fixed value: a change would silently change every prepared corpus.
    assert draws.stable_hash(0, "pairs", 1) == STABLE_HASH
    assert draws.stream(0, "pairs", 1).random() == STREAM
    assert draws.stable_hash(0, "pairs", 2) != STABLE_HASH


def test_ranges():
    generator = draws.stream(1)
    assert {draws.integer(generator, 3, 5) for _ in range(200)} == {3, 4, 5}
    assert sorted(draws.permutation(generator, 100)) == list(range(100))
    assert all(0 <= draws.uniform(index) < 1 for index in range(100))


def test_uniform_is_uniform():
    # 20,000 draws: the mean of a uniform has a standard deviation of 0.289 / √20000 = 0.002.
    mean = sum(draws.uniform("mean", index) for index in range(20_000)) / 20_000
    assert abs(mean - 0.5) < 4 * 0.00204
