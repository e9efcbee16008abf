"""Simulates how well pre-training shuffles the rows of a corpus, and how much memory it needs.

    PYTHONPATH=. python tools/bench/reading_order.py --rows 1e6 20e6 200e6 --row-bytes 300

`prepare` assigns rows to 16 open shards in a fixed cycle, so a shard contains every 16th row of a
section of the corpus. Training reads the shards in random order and shuffles the rows of several
shards together. The simulation draws batches in this way and reads no files.

A corpus often contains its sources one after the other. The table therefore shows the standard
deviation of a batch's mean position, relative to rows drawn at random (1 is best), and the fraction
of batches from only one half of the corpus.
"""

import argparse

import numpy as np

from keras_bert_impl.pretraining.masking.dataset import SHUFFLED_ROWS

_OPEN_SHARDS, _SHARD_ROWS = 16, 32_768  # defaults of `prepare`
_BATCHES = 4000  # number of simulated batches


def main(arguments=None):
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="+", type=float, default=[1e6, 20e6, 200e6])
    parser.add_argument("--row-bytes", type=float, required=True, help="of a serialized row")
    parser.add_argument("--batch-size", type=int, default=256)
    options = parser.parse_args(arguments)
    print(
        "| rows | shards | shuffled together | memory, MB | mean place | from one half |\n"
        "|---|---|---|---|---|---|"
    )
    for rows in map(int, options.rows):
        for together in (_SHARD_ROWS, SHUFFLED_ROWS):
            places = batch_places(rows, together, options.batch_size)
            cells = [f"{rows:,}", f"{-(-rows // _SHARD_ROWS):,}", f"{min(together, rows):,}"]
            # one group is in use while the next group is read
            cells += [f"{2 * min(together, rows) * options.row_bytes / 1e6:,.0f}"]
            cells += [f"{spread_of(places):.1f}", f"{100 * from_one_half(places):.1f} %"]
            print(f"| {' | '.join(cells)} |")


def batch_places(rows, together, batch_size, batches=_BATCHES, seed=0):
    """Draws batches from groups of shards.

    Args:
        rows: number of rows of the corpus.
        together: number of rows that are shuffled together.

    Returns:
        float array [batches, batch_size]: position of each row in the corpus, from 0 to 1.
    """
    generator = np.random.default_rng(seed)
    stretch = min(1.0, _OPEN_SHARDS * _SHARD_ROWS / rows)  # number of rows in a shard's section
    shards = max(1, rows // _SHARD_ROWS)
    group = min(max(1, together // _SHARD_ROWS), shards)
    stretches = max(1, round(1 / stretch))
    places = np.empty((batches, batch_size))
    for batch in places:
        # Shards of a group, without repetition. Each shard belongs to one section.
        drawn = generator.choice(shards, group, replace=False) % stretches
        of_rows = drawn[generator.integers(group, size=batch_size)]
        batch[:] = (of_rows + generator.random(batch_size)) / stretches
    return places


def spread_of(places):
    """Returns the standard deviation of a batch's mean position, relative to random rows."""
    independent = np.sqrt(1 / 12 / places.shape[1])
    return np.std(places.mean(axis=1)) / independent


def from_one_half(places):
    """Returns the fraction of batches with rows from only one half of the corpus."""
    in_first = (places < 0.5).sum(axis=1)
    return np.mean((in_first == 0) | (in_first == places.shape[1]))


if __name__ == "__main__":
    main()
