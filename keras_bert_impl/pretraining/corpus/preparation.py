"""From a corpus to records: `prepare`, in flat memory and on several processes."""

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import gc
import logging
import multiprocessing
import os
import time

import pyarrow as pa

from keras_bert_impl.first_guesses import known_arguments
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.pretraining.corpus import (
    blocks,
    build_worker,
    cutting,
    destination,
    memory_texts,
    readers,
)
from keras_bert_impl.pretraining.corpus.finished_blocks import FinishedBlocks, Interrupted
from keras_bert_impl.pretraining.corpus.word_tokens import WordTokens
from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.pretraining.examples.manifest import FORMAT_VERSION
from keras_bert_impl.pretraining.settings import RUNNERS
from keras_bert_impl.settings import PositiveInt, Rate, check

_LOG = logging.getLogger(__name__)
_FEW_TRUE_PAIRS = 0.2  # share of the pairs; of whole documents it is nearly a half
_SECONDS_ALONE = 6  # about what is lost until other processes have imported TensorFlow


@known_arguments("prepare")
def prepare(
    inputs,
    output_directory,
    tokenizer,
    length=128,
    objective="mlm_nsp",
    passes=1,
    short_sequence_probability=0.1,
    pack=True,
    max_examples_per_row=8,
    held_out=0.0,
    input_format="auto",
    text_field="text",
    block_characters=4_000_000,
    num_open_shards=16,
    rows_per_shard=32_768,
    num_workers=None,
    seed=0,
    progress=None,
    runner=None,
    runner_options=(),
):
    """Makes a folder of unmasked, packed examples from a corpus.

    Documents are read one after the other, exact duplicates dropped, and the rest cut into blocks
    of consecutive documents. A block is split into sentences, tokenized, paired (the random second
    segment of a pair comes from another document of the same block), packed and written. What
    comes out is a function of the corpus, the tokenizer, the settings and the seed: the number of
    workers, or a `runner`, changes no byte. Memory is a few blocks a worker, and 8 bytes a document
    to know duplicates; it holds at least two whole documents, however long they are.

    If it is interrupted, the blocks that were built stay in a hidden folder beside
    `output_directory`, and the same call takes them from there (without a `runner`).

    Args:
        inputs: paths, as in `read_documents`; or texts, each a document with a paragraph a line: a
            list, an iterator or a column of them, or a table with a column `text_field`.
        output_directory: str or `Path` of the folder to make; earlier records there are replaced
            once the new ones are complete. Or str of a new folder on a bucket, such as
            `gs://bucket/records`: processes of this machine make the records in a temporary folder
            (`TMPDIR`) and copy them there, a `runner`'s workers write there; the manifest is last.
        tokenizer: a tokenizer of `keras_bert_impl.tokenizers`; a copy of it is kept beside the
            records.
        length: int, tokens of a row, from 8.
        objective: "mlm_nsp" for pairs for next-sentence prediction, "mlm_sop" for pairs for
            sentence order, or "mlm" for single segments of a document.
        passes: int, how often each document is paired anew; masks are new each epoch anyhow.
        short_sequence_probability: float, part of the documents with a shorter target length.
        pack: bool, whether several examples share a row.
        max_examples_per_row: int.
        held_out: float, part of the documents that go to a split of their own.
        input_format, text_field: as in `read_documents`.
        block_characters: int, text of a block; pairs are drawn and rows packed inside it.
        num_open_shards, rows_per_shard: ints; rows are dealt out to that many shards side by
            side, and a shard, which is what reading shuffles in memory, holds so many rows.
        num_workers: int, processes that tokenize and build; 1 builds in this process, as it does
            with more for the first seconds, in which a small corpus is done; None is one a core.
            More than one needs the `if __name__ == "__main__":` of `multiprocessing`.
        seed: int.
        progress: None, or a function called with `Progress` after each block; a `runner` has its
            own.
        runner: str or None for processes of this machine; one of `RUNNERS`, of Apache Beam (extra
            `beam`), in place of `num_workers`. Its workers read `inputs` and write beside
            `output_directory`: these are on a bucket, or paths of a file system that all share.
        runner_options: list of str, of Beam's pipeline, such as `"direct_num_workers=4"`.

    Returns:
        dict, the manifest: `splits` with counts and shards, `tokenizer`, `settings`.

    Raises:
        InputError: bad input, in the corpus or the arguments, or a full disk; nothing is left
            behind then, and records that were there before are still there.

    Example:
        prepare("wiki.txt", "records", Tokenizer.from_pretrained("vocabulary"), held_out=0.01)
    """
    settings = blocks.Settings(
        length, objective, passes, short_sequence_probability, pack, max_examples_per_row, seed
    )
    held_out = check("held_out", held_out, Rate)
    block_characters = check("block_characters", block_characters, PositiveInt)
    num_workers = check("num_workers", num_workers, PositiveInt | None)
    dealing = {
        "num_open_shards": check("num_open_shards", num_open_shards, PositiveInt),
        "rows_per_shard": check("rows_per_shard", rows_per_shard, PositiveInt),
    }
    place = destination.place_of(output_directory)
    with memory_texts.as_paths(inputs, input_format, text_field) as (paths, format, field):
        readers.sources(paths, format)  # refuses what is not there
        paths = readers.paths_of(paths)
        corpus = cutting.Corpus(paths, format, field, block_characters, held_out)
        cutting.check_corpus(
            readers.read_documents(paths, format, field), corpus, settings.objective, settings.seed
        )
        if runner is None:
            num_workers = num_workers or os.cpu_count() or 1
            finished = FinishedBlocks(place, settings, tokenizer)
            write = functools.partial(
                _write, num_workers=num_workers, progress=progress, finished=finished
            )
        else:
            finished = contextlib.nullcontext()
            write = functools.partial(_write_on_beam(runner), runner=runner, options=runner_options)
        new_records = destination.new_records(output_directory, place, runner)
        with _old_objects_kept(), _free_memory_given_back(), finished, new_records as directory:
            destination.save_tokenizer(tokenizer, directory)
            written = write(corpus, settings, tokenizer, directory, dealing)
            manifest = {
                "version": FORMAT_VERSION,
                "documents": written.documents,
                "duplicate_documents": written.duplicate_documents,
                "tokenizer": {
                    "fingerprint": tokenizer.fingerprint,
                    "vocabulary_size": tokenizer.vocabulary_size,
                },
                "settings": {
                    **dataclasses.asdict(settings),
                    "held_out": held_out,
                    "block_characters": block_characters,
                    **dealing,
                },
                "splits": {
                    split: written.counts[split].summary(settings.length)
                    | {"shards": written.shards[split]}
                    for split in records.SPLITS
                },
            }
            _check_splits(manifest)
            records.write_manifest(directory, manifest)
        return manifest


@contextlib.contextmanager
def _old_objects_kept():
    """No search for garbage goes through what is there, as all of TensorFlow is, again and again.

    It took a twelfth of the time.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def _free_memory_given_back():
    """Arrow keeps no memory that is free for later: 60 MB less."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far `prepare` is: whole numbers over both splits, and the seconds since it began."""

    documents: int
    examples: int
    rows: int
    tokens: int
    seconds: float

    @classmethod
    def of(cls, totals, seconds):
        names = ("documents", "examples", "rows", "tokens")
        return cls(*(sum(getattr(c, name) for c in totals.values()) for name in names), seconds)

    def __str__(self):
        rate = self.tokens / max(self.seconds, 1e-9)
        return (
            f"{self.documents:,} documents, {self.examples:,} examples, {self.tokens:,} tokens, "
            f"{rate:,.0f} tokens/s"
        )


def _check_splits(manifest):
    """Refuses records without a row, or of which an objective would learn nothing."""
    for split, counts in manifest["splits"].items():
        if not counts["rows"] and (split == "train" or manifest["settings"]["held_out"]):
            raise InputError(
                f"of {manifest['documents']} documents none of the {split} split has text that the "
                "tokenizer knows."
            )
    records.check_pair_labels(manifest, "train")
    train = manifest["splits"]["train"]
    share = 1 - train["pairs_labelled_1"] / train["examples"]
    if manifest["settings"]["objective"] == "mlm_nsp" and share < _FEW_TRUE_PAIRS:
        _LOG.warning(
            "only %.1f %% of the pairs are true ones, half of them are in BERT's data: most "
            "documents have one sentence, or sentences as long as a row.",
            100 * share,
        )


def _write(corpus, settings, tokenizer, directory, dealing, num_workers, progress, finished):
    """Writes the shards by processes of this machine; returns `Written`."""
    finished.open()
    documents = readers.read_documents(corpus.paths, corpus.format, corpus.text_field)
    read = {"documents": 0, "duplicate_documents": 0}
    text_blocks = cutting.text_blocks(
        cutting.numbered(documents, read), corpus, settings.objective, settings.seed
    )
    started = time.monotonic()
    writers = {
        split: records.ShardWriter(directory, split, **dealing) for split in records.SPLITS
    }
    counts = {split: blocks.Counts() for split in records.SPLITS}
    built_blocks = _build(text_blocks, settings, tokenizer, directory, num_workers, finished)
    for text_block, built in built_blocks:
        first_shard = cutting.first_shard_of(text_block.number, settings.seed)
        writers[text_block.split].write(built.rows, first_shard)
        counts[text_block.split] += built.counts
        if progress:
            progress(Progress.of(counts, time.monotonic() - started))
    return cutting.Written(
        **read, counts=counts, shards={split: writers[split].close() for split in records.SPLITS}
    )


def _write_on_beam(runner):
    """The function that does the same by the workers of a runner."""
    if runner not in RUNNERS:
        raise InputError(f"no runner {runner!r}; there is {', '.join(RUNNERS)}.")
    try:
        from keras_bert_impl.pretraining.corpus import beam_preparation
    except ModuleNotFoundError as error:
        raise InputError(
            f"{runner} needs Apache Beam ({error}): pip install 'keras-bert-impl[beam]'."
        ) from error
    return beam_preparation.write


def _build(text_blocks, settings, tokenizer, tokenizer_directory, num_workers, finished):
    """Yields (text block, built block) in the order of the blocks; keeps what is new."""
    started, words = time.monotonic(), WordTokens(tokenizer)
    for text_block in text_blocks:
        built = finished.read(text_block)
        if built is None:
            built = blocks.build(text_block, settings, words)
            finished.write(text_block, built)
        yield text_block, built
        if num_workers > 1 and time.monotonic() - started > _SECONDS_ALONE:
            break
    else:  # all is done
        return
    pending = collections.deque()
    with _workers(num_workers, tokenizer_directory, settings) as begin:
        for text_block in text_blocks:
            built = finished.read(text_block)
            pending.append((text_block, built, None if built else begin(text_block)))
            if len(pending) > num_workers:  # one more than is being built: nobody waits for text
                yield _result(*pending.popleft(), finished)
        for one in pending:
            yield _result(*one, finished)


@contextlib.contextmanager
def _workers(num_workers, tokenizer_directory, settings):
    """A function that begins to build a `TextBlock` in another process, and returns the future."""
    executor = concurrent.futures.ProcessPoolExecutor(
        num_workers,
        mp_context=multiprocessing.get_context("spawn"),  # a forked TensorFlow deadlocks
        initializer=build_worker.start,
        initargs=(str(tokenizer_directory), dataclasses.asdict(settings)),
    )
    try:
        yield functools.partial(executor.submit, build_worker.build)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _result(text_block, built, future, finished):
    if built is None:
        try:
            built = future.result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise Interrupted(
                "a worker process ended (out of memory, or killed, or no `if __name__ == "
                "\"__main__\":` in the program); choose fewer workers or smaller blocks. What was "
                "built is kept: the same command goes on from there."
            ) from error
        finished.write(text_block, built)
    return text_block, built
