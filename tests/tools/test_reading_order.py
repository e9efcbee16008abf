"""tools/bench/reading_order.py: batches follow the rules of the reader."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def bench(bench):
    return bench("reading_order")


def test_independent_rows_have_a_spread_of_one(bench):
    places = np.random.default_rng(0).random((20_000, 64))
    assert bench.spread_of(places) == pytest.approx(1, abs=0.03)
    assert bench.from_one_half(places) == 0


def test_a_batch_of_one_shard_comes_from_one_stretch(bench):
    rows = 40 * 16 * 32_768
    places = bench.batch_places(rows, together=32_768, batch_size=50, batches=300)
    assert np.ptp(places, axis=1).max() <= 1 / 40
    assert bench.from_one_half(places) == 1
    # The mean of one place instead of 50: the root of 50 times as far from the middle.
    assert bench.spread_of(places) == pytest.approx(np.sqrt(50), rel=0.1)


def test_a_batch_of_several_shards_comes_from_as_many_stretches(bench):
    rows = 400 * 16 * 32_768
    places = bench.batch_places(rows, together=8 * 32_768, batch_size=200, batches=300)
    stretches = [len(np.unique(np.floor(batch * 400))) for batch in places]
    assert 7 < np.mean(stretches) <= 8
    assert bench.spread_of(places) == pytest.approx(np.sqrt(200 / 8), rel=0.15)


def test_a_small_corpus_is_mixed_whole(bench):
    places = bench.batch_places(5000, together=262_144, batch_size=64, batches=2000)
    assert bench.spread_of(places) == pytest.approx(1, abs=0.1)


def test_the_table(bench, capsys):
    bench.main(["--rows", "1e6", "--row-bytes", "300"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and lines[2].startswith("| 1,000,000 | 31 | 32,768 | 20 |")
