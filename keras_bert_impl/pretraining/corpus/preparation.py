"""`prepare`: turns a corpus into records, with bounded memory and several processes."""

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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_bert_impl.pretraining.corpus import blocks, build_worker, cutting, destination, readers
from keras_bert_impl.pretraining.corpus.blocks import WordTokens
from keras_bert_impl.pretraining.corpus.destination import RESUME, FinishedBlocks, Interrupted
from keras_bert_impl.pretraining.examples import records
from keras_bert_impl.pretraining.examples.records import FORMAT_VERSION
from keras_bert_impl.pretraining.settings import RUNNERS
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import known_arguments
from keras_bert_impl.utils.progress import Progress as Bar
from keras_bert_impl.utils.settings import PositiveInt, Rate, check
from keras_bert_impl.utils.version import install_command

_LOG = logging.getLogger(__name__)
_FEW_TRUE_PAIRS = 0.2  # fraction of pairs that are consecutive; about one half is normal
_MOST_UNKNOWN = 0.02  # fraction of the tokens; a suitable vocabulary has less than 0.1 %
_MOST_INSIDE_WORDS = 0.7  # fraction of the tokens; about 0.4 is normal for segmented Chinese text
_MOST_NAMED = 20  # unreadable files in a warning
_SECONDS_ALONE = 6  # about the time in seconds that a process needs to import TensorFlow


@dataclasses.dataclass(frozen=True)
class Progress:
    """Progress of `prepare`: totals of the train and held-out splits, and the elapsed seconds."""

    documents: int
    examples: int
    rows: int
    tokens: int
    seconds: float

    @classmethod
    def of(cls, totals: dict[str, blocks.Counts], seconds: float) -> "Progress":
        documents, examples, rows, tokens = (
            sum(getattr(counts, name) for counts in totals.values())
            for name in ("documents", "examples", "rows", "tokens")
        )
        return cls(documents, examples, rows, tokens, seconds)

    def __str__(self):
        rate = self.tokens / max(self.seconds, 1e-9)
        return (
            f"{self.documents:,} documents, {self.examples:,} examples, {self.tokens:,} tokens, "
            f"{rate:,.0f} tokens/s"
        )


@contextlib.contextmanager
def shown_progress() -> Iterator[Callable[[Progress], None]]:
    """Yields a `progress` function for `prepare` that shows a progress bar on stderr."""
    with Bar("preparing", unit="documents") as bar:
        yield lambda counts: bar.update(counts.documents, f"{counts.tokens:,} tokens")


@known_arguments("prepare")
def prepare(
    inputs: Any,
    output_directory: str | Path,
    tokenizer: Tokenizer,
    length: int = 128,
    objective: str = "mlm_nsp",
    passes: int = 1,
    short_sequence_probability: float = 0.1,
    random_next_share: float = 0.5,
    pack: bool = True,
    max_examples_per_row: int = 8,
    held_out: float = 0.0,
    input_format: str = "auto",
    text_field: str = "text",
    segmented: bool = False,
    languages: Sequence[str] = (),
    block_characters: int = 4_000_000,
    num_open_shards: int = 16,
    rows_per_shard: int = 32_768,
    num_workers: int | None = None,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
    runner: str | None = None,
    runner_options: Sequence[str] = (),
) -> dict[str, Any]:
    """Converts a corpus to a folder of unmasked, packed pre-training examples.

    Documents are read in order, exact duplicates are dropped, and consecutive documents form a
    block. Each block is split into sentences, tokenized, paired, packed and written. The random
    second segment of a pair comes from another document of the same block. If the corpus has only
    one document, the random segment comes from a distant part of this document. The output depends
    only on the corpus, the tokenizer, the settings and the seed, not on the number of workers or
    the `runner`. Each worker needs memory for a few blocks (at least two whole documents). The
    detection of duplicates needs 8 bytes per document.

    After an interruption, the finished blocks stay in a hidden folder next to `output_directory`,
    and the same call resumes from them. With a `runner`, an interrupted call does not resume.

    Args:
        inputs: Paths (see `read_documents`), or texts: a list, an iterator, a column, or a table
            with the column `text_field`. Each text is a document with one paragraph per line.
        output_directory: Folder to write. Existing records of the same tokenizer and settings are
            replaced after the new records are complete. A path in a bucket must be a str, such as
            `gs://bucket/records`, and must not exist yet. Local processes build the records for a
            bucket in a temporary folder (`TMPDIR`) and copy them to the bucket; the workers of a
            `runner` write to the bucket directly. The manifest is written last.
        tokenizer: A tokenizer of `keras_bert_impl.tokenizers`. The records folder contains a copy
            of the tokenizer.
        length: Sequence length in tokens, at least 8.
        objective: `"mlm_nsp"` for next-sentence prediction pairs, `"mlm_sop"` for sentence-order
            pairs, `"mlm"` for single segments of a document, or `"tlm"` for pairs of a sentence and
            its translation. In `"tlm"` pairs, the position ids restart at the second sentence, and
            the segment ids are the indices of the languages.
        passes: Number of times that examples are created from each document, each time with
            a different random seed. More passes are not needed to get different masks, because
            training draws new masks in each epoch by default.
        short_sequence_probability: Fraction of the documents that get a shorter target length.
        random_next_share: Fraction of the `"mlm_nsp"` pairs whose second segment is random.
        pack: Whether several examples share a row.
        max_examples_per_row: Maximum number of examples packed into a row.
        held_out: Fraction of the documents in the held-out split.
        input_format, text_field: see `read_documents`.
        segmented: Whether the text is Chinese with spaces between words, as written by a word
            segmenter. If True, whole-word masking masks words instead of characters.
        languages: Names of the languages, for the objective `"tlm"`. Each document has one line
            per language, in this order.
        block_characters: Approximate number of characters per block. A segment pair or row never
            contains text from two blocks.
        num_open_shards: Number of shards that are filled at the same time.
        rows_per_shard: Rows per shard. Training shuffles 262,144 rows at a time, which it reads
            from several shards.
        seed: Seed of all random choices.
        num_workers: Number of processes that build blocks. 1 uses only the current process. None
            means one per core. If the corpus takes only a few seconds, no other process is started.
            More than one process requires the `if __name__ == "__main__":` guard of
            `multiprocessing`.
        progress: Function called with a `Progress` after each block. None for no reports. Ignored
            if `runner` is set.
        runner: Apache Beam runner, one of `RUNNERS` (extra `beam`), used instead of `num_workers`.
            None for local processes. `inputs` and `output_directory` must be in a bucket or on a
            file system that all workers share.
        runner_options: Options of the Beam pipeline, such as `"direct_num_workers=4"`.

    Returns:
        The manifest: `splits` with counts and shards, `tokenizer` and `settings`.

    Raises:
        InputError: The corpus or an argument is invalid, the folder contains other files or
            records, or the disk is full. No partial output is left, and existing records are kept.

    Example:
        prepare("wiki.txt", "records", Tokenizer.from_pretrained("vocabulary"), held_out=0.01)
    """
    settings = blocks.Settings(
        length,
        objective,
        passes,
        short_sequence_probability,
        random_next_share,
        pack,
        max_examples_per_row,
        seed,
        segmented,
        check("languages", languages, tuple[str, ...]),
    )
    held_out = check("held_out", held_out, Rate)
    block_characters = check("block_characters", block_characters, PositiveInt)
    num_workers = check("num_workers", num_workers, PositiveInt | None)
    dealing = {
        "num_open_shards": check("num_open_shards", num_open_shards, PositiveInt),
        "rows_per_shard": check("rows_per_shard", rows_per_shard, PositiveInt),
    }
    stated = settings.as_json() | {"held_out": held_out}
    place = destination.place_of(output_directory, stated, tokenizer)
    with cutting.as_paths(inputs, input_format, text_field) as (paths, format, field):
        readers.sources(paths, format)  # raises an error for missing paths
        paths = readers.paths_of(paths)
        destination.check_is_no_input(place, paths)
        corpus = cutting.Corpus(paths, format, field, block_characters, held_out)
        cutting.check_corpus(
            readers.read_documents(paths, format, field, []),
            corpus,
            settings.objective,
            settings.seed,
        )
        if runner is None:
            num_workers = num_workers or os.cpu_count() or 1
            finished: contextlib.AbstractContextManager = FinishedBlocks(place, settings, tokenizer)
            write = functools.partial(
                _write, num_workers=num_workers, progress=progress, finished=finished
            )
        else:
            finished = contextlib.nullcontext()
            write = functools.partial(_write_on_beam(runner), runner=runner, options=runner_options)
        new_records = destination.new_records(output_directory, place, runner)
        with _freeze_old_objects(), finished, new_records as directory:
            destination.save_tokenizer(tokenizer, directory)
            written = write(corpus, settings, tokenizer, directory, dealing)
            manifest = _build_manifest(written, corpus, settings, tokenizer, dealing)
            _check_splits(manifest)
            records.write_manifest(directory, manifest)
        return manifest


@contextlib.contextmanager
def _freeze_old_objects():
    """Context manager that excludes existing objects from garbage collection, to save time."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _build_manifest(written, corpus, settings, tokenizer, dealing):
    return {
        "version": FORMAT_VERSION,
        "documents": written.documents,
        "duplicate_documents": written.duplicate_documents,
        "tokenizer": {
            "fingerprint": tokenizer.fingerprint,
            "vocabulary_size": tokenizer.vocabulary_size,
        },
        "settings": {
            **settings.as_json(),
            "held_out": corpus.held_out,
            "block_characters": corpus.block_characters,
            **dealing,
        },
        "splits": {
            split: written.counts[split].summary(settings.length)
            | {"shards": written.shards[split]}
            for split in records.SPLITS
        },
    }


def _check_splits(manifest):
    """Raises `InputError` if a split has no rows, or if the rows are useless for the objective."""
    for split, counts in manifest["splits"].items():
        if not counts["rows"] and (split == "train" or manifest["settings"]["held_out"]):
            raise InputError(
                f"no document in the {split} split has text that the tokenizer can encode "
                f"({manifest['documents']} documents in both splits)."
            )
    records.check_pair_labels(manifest, "train")
    train = manifest["splits"]["train"]
    if manifest["settings"]["segmented"] and not train["tokens_inside_words"]:
        raise InputError(
            "the text has no words of several Chinese characters, or the tokenizer does not contain "
            "these characters. Leave out segmented, or choose a Chinese tokenizer."
        )
    if train["tokens_inside_words"] > _MOST_INSIDE_WORDS * train["corpus_tokens"]:
        raise InputError(
            f"{train['tokens_inside_words']:,} of {train['corpus_tokens']:,} tokens continue a "
            "Chinese word, so the text is not segmented. Separate its words with spaces, or leave "
            "out segmented."
        )
    unknown = train["unknown_tokens"] / train["corpus_tokens"]
    if unknown > _MOST_UNKNOWN:
        _LOG.warning(
            "%.1f%% of the tokens are unknown to the tokenizer. `keras-bert tokenizer-report` lists "
            "the words; learn a vocabulary from your text with `keras-bert vocab`.",
            100 * unknown,
        )
    share = 1 - train["pairs_labelled_1"] / train["examples"]
    requested_share = manifest["settings"]["random_next_share"]
    if manifest["settings"]["objective"] == "mlm_nsp" and 1 - share > requested_share + 0.01:
        _LOG.warning(
            "%.1f%% of the pairs are random, more than random_next_share=%s, because the last "
            "sentence of a document has no next sentence.",
            100 - 100 * share,
            requested_share,
        )
    if manifest["settings"]["objective"] == "mlm_nsp" and share < _FEW_TRUE_PAIRS:
        _LOG.warning(
            "only %.1f%% of the pairs are consecutive segments, compared with 50%% in BERT's data. "
            "Most documents have a single sentence, or sentences that are as long as a row.",
            100 * share,
        )


def _write(corpus, settings, tokenizer, directory, dealing, num_workers, progress, finished):
    finished.open()
    unreadable: list[InputError] = []
    documents = readers.read_documents(corpus.paths, corpus.format, corpus.text_field, unreadable)
    read = {"documents": 0, "duplicate_documents": 0}
    text_blocks = cutting.text_blocks(
        cutting.numbered(documents, read), corpus, settings.objective, settings.seed
    )
    started = time.monotonic()
    writers = {split: records.ShardWriter(directory, split, **dealing) for split in records.SPLITS}
    counts = {split: blocks.Counts() for split in records.SPLITS}
    built_blocks = _build(text_blocks, settings, tokenizer, directory, num_workers, finished)
    for text_block, built in built_blocks:
        first_shard = cutting.first_shard_of(text_block.number, settings.seed)
        writers[text_block.split].write(built.rows, first_shard)
        counts[text_block.split] += built.counts
        if progress:
            progress(Progress.of(counts, time.monotonic() - started))
    if unreadable:
        _LOG.warning(
            "skipped %d files that cannot be read: %s",
            len(unreadable),
            "; ".join(map(str, unreadable[:_MOST_NAMED])),
        )
    return cutting.Written(
        **read, counts=counts, shards={split: writers[split].close() for split in records.SPLITS}
    )


def _write_on_beam(runner):
    if runner not in RUNNERS:
        raise InputError(f"unknown runner {runner!r}; choose one of {', '.join(RUNNERS)}.")
    try:
        from keras_bert_impl.pretraining.corpus import beam_preparation
    except ModuleNotFoundError as error:
        raise InputError(
            f"{runner} needs Apache Beam ({error}): {install_command('beam')}."
        ) from error
    return beam_preparation.write


def _build(text_blocks, settings, tokenizer, tokenizer_directory, num_workers, finished):
    """Yields (text block, built block). Reads blocks that were finished by an interrupted call."""
    started, words = time.monotonic(), WordTokens(tokenizer, settings.segmented)
    for text_block in text_blocks:
        built = finished.read(text_block)
        if built is None:
            built = blocks.build_block(text_block, settings, words)
            finished.write(text_block, built)
        yield text_block, built
        if num_workers > 1 and time.monotonic() - started > _SECONDS_ALONE:
            break
    else:  # all blocks are built
        return
    pending = collections.deque()
    with _start_workers(num_workers, tokenizer_directory, settings) as begin:
        for text_block in text_blocks:
            built = finished.read(text_block)
            pending.append((text_block, built, None if built else begin(text_block)))
            if len(pending) > num_workers:  # one extra block, so that no worker waits for text
                yield _wait_for_block(*pending.popleft(), finished)
        for submission in pending:
            yield _wait_for_block(*submission, finished)


@contextlib.contextmanager
def _start_workers(num_workers, tokenizer_directory, settings):
    """Starts worker processes; yields a function that builds a block and returns a future."""
    executor = concurrent.futures.ProcessPoolExecutor(
        num_workers,
        mp_context=multiprocessing.get_context("spawn"),  # TensorFlow deadlocks when forked
        initializer=build_worker.start,
        initargs=(str(tokenizer_directory), dataclasses.asdict(settings)),
    )
    try:
        yield functools.partial(executor.submit, build_worker.build_block)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _wait_for_block(text_block, built, future, finished):
    if built is None:
        try:
            built = future.result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise Interrupted(
                "a worker process died: it ran out of memory, was killed, or the program lacks "
                f'`if __name__ == "__main__":`. Use fewer workers or smaller blocks. {RESUME}'
            ) from error
        finished.write(text_block, built)
    return text_block, built
