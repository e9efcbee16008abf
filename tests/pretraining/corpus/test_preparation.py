"""Preparing a corpus: the same bytes for any number of workers, complete or not at all."""

import json
import re
import subprocess
import sys
import textwrap
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.pretraining.corpus import blocks, preparation, readers
from keras_bert_impl.pretraining.corpus.cutting import split_of
from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.tokenizers import Tokenizer


def read_rows(directory, split="train"):
    """Returns all records of a split in shard order, as a dict of numpy arrays."""
    manifest = records.read_manifest(directory)
    files = [str(directory / shard["file"]) for shard in manifest["splits"][split]["shards"]]
    serialized = list(tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator())
    rows = records.parse_rows(tf.constant(serialized), manifest)
    return {name: value.numpy() for name, value in rows.items()}


def segments(row, tokenizer):
    """Returns (first, second, label) of each example of a row, as texts."""
    start = 0
    for length, first_length, label in zip(
        row["example_lengths"], row["first_lengths"], row["pair_labels"]
    ):
        if length:
            ids = row["token_ids"][start : start + length]
            assert ids[0] == tokenizer.cls_id
            assert ids[first_length - 1] == ids[-1] == tokenizer.sep_id
            pieces = [tokenizer.id_to_token(int(index)) for index in ids]
            yield " ".join(pieces[1 : first_length - 1]), " ".join(pieces[first_length:-1]), label
        start += length
    assert not row["token_ids"][start:].any()


def each(rows):
    for index in range(len(rows["row_id"])):
        yield {name: value[index] for name, value in rows.items()}


def test_rows_hold_text_of_the_corpus(records_directory, corpus, tokenizer):
    documents = [" ".join(text.split()) for text in corpus.read_text().split("\n\n")]
    manifest = records.read_manifest(records_directory)
    for split in records.SPLITS:
        rows = read_rows(records_directory, split)
        count = manifest["splits"][split]
        pairs = [pair for row in each(rows) for pair in segments(row, tokenizer)]
        assert len(pairs) == count["examples"]
        assert sum(label for _, _, label in pairs) == count["pairs_labelled_1"]
        assert (rows["example_lengths"] > 0).sum(axis=1).max() == count["examples_in_fullest_row"]
        assert rows["example_lengths"].sum() == count["tokens"]
        assert len(set(rows["row_id"])) == count["rows"] == len(rows["row_id"])
        for first, second, label in pairs[:100]:
            homes = [
                {number for number, text in enumerate(documents) if part in text}
                for part in (first, second)
            ]
            assert homes[0] and homes[1]
            # Long segments occur in one document only, so the label can be checked.
            if min(len(first), len(second)) > 20:
                assert bool(homes[0] & homes[1]) != bool(label)


def test_held_out_documents_share_nothing_with_training(records_directory, corpus, tokenizer):
    manifest = records.read_manifest(records_directory)
    held_out, train = (manifest["splits"][split]["documents"] for split in ("held_out", "train"))
    assert held_out + train == 400
    # Binomial(400, 0.1): 40 ± 4 standard deviations of 6.
    assert abs(held_out - 40) < 24
    sentences = {
        split: {
            part
            for row in each(read_rows(records_directory, split))
            for pair in segments(row, tokenizer)
            for part in pair[:2]
            if len(part) > 20
        }
        for split in records.SPLITS
    }
    assert sentences["train"] and sentences["held_out"]
    assert not sentences["train"] & sentences["held_out"]


def test_manifest(records_directory, tokenizer):
    manifest = json.loads((records_directory / "manifest.json").read_text())
    assert manifest["documents"] == 400 and manifest["duplicate_documents"] == 0
    assert manifest["tokenizer"] == {
        "fingerprint": tokenizer.fingerprint,
        "vocabulary_size": tokenizer.vocabulary_size,
    }
    assert manifest["settings"]["length"] == 32
    train = manifest["splits"]["train"]
    assert train["fill"] == pytest.approx(train["tokens"] / (32 * train["rows"]), abs=1e-6)
    assert sum(shard["rows"] for shard in train["shards"]) == train["rows"]
    assert max(shard["rows"] for shard in train["shards"]) <= 64
    assert Tokenizer.from_pretrained(records_directory).fingerprint == tokenizer.fingerprint
    records.check_shards(records_directory)


@pytest.mark.slow
def test_number_of_workers_changes_no_byte(
    tmp_path, corpus, tokenizer, records_directory, monkeypatch
):
    monkeypatch.setattr(preparation, "_SECONDS_ALONE", 0)  # workers build all blocks but the first
    prepare(
        corpus,
        tmp_path / "two",
        tokenizer,
        length=32,
        held_out=0.1,
        block_characters=4000,
        num_open_shards=4,
        rows_per_shard=64,
        num_workers=2,
        seed=3,
    )
    files = sorted(path.name for path in records_directory.iterdir())
    assert files == sorted(path.name for path in (tmp_path / "two").iterdir())
    for name in files:
        assert (tmp_path / "two" / name).read_bytes() == (records_directory / name).read_bytes()


def test_small_corpus_starts_no_process(
    tmp_path, corpus, tokenizer, records_directory, monkeypatch
):
    monkeypatch.delattr(ProcessPoolExecutor, "__init__")
    manifest = prepare(
        corpus,
        tmp_path / "two",
        tokenizer,
        length=32,
        held_out=0.1,
        block_characters=4000,
        num_open_shards=4,
        rows_per_shard=64,
        num_workers=2,
        seed=3,
    )
    assert manifest == records.read_manifest(records_directory)


def test_rows_of_a_block_are_spread_over_shards(records_directory):
    rows = read_rows(records_directory)
    blocks_of_rows = rows["row_id"] >> 32
    assert len(set(blocks_of_rows)) > 5
    # Rows of a shard are neither in packing order nor all from one block.
    assert (np.diff(rows["row_id"]) < 0).mean() > 0.2


def test_seed_and_passes(tmp_path, write_corpus, tokenizer):
    corpus = write_corpus(tmp_path / "corpus.txt", 60)
    ids = {}
    for name, keywords in {"a": {}, "b": {"seed": 1}, "c": {"passes": 2}}.items():
        prepare(corpus, tmp_path / name, tokenizer, length=32, num_workers=1, **keywords)
        rows = read_rows(tmp_path / name)
        ids[name] = {tuple(tokens) for tokens in rows["token_ids"]}
    assert ids["a"] != ids["b"]
    # The first pass is the same; the second makes other pairs.
    assert ids["a"] < ids["c"] and len(ids["c"]) > 1.5 * len(ids["a"])


def test_duplicates_are_dropped(tmp_path, tokenizer):
    path = tmp_path / "corpus.txt"
    path.write_text("aa ab ac.\nad ae.\n\n" * 5 + "ba bb.\n\n" * 3)
    manifest = prepare(path, tmp_path / "records", tokenizer, length=16, num_workers=1)
    assert (manifest["documents"], manifest["duplicate_documents"]) == (8, 6)
    assert manifest["splits"]["train"]["documents"] == 2


def test_hash_set_finds_values_in_both_halves(monkeypatch):
    monkeypatch.setattr(blocks.HashSet, "_MOST_RECENT", 8)
    hashes = blocks.HashSet()
    values = [(index * 0x9E3779B97F4A7C15) % 2**64 for index in range(50)]
    assert all(hashes.add(value) for value in values)
    assert not any(hashes.add(value) for value in values)
    assert hashes.add(2**64 - 1) and not hashes.add(2**64 - 1)


def test_unpacked_rows_hold_one_example(tmp_path, write_corpus, tokenizer):
    corpus = write_corpus(tmp_path / "corpus.txt", 40)
    manifest = prepare(
        corpus, tmp_path / "records", tokenizer, length=32, pack=False, num_workers=1
    )
    train = manifest["splits"]["train"]
    assert train["rows"] == train["examples"] and train["examples_in_fullest_row"] == 1


def test_token_ids_are_stored_in_two_bytes_if_they_fit():
    none = np.zeros((1, 2), np.int32)
    for vocabulary_size, width in ((65_536, 2), (65_537, 4)):
        manifest = {
            "tokenizer": {"vocabulary_size": vocabulary_size},
            "settings": {"length": 3, "max_examples_per_row": 2},
        }
        ids = np.array([[0, 40_000, vocabulary_size - 1]], np.int32)
        arrays = {
            "token_ids": ids,
            "example_lengths": np.array([[3, 0]], np.int32),
            "first_lengths": none,
            "pair_labels": none,
        }
        serialized = records.serialize_rows(arrays, vocabulary_size, first_id=1 << 40)
        rows = records.parse_rows(tf.constant(serialized), manifest)
        assert records.token_type(vocabulary_size).itemsize == width
        assert rows["token_ids"].dtype == tf.int32
        assert rows["token_ids"].numpy().tolist() == ids.tolist()
        assert rows["example_lengths"].numpy().tolist() == [[3, 0]]
        assert rows["row_id"].numpy().tolist() == [1 << 40]


def test_masked_lm_without_pairs(tmp_path, tokenizer):
    path = tmp_path / "corpus.txt"
    path.write_text("aa ab ac ad.\nba bb.\nca cb cc.\n")
    manifest = prepare(
        path, tmp_path / "records", tokenizer, length=12, objective="mlm", num_workers=1
    )
    assert manifest["splits"]["train"]["examples"] == 2
    rows = read_rows(tmp_path / "records")
    pairs = {pair for row in each(rows) for pair in segments(row, tokenizer)}
    assert pairs == {("aa ab ac ad . ba bb . ca cb", "", 0), ("cc .", "", 0)}
    assert (rows["first_lengths"] == rows["example_lengths"]).all()


def test_unknown_tokens_and_more_random_pairs_are_reported(tmp_path, tokenizer, caplog):
    path = tmp_path / "corpus.txt"
    path.write_text("aa ab.\n??? ac.\n\nba bb.\nbc bd.\n\nca cb.\n\ncc cd.\n")
    settings = {"length": 12, "random_next_share": 0.02, "num_workers": 1}
    splits = prepare(path, tmp_path / "records", tokenizer, **settings)["splits"]
    unknown, tokens = (splits["train"][name] for name in ("unknown_tokens", "corpus_tokens"))
    assert f"{unknown / tokens:.1%} of the tokens are unknown" in caplog.text and unknown == 3
    assert "of the pairs are random, more than random_next_share=0.02" in caplog.text


def test_last_block_with_one_document_joins_the_previous_block(tmp_path, tokenizer):
    path = tmp_path / "corpus.txt"
    path.write_text("aa ab.\nac ad.\n\nba bb.\nbc bd.\n\nca cb.\n")
    manifest = prepare(path, tmp_path / "records", tokenizer, block_characters=20, num_workers=1)
    assert manifest["splits"]["train"]["documents"] == 3
    assert set(read_rows(tmp_path / "records")["row_id"] >> 32) == {0}


def test_memory_holds_a_few_blocks_of_the_corpus(tmp_path, write_corpus, tokenizer, monkeypatch):
    corpus = write_corpus(tmp_path / "corpus.txt", 400)
    read, ahead = [], []
    read_documents = readers.read_documents

    def counting(*arguments):
        for document in read_documents(*arguments):
            read.append(document)
            yield document

    monkeypatch.setattr(readers, "read_documents", counting)
    prepare(
        corpus,
        tmp_path / "records",
        tokenizer,
        block_characters=4000,
        num_workers=1,
        progress=lambda progress: ahead.append(len(read) - progress.documents),
    )
    # One block waits until the next is complete.
    documents_of_a_block = 400 / len(ahead)
    assert len(ahead) > 10
    assert max(ahead) < 2.5 * documents_of_a_block


def test_progress_increases(tmp_path, write_corpus, tokenizer):
    corpus = write_corpus(tmp_path / "corpus.txt", 60)
    lines = []
    prepare(
        corpus,
        tmp_path / "records",
        tokenizer,
        block_characters=2000,
        num_workers=1,
        progress=lines.append,
    )
    assert len(lines) > 3 and lines[-1].documents == 60
    number = r"[\d,]+"
    form = f"60 documents, {number} examples, {number} tokens, {number} tokens/s"
    assert re.fullmatch(form, str(lines[-1]))


@pytest.mark.parametrize("seed", range(3))
def test_four_sentences_are_a_corpus(tmp_path, tokenizer, seed):
    path = tmp_path / "corpus.txt"
    path.write_text("aa ab.\nac ad.\nba bb.\nbc bd.\n")
    manifest = prepare(path, tmp_path / "records", tokenizer, num_workers=1, seed=seed)
    counts = manifest["splits"]["train"]
    assert 0 < counts["pairs_labelled_1"] < counts["examples"]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path, write_corpus, tokenizer):
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import resource, sys
            from keras_bert_impl.pretraining.corpus import preparation
            from keras_bert_impl.tokenizers import Tokenizer

            if __name__ == "__main__":
                corpus, records, tokenizer = sys.argv[1:]
                tokenizer = Tokenizer.from_pretrained(tokenizer)
                preparation._SECONDS_ALONE = 0
                preparation.prepare(
                    corpus, records, tokenizer, block_characters=400_000, num_workers=2
                )
                for who in resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN:
                    print(resource.getrusage(who).ru_maxrss)
            """
        )
    )
    most = {}
    for documents in 20_000, 160_000:  # 7 and 55 blocks
        corpus = write_corpus(tmp_path / f"{documents}.txt", documents)
        paths = corpus, tmp_path / f"{documents}", tmp_path / "tokenizer"
        process = subprocess.run([sys.executable, program, *paths], capture_output=True)
        assert not process.returncode, process.stderr[-500:]
        most[documents] = [int(line) / 1024 for line in process.stdout.split()]  # MiB
    # The million additional sentences take 80 bytes each in Python. The 140,000 additional
    # documents take 100 bytes each in the set that detects duplicates, up to 262,144 entries.
    (reader, worker), (reader_of_more, worker_of_more) = most.values()
    assert reader_of_more < reader + 40, most
    assert worker_of_more < worker + 20, most


def test_a_text_of_a_megabyte(tmp_path, tokenizer):
    path = tmp_path / "corpus.jsonl"
    texts = ["aa ab " * 170_000, "ba.\nbb"]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    manifest = prepare(path, tmp_path / "records", tokenizer, objective="mlm", num_workers=1)
    assert manifest["splits"]["train"]["corpus_tokens"] == 340_000 + 3


@pytest.mark.parametrize("count", [25, 40, 1000])
def test_holds_out_the_fraction_even_of_few_documents(count):
    for seed in range(20):
        held_out = [split_of(number, 0.05, seed) == "held_out" for number in range(count)]
        assert abs(sum(held_out) - 0.05 * count) <= 1 and any(held_out)
    often = np.mean([[split_of(n, 0.3, seed) == "held_out" for n in range(20)]
                     for seed in range(400)], axis=0)  # fmt: skip
    # Groups of three or four documents: each document is held out in a third or a quarter of draws.
    assert often.min() > 0.18 and often.max() < 0.42
