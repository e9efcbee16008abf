"""`prepare` on Apache Beam writes the same bytes as without it."""

import os
import sys

import pytest

from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.utils.errors import InputError

# Beam is not in the extra `test`, because it requires another version of protobuf.
pytest.importorskip("apache_beam", reason="takes the extra beam")

SETTINGS = {
    "length": 32,
    "held_out": 0.1,
    "block_characters": 4000,
    "seed": 3,
    "input_format": "sentences",
}
TWO_PROCESSES = ("direct_running_mode=multi_processing", "direct_num_workers=2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, write_corpus):
    """Five files: one is empty, one a copy, and the last starts with half of another."""
    folder = tmp_path_factory.mktemp("corpus")
    for name in "ab":
        write_corpus(folder / name, 60, seed=name)
    (folder / "c").write_text("\n\n")
    (folder / "d").write_bytes((folder / "a").read_bytes())
    write_corpus(folder / "e", 40, seed="e")
    (folder / "e").write_text((folder / "b").read_text()[:4000] + (folder / "e").read_text())
    return folder


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_open_shards", "rows_per_shard", "options"),
    [(1, 100_000, ()), (3, 32, ()), (3, 32, TWO_PROCESSES)],
)
def test_the_same_bytes(folder, tmp_path, tokenizer, num_open_shards, rows_per_shard, options):
    dealing = {"num_open_shards": num_open_shards, "rows_per_shard": rows_per_shard}
    local = prepare(folder, tmp_path / "local", tokenizer, num_workers=1, **dealing, **SETTINGS)
    assert local["duplicate_documents"] > 60 and local["splits"]["held_out"]["rows"]
    assert (len(local["splits"]["train"]["shards"]) > 3) == (rows_per_shard == 32)
    manifest = prepare(
        folder,
        tmp_path / "beam",
        tokenizer,
        runner="DirectRunner",
        runner_options=options,
        **dealing,
        **SETTINGS,
    )
    assert manifest == local
    assert contents(tmp_path / "beam") == contents(tmp_path / "local")
    records.check_shards(tmp_path / "beam")


@pytest.mark.slow
def test_text_and_records_on_a_bucket(folder, tmp_path, tokenizer):
    """`file://` is TensorFlow's name for local folders, and takes the same path as any bucket."""
    dealing = {"num_open_shards": 3, "rows_per_shard": 32}
    prepare(folder, tmp_path / "local", tokenizer, num_workers=1, **dealing, **SETTINGS)
    prepare(
        f"file://{folder}",
        f"file://{tmp_path}/beam",
        tokenizer,
        runner="DirectRunner",
        runner_options=TWO_PROCESSES,
        **dealing,
        **SETTINGS,
    )
    assert contents(tmp_path / "beam") == contents(tmp_path / "local")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("aa ab.\nac ad.\n", r"one distinct document .*corpus.txt:1.*--objective mlm"),
        ("\n\n", "corpus.txt: no text found"),
        (
            "\ufffd\n\n\ufffd \ufffd\n\n",
            "no document in the train split has text that the tokenizer can encode",
        ),
    ],
)
def test_bad_input_raises_the_same_error(tmp_path, tokenizer, text, message):
    (tmp_path / "corpus.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        prepare(tmp_path / "corpus.txt", tmp_path / "records", tokenizer, runner="DirectRunner")
    assert os.listdir(tmp_path) == ["corpus.txt"]


def test_without_beam(tmp_path, corpus, tokenizer, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    monkeypatch.delitem(
        sys.modules, "keras_bert_impl.pretraining.corpus.beam_preparation", raising=False
    )
    monkeypatch.delattr("keras_bert_impl.pretraining.corpus.beam_preparation", raising=False)
    with pytest.raises(InputError, match=r"DirectRunner needs Apache Beam .*pip install .*beam"):
        prepare(corpus, tmp_path / "records", tokenizer, runner="DirectRunner")
    with pytest.raises(InputError, match="no runner 'Direct'; there is DirectRunner, Flink"):
        prepare(corpus, tmp_path / "records", tokenizer, runner="Direct")


@pytest.mark.parametrize(("num_open_shards", "rows_per_shard"), [(1, 100), (3, 7), (16, 1)])
def test_dealt_rows_fill_shards_in_order(num_open_shards, rows_per_shard):
    dealer = records.Dealer(num_open_shards, rows_per_shard)
    dealt = [*dealer.deal(20, first_shard=5), *dealer.deal(0, 2), *dealer.deal(31, first_shard=4)]
    assert len(set(dealt)) == 51
    shards = [[place for of, place in dealt if of == shard] for shard in range(dealer.num_shards)]
    assert all(places == list(range(len(places))) for places in shards)
    assert sum(len(places) < rows_per_shard for places in shards) <= num_open_shards
