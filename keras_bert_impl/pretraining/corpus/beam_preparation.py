"""`prepare` on Apache Beam: writes the same blocks, rows and shards as on one machine.

The text is read twice. The first pass computes the hash and the length of each document, finds
duplicates and assigns documents to blocks. In the second pass, the workers build the blocks. Rows
are assigned to shards only after the number of rows is known for every block.
"""

import copy
import itertools
import json
import operator
import os
import re
import types
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import apache_beam as beam
import numpy as np
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions

from keras_bert_impl.pretraining.corpus import blocks, cutting, readers
from keras_bert_impl.pretraining.corpus.blocks import NumberedDocument, WordTokens
from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io import remote_files

_SUMMARY = "summary.json"


def write(
    corpus: cutting.Corpus,
    settings: blocks.Settings,
    tokenizer: Tokenizer,
    directory: str | Path,
    dealing: dict[str, int],
    runner: str,
    options: Sequence[str] = (),
) -> cutting.Written:
    """Writes the shards of a corpus with a Beam runner; raises `InputError` for invalid input."""
    flags = [f"--runner={runner}", *(f"--{option.lstrip('-')}" for option in options)]
    try:
        with beam.Pipeline(options=PipelineOptions(flags)) as pipeline:
            build_pipeline(pipeline, corpus, settings, directory, dealing)
    except Exception as error:  # Beam runners report worker errors only as text
        text = f"{type(error).__name__}: {error}"
        messages = re.findall(r"InputError: (.*?)(?: \[while running|\n|$)", text)
        if not messages:
            raise
        raise InputError(messages[-1]) from error
    path = os.path.join(directory, _SUMMARY)
    with tf.io.gfile.GFile(path) as file:
        summary = json.load(file)
    tf.io.gfile.remove(path)
    counts = {split: blocks.Counts(**count) for split, count in summary["counts"].items()}
    return cutting.Written(**summary | {"counts": counts})


def build_pipeline(
    pipeline: beam.Pipeline,
    corpus: cutting.Corpus,
    settings: blocks.Settings,
    directory: str | Path,
    dealing: dict[str, int],
) -> None:
    """Adds the steps that read the corpus and write the shards to a `beam.Pipeline`."""
    sources = list(enumerate(readers.sources(corpus.paths, corpus.format)))
    directory = str(directory)
    indexed_sources = pipeline | "sources" >> beam.Create(sources) | beam.Reshuffle()
    outlines = indexed_sources | "outline" >> beam.FlatMap(_read_outlines, corpus.text_field)
    lengths = (
        outlines
        | beam.Map(lambda hashed_outline: hashed_outline[1][0])
        | beam.combiners.Count.PerElement()
    )
    unique_outlines = (
        outlines
        | "first of its text" >> beam.CombinePerKey(min)
        | beam.Values()
        | beam.Map(lambda outline: (outline[0], outline[1:]))
        | "by source" >> beam.GroupByKey()
        | beam.Map(_pack_outlines)
    )
    start = pipeline | "start" >> beam.Create([None])
    plans = start | "cut" >> beam.FlatMap(
        _assign_to_blocks,
        beam.pvalue.AsDict(lengths),
        beam.pvalue.AsDict(unique_outlines),
        dict(sources),
        corpus,
        settings,
    )
    built = (
        {"source": indexed_sources, "plan": plans}
        | "plan of a source" >> beam.CoGroupByKey()
        | "read" >> beam.FlatMap(_read_documents, corpus.text_field)
        | "by block" >> beam.GroupByKey()
        | "build" >> beam.ParDo(_Build(settings, corpus.held_out, directory))
    )
    sizes = built | beam.Map(_measure_block)
    dealers = start | "deal" >> beam.FlatMap(
        _copy_dealers, beam.pvalue.AsList(sizes), dealing, settings.seed
    )
    shards = (
        built
        | beam.FlatMap(_assign_to_shards, beam.pvalue.AsDict(dealers), settings.seed)
        | "by shard" >> beam.GroupByKey()
        | "write" >> beam.Map(_write_shard, directory)
    )
    start | "sum up" >> beam.Map(
        _write_summary,
        beam.pvalue.AsDict(lengths),
        beam.pvalue.AsDict(unique_outlines),
        beam.pvalue.AsList(sizes),
        beam.pvalue.AsList(shards),
        directory,
    )


def _read_outlines(indexed, text_field):
    index, source = indexed
    for place, document in enumerate(readers.read_source(*source, text_field)):
        yield document.text_hash, (index, place, document.characters)


def _pack_outlines(source_outlines):
    index, outlines = source_outlines
    places, characters = zip(*sorted(outlines))
    return index, (np.array(places, np.int32), np.array(characters, np.int64))


def _assign_to_blocks(_, lengths, unique_outlines, sources, corpus, settings):
    """Assigns the unique documents of each source to blocks.

    Yields:
        (source index, (first, places, blocks)) for each source. `first` is the corpus index of the
        first document of the source. `places` [n] are the indices of the unique documents in the
        source. `blocks` [n] are the block numbers of the unique documents.
    """
    if not lengths:
        raise readers.no_text(corpus.paths)
    indices = sorted(unique_outlines)
    counts = (lengths.get(index, 0) for index in range(len(sources)))
    first = [0, *itertools.accumulate(counts)]

    def list_outlines():
        for index in indices:
            for place, characters in zip(*unique_outlines[index]):
                source = f"{sources[index][0]}, document {place + 1}"
                outline = types.SimpleNamespace(source=source, characters=int(characters))
                yield first[index] + int(place), outline

    numbers = {
        index: first[index] + unique_outlines[index][0].astype(np.int64) for index in indices
    }
    block_numbers = {index: np.zeros(len(numbers[index]), np.int32) for index in indices}
    starts = [first[index] for index in indices]
    for block in cutting.text_blocks(list_outlines(), corpus, settings.objective, settings.seed):
        document_numbers = np.array([number for number, _ in block.documents])
        for position in np.unique(np.searchsorted(starts, document_numbers, "right") - 1):
            index = indices[position]
            places = np.searchsorted(numbers[index], document_numbers)
            inside = places < len(numbers[index])
            inside[inside] = numbers[index][places[inside]] == document_numbers[inside]
            block_numbers[index][places[inside]] = block.number
    for index in indices:
        yield index, (first[index], unique_outlines[index][0], block_numbers[index])


def _read_documents(source_group, text_field):
    _, joined = source_group
    if not joined["plan"]:
        return
    (source,), ((first, places, block_numbers),) = joined["source"], joined["plan"]
    used = dict(zip(places.tolist(), block_numbers.tolist()))
    for place, document in enumerate(readers.read_source(*source, text_field)):
        if place in used:
            yield used[place], (first + place, document)


class _Build(beam.DoFn):
    def __init__(self, settings: blocks.Settings, held_out: float, directory: str) -> None:
        self._settings = settings
        self._held_out = held_out
        self._directory = directory

    def setup(self) -> None:
        tokenizer = records.read_tokenizer(self._directory)
        self._word_tokens = WordTokens(tokenizer, self._settings.segmented)

    def process(
        self, element: tuple[int, Iterable[NumberedDocument]]
    ) -> Iterator[tuple[int, str, blocks.BuiltBlock]]:
        number, documents = element
        documents = sorted(documents, key=operator.itemgetter(0))
        split = cutting.split_of(documents[0][0], self._held_out, self._settings.seed)
        text_block = blocks.TextBlock(split, documents, number=number)
        yield number, split, blocks.build_block(text_block, self._settings, self._word_tokens)


def _copy_dealers(_, sizes, dealing, seed):
    dealers = {split: records.Dealer(**dealing) for split in records.SPLITS}
    for number, split, count, _ in sorted(sizes, key=operator.itemgetter(0)):
        # With this copy, a worker assigns the rows of the block without reading other blocks.
        yield number, copy.deepcopy(dealers[split])
        for _ in dealers[split].deal(count, cutting.first_shard_of(number, seed)):
            pass


def _measure_block(built_block):
    number, split, built = built_block
    return number, split, len(built.rows), built.counts


def _assign_to_shards(built_block, dealers, seed):
    number, split, built = built_block
    dealer = copy.deepcopy(dealers[number])  # another worker may read the same block again
    places = dealer.deal(len(built.rows), cutting.first_shard_of(number, seed))
    for (shard, place), row in zip(places, built.rows):
        yield (split, shard), (place, row)


def _write_shard(shard_rows, directory):
    (split, shard), rows = shard_rows
    path = os.path.join(directory, records.shard_name(split, shard))
    rows = [row for _, row in sorted(rows)]
    with remote_files.replace_file(path) as temporary, remote_files.os_errors():
        file = records.ShardFile(temporary)
        for row in rows:
            file.write(row)
        file.close()
        description = records.describe_shard(temporary, len(rows))
    return split, shard, description


def _write_summary(_, lengths, unique_outlines, sizes, shards, directory):
    documents = sum(lengths.values())
    counts = {split: blocks.Counts() for split in records.SPLITS}
    for _, split, _, block_counts in sizes:
        counts[split] += block_counts
    ordered = sorted(shards, key=operator.itemgetter(0, 1))
    summary = {
        "documents": documents,
        "duplicate_documents": documents
        - sum(len(places) for places, _ in unique_outlines.values()),
        "counts": {split: vars(count) for split, count in counts.items()},
        "shards": {
            split: [shard for shard_split, _, shard in ordered if shard_split == split]
            for split in records.SPLITS
        },
    }
    with remote_files.replace_file(os.path.join(directory, _SUMMARY)) as temporary:
        temporary.write_text(json.dumps(summary), encoding="utf-8")
