"""Batches depend on the step alone, whether resumed or read by several workers."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.pretraining.building import masking as masking_of
from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.pretraining.masking import dataset as masking_dataset
from keras_bert_impl.pretraining.masking.dataset import pretraining_dataset
from keras_bert_impl.pretraining.masking.masking import Masking
from keras_bert_impl.pretraining.settings import PretrainSettings
from keras_bert_impl.utils.errors import InputError
from tests.pretraining.masking.helpers import BATCH, assert_same, take


def unmasked(batch):
    """Returns the rows of a batch before masking, as tuples."""
    tokens = batch["token_ids"].copy()
    for row, positions, ids, weights in zip(
        tokens, batch["masked_positions"], batch["label_masked_lm"], batch["weight_masked_lm"]
    ):
        row[positions[weights == 1]] = ids[weights == 1]
    return [tuple(row) for row in tokens]


@pytest.fixture(scope="module")
def num_rows(records_directory):
    return records.read_manifest(records_directory)["splits"]["train"]["rows"]


@pytest.fixture(scope="module")
def two_epochs(records_directory, num_rows):
    assert num_rows % BATCH  # so that a batch spans two epochs
    return take(records_directory, 2 * num_rows // BATCH + 1)


def test_form(records_directory):
    manifest = records.read_manifest(records_directory)
    examples = max(manifest["splits"][split]["examples_in_fullest_row"] for split in records.SPLITS)
    slots = Masking().num_slots(32, examples)
    features, labels, weights = pretraining_dataset(records_directory, BATCH).element_spec
    row, predictions = tf.TensorSpec([BATCH, 32], tf.int32), tf.TensorSpec([BATCH, slots], tf.int32)
    pairs = tf.TensorSpec([BATCH, examples], tf.int32)
    assert features == {
        "token_ids": row,
        "segment_ids": row,
        "position_ids": row,
        "example_ids": row,
        "masked_positions": predictions,
        "cls_positions": pairs,
    }
    assert labels == {"masked_lm": predictions, "next_sentence": pairs}
    assert weights == {
        "masked_lm": tf.TensorSpec([BATCH, slots], tf.float32),
        "next_sentence": tf.TensorSpec([BATCH, examples], tf.float32),
    }


def test_training_does_not_wait_for_the_autotuner(records_directory):
    assert pretraining_dataset(records_directory, BATCH).options().autotune.enabled is False


def test_rows_are_consistent(two_epochs, tokenizer):
    for batch in two_epochs[:4]:
        examples = batch["example_ids"]
        is_cls = unmasked_ids(batch) == tokenizer.cls_id
        assert (is_cls == ((examples > 0) & (batch["position_ids"] == 0))).all()
        assert ((examples == 0) == (unmasked_ids(batch) == tokenizer.pad_id)).all()
        # Segment 1 starts after the first [SEP] of its example.
        is_sep = unmasked_ids(batch) == tokenizer.sep_id
        for row in range(BATCH):
            for example in range(1, examples[row].max() + 1):
                mine = examples[row] == example
                before = np.cumsum(is_sep[row][mine]) - is_sep[row][mine]
                assert (batch["segment_ids"][row][mine] == before).all()
        used = batch["weight_next_sentence"] == 1
        assert (used.sum(axis=1) == examples.max(axis=1)).all()
        assert (np.take_along_axis(is_cls, batch["cls_positions"], axis=1)[used]).all()
        assert not batch["cls_positions"][~used].any()


def unmasked_ids(batch):
    return np.array(unmasked(batch))


def test_an_epoch_has_every_row_once_in_a_new_order_with_new_masks(two_epochs, num_rows):
    rows = [row for batch in two_epochs for row in unmasked(batch)]
    masked = [tuple(row) for batch in two_epochs for row in batch["token_ids"]]
    first, second = rows[:num_rows], rows[num_rows : 2 * num_rows]
    assert sorted(first) == sorted(second)
    assert first != second
    masks = dict(zip(first, masked))
    changed = sum(masks[row] != new for row, new in zip(second, masked[num_rows:]))
    # About 4 of 28 tokens are chosen; the same choice recurs in one row of thousands.
    assert changed > 0.98 * num_rows


def test_static_masks_repeat(records_directory, num_rows):
    settings = PretrainSettings(dupe_factor=1)
    batches = take(records_directory, 2 * num_rows // BATCH + 1, masking=masking_of(settings))
    masked = [tuple(row) for batch in batches for row in batch["token_ids"]]
    first, second = masked[:num_rows], masked[num_rows : 2 * num_rows]
    assert sorted(first) == sorted(second)
    assert first != second


def test_shuffle_is_global(records_directory, two_epochs, num_rows):
    serialized_order = []
    manifest = records.read_manifest(records_directory)
    for shard in manifest["splits"]["train"]["shards"]:
        dataset = tf.data.TFRecordDataset(str(records_directory / shard["file"]), "GZIP")
        serialized = tf.constant(list(dataset.as_numpy_iterator()))
        rows = records.parse_rows(serialized, manifest)
        serialized_order += [tuple(row) for row in rows["token_ids"].numpy()]
    place = {row: index for index, row in enumerate(serialized_order)}
    places = [place[row] for batch in two_epochs for row in unmasked(batch)][:num_rows]
    neighbours = np.mean(np.abs(np.diff(places)) == 1)
    assert neighbours < 0.1


@pytest.mark.parametrize("step", [5, 23])
def test_start_row_resumes_exactly(records_directory, two_epochs, step):
    resumed_batches = take(records_directory, 3, start_row=step * BATCH)
    for resumed, batch in zip(resumed_batches, two_epochs[step:]):
        assert_same(resumed, batch)


@pytest.mark.parametrize("group", [1, 3])  # shards of 64 rows that are shuffled together
def test_a_part_of_the_shards_is_shuffled_together(monkeypatch, records_directory, num_rows, group):
    monkeypatch.setattr(masking_dataset, "SHUFFLED_ROWS", 64 * group)
    batches = take(records_directory, 2 * num_rows // BATCH + 1)
    rows = [row for batch in batches for row in unmasked(batch)]
    assert sorted(rows[:num_rows]) == sorted(rows[num_rows : 2 * num_rows])
    # The rows of a group follow one another, from all its shards.
    manifest, shard_of = records.read_manifest(records_directory), {}
    for number, shard in enumerate(manifest["splits"]["train"]["shards"]):
        serialized = tf.data.TFRecordDataset(str(records_directory / shard["file"]), "GZIP")
        parsed = records.parse_rows(tf.constant(list(serialized.as_numpy_iterator())), manifest)
        shard_of |= {tuple(row): number for row in parsed["token_ids"].numpy()}
    first = [shard_of[row] for row in rows[: 64 * group]]
    assert len(set(first)) == group and len(set(first[:20])) == group
    for step in (1, 4 * group // 3, 64 * group // BATCH + 1, num_rows // BATCH):
        (resumed,) = take(records_directory, 1, start_row=step * BATCH)
        assert_same(resumed, batches[step])


@pytest.mark.slow
def test_start_row_at_the_edges_of_shards_and_epochs(
    monkeypatch, records_directory, num_rows, tokenizer
):
    monkeypatch.setattr(masking_dataset, "SHUFFLED_ROWS", 64)

    def rows(**keywords):
        return pretraining_dataset(records_directory, 1, tokenizer=tokenizer, **keywords)

    whole = [
        tuple(features["token_ids"].numpy()[0]) for features, _, _ in rows().take(num_rows + 2)
    ]
    for row in [63, 64, num_rows - 1, num_rows]:
        features, _, _ = next(iter(rows(start_row=row)))
        assert tuple(features["token_ids"].numpy()[0]) == whole[row]


def test_distant_steps_start_immediately(records_directory):
    (batch,) = take(records_directory, 1, start_row=10**12)
    assert batch["token_ids"].shape == (BATCH, 32)


@pytest.mark.parametrize("num_shards", [2, 3])
def test_workers_share_each_global_batch(records_directory, two_epochs, num_shards):
    parts = [
        take(records_directory, 12, shard_index=index, num_shards=num_shards)
        for index in range(num_shards)
    ]
    for step, batch in enumerate(two_epochs[:12]):
        union = {name: np.concatenate([part[step][name] for part in parts]) for name in batch}
        assert_same(union, batch)


def test_seed_changes_order_and_masks(records_directory, two_epochs):
    (batch,) = take(records_directory, 1, seed=1)
    assert set(unmasked(batch)) != set(unmasked(two_epochs[0]))


def test_held_out_is_read_once_with_fixed_masks(records_directory):
    manifest = records.read_manifest(records_directory)
    count = manifest["splits"]["held_out"]
    assert count["rows"] % BATCH
    batches = take(records_directory, 100, split="held_out")
    assert len(batches) == -(-count["rows"] // BATCH)
    rows = [row for batch in batches for row in unmasked(batch) if any(row)]
    assert len(rows) == count["rows"]
    assert sum(batch["weight_next_sentence"].sum() for batch in batches) == count["examples"]
    # Rows that fill up the last batch have weight zero.
    empty = ~(batches[-1]["example_ids"] > 0).any(axis=1)
    assert empty.sum() == BATCH - count["rows"] % BATCH
    assert not batches[-1]["weight_masked_lm"][empty].any()
    for first, second in zip(batches, take(records_directory, 100, split="held_out")):
        assert_same(first, second)


def test_masked_lm_without_pairs(tmp_path, corpus, tokenizer):
    prepare(corpus, tmp_path / "r", tokenizer, length=32, objective="mlm", num_workers=1)
    features, labels, weights = pretraining_dataset(tmp_path / "r", BATCH).element_spec
    assert "cls_positions" not in features
    assert set(labels) == set(weights) == {"masked_lm"}


def test_pipeline_has_no_host_code_and_no_state(records_directory):
    # The graph must not contain ops that `tf.data` cannot checkpoint or serialize.
    graph = pretraining_dataset(records_directory, BATCH)._as_serialized_graph().numpy()
    graph_def = tf.compat.v1.GraphDef.FromString(graph)
    nodes = list(graph_def.node)
    for function in graph_def.library.function:
        nodes += function.node_def
    names = {node.op for node in nodes}
    assert "TFRecordDatasetV2" in names or "TFRecordDataset" in names
    assert not [name for name in names if "PyFunc" in name or "Random" in name or "Shuffle" in name]


def test_records_on_a_bucket_give_the_same_batches(records_directory, bucket):
    for arguments in {}, {"start_row": 700}, {"split": "held_out"}:
        expected = pretraining_dataset(records_directory, BATCH, **arguments).take(5)
        for batches in zip(pretraining_dataset(bucket, BATCH, **arguments).take(5), expected):
            tf.nest.map_structure(np.testing.assert_array_equal, *batches)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"split": "test"}, "split must be .*train.*held_out"),
        ({"num_shards": 5}, "batch_size must be a multiple of num_shards"),
        ({"shard_index": 1}, r"shard_index must be an integer in \[0, 1\), got 1"),
        ({"start_row": -1}, "start_row must be an integer in .*, got -1"),
        ({"start_row": 1, "split": "held_out"}, "start_row .* only for the train split"),
        ({"objectives": ["masked_words"]}, "objectives must be among"),
        ({"objectives": []}, "objectives must be among"),
    ],
)
def test_wrong_arguments(records_directory, keywords, message):
    with pytest.raises(InputError, match=message):
        pretraining_dataset(records_directory, BATCH, **keywords)


def test_left_to_right_labels_are_the_next_tokens(records_directory, tokenizer):
    (batch,) = take(records_directory, 1, objectives=["left_to_right"])
    assert set(batch) == {
        "token_ids",
        "segment_ids",
        "position_ids",
        "example_ids",
        "label_left_to_right",
        "weight_left_to_right",
    }
    tokens, examples = batch["token_ids"], batch["example_ids"]
    assert not (tokens == tokenizer.mask_id).any()
    labels, weights = batch["label_left_to_right"], batch["weight_left_to_right"]
    for row in range(BATCH):
        for place in range(32):
            there = place < 31 and examples[row, place] == examples[row, place + 1] > 0
            assert weights[row, place] == there
            assert labels[row, place] == (tokens[row, place + 1] if there else 0)


def test_features_of_masked_objectives(records_directory, two_epochs):
    (batch,) = take(
        records_directory,
        1,
        objectives=["masked_lm", "span_boundary", "replaced_token"],
        masking=Masking(unit="word"),
    )
    # Every word of this language is one token, so masking words equals masking tokens.
    for name in ("token_ids", "masked_positions", "label_masked_lm"):
        np.testing.assert_array_equal(batch[name], two_epochs[0][name])
    np.testing.assert_array_equal(batch["label_span_boundary"], batch["label_masked_lm"])
    for name in ("span_starts", "span_ends"):
        np.testing.assert_array_equal(batch[name], batch["masked_positions"])
    draws = batch["replacement_draws"][batch["weight_masked_lm"] == 1]
    # Uniform in [0, 2^24): the mean of n has a deviation of 2^24 / sqrt(12 n); four of them.
    assert draws.min() >= 0 and draws.max() < 2**24
    assert abs(draws.mean() / 2**24 - 0.5) < 4 / np.sqrt(12 * len(draws))


def test_objectives_without_labels(records_directory):
    with pytest.raises(InputError, match="no labels for sentence_order"):
        take(records_directory, 1, objectives=["masked_lm", "sentence_order"])


def test_sentence_order(tmp_path, corpus, tokenizer):
    manifest = prepare(
        corpus, tmp_path / "r", tokenizer, length=32, objective="mlm_sop", num_workers=1
    )
    count = manifest["splits"]["train"]
    # Binomial: four standard deviations.
    share = count["pairs_labelled_1"] / count["examples"]
    assert abs(share - 0.5) < 2 / np.sqrt(count["examples"])
    (batch,) = take(tmp_path / "r", 1)
    text = " ".join(corpus.read_text().split())
    checked = set()
    for row, ids in enumerate(unmasked(batch)):
        for example in range(1, batch["example_ids"][row].max() + 1):
            mine = batch["example_ids"][row] == example
            in_second = batch["segment_ids"][row][mine] == 1
            words = np.array([tokenizer.vocabulary[i] for i in np.array(ids)[mine]])
            first, second = words[~in_second][1:-1], words[in_second][:-1]
            label = batch["label_sentence_order"][row, example - 1]
            if len(words) == 32:
                continue  # tokens between the two may have been trimmed
            whole = [*second, *first] if label else [*first, *second]
            assert " ".join(whole) in text
            checked.add(int(label))
    assert checked == {0, 1}
