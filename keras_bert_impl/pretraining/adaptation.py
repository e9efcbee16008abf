"""Domain adaptation: continued masked language modeling on unlabeled text."""

import contextlib
import dataclasses
import hashlib
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert_impl.checkpoints.interop import open_model, read_encoder_config
from keras_bert_impl.checkpoints.interop.sentence_transformers import copy_sentence_settings
from keras_bert_impl.models.heads import check_sees_both_sides
from keras_bert_impl.pretraining.corpus.cutting import as_paths, numbered
from keras_bert_impl.pretraining.corpus.preparation import Progress, prepare, shown_progress
from keras_bert_impl.pretraining.corpus.readers import Document, read_documents
from keras_bert_impl.pretraining.examples.records import MANIFEST
from keras_bert_impl.pretraining.run import is_finished, pretrain
from keras_bert_impl.pretraining.settings import AdaptationSettings, PretrainSettings
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.training.runs.run_directory import remove_checkpoints
from keras_bert_impl.training.strategy import check_strategy, num_workers
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import known_arguments
from keras_bert_impl.utils.io.files import claim, replace_directory, write_json
from keras_bert_impl.utils.io.paths import expanded, local_path
from keras_bert_impl.utils.io.reading import read_json


@known_arguments("adapt")
def adapt(
    model: str | Path,
    text: Any,
    output_directory: str | Path,
    strategy: Any = "auto",
    resume: bool = True,
    dtype: str = "float32",
    seed: int = 1,
    verbose: str | int = "auto",
    progress: Callable[[Progress], None] | None = None,
    **fields: Any,
) -> Path:
    """Continues pre-training a model on texts of a domain, before fine-tuning.

    The output directory contains `records` (single segments), `run` (the pre-training run
    directory) and `data.json`. If a call was interrupted, the next call resumes; finished steps are
    not repeated. The model's tokenizer and pooler are kept. If the model has no masked LM head, a
    new one is initialized, with a warning.

    If the corpus has more documents than training can read in `adapt_steps`, a subset of evenly
    spaced documents is used. If there are at least 20 documents, some are held out, and
    `run/scores.json` contains the held-out loss after adaptation (`loss`) and before adaptation
    (`before/loss`).

    Args:
        model: Model directory or name; see `interop.open_model`.
        text: File, folder or `tfds://` name (see `read_documents`), or a list or iterator of
            texts. Each text is a document.
        strategy, resume, verbose: see `pretrain`.
        seed: Seed for the records, masks and dropout.
        progress: Function called during the preparation of the records, instead of a progress bar;
            see `prepare`.
        **fields: Fields of `AdaptationSettings`.

    Returns:
        The directory of the adapted model.

    Raises:
        InputError: The text, the settings or the model are invalid, or the directory contains a
            run with a different text or different settings.

    Source: Gururangan et al. 2020, "Don't Stop Pretraining", section 3.

    Example:
        adapted = adapt("path/to/model", "corpus.txt", "run/adapt", adapt_steps=5000)
        finetune(adapted, train, dev, "run")
    """
    model, directory = expanded(model), local_path(output_directory)
    settings = AdaptationSettings(**fields)
    if num_workers() > 1:
        raise InputError(
            f"adaptation runs on one worker, not on {num_workers()}. On several workers, run "
            "prepare and pretrain, then fine-tune the result."
        )
    source = open_model(model)
    config = read_encoder_config(source)
    check_sees_both_sides(config, "adaptation")
    length = settings.adapt_length or min(128, config.max_length)
    if length > config.max_length:
        raise InputError(
            f"adapt_length={length} exceeds the maximum of {model}, {config.max_length} tokens."
        )
    run_settings = PretrainSettings(
        model=str(model if Path(model).is_dir() else source.path),
        total_steps=settings.adapt_steps,
        batch_size=settings.adapt_batch_size,
        learning_rate=settings.adapt_learning_rate,
        objectives=("masked_lm",),
        report_every=settings.report_every,
        bias_correction=True,  # Without it, the first updates would be several times too large.
        dtype=dtype,
        seed=seed,
    )
    check_strategy(strategy)
    records, run = directory / "records", directory / "run"
    with as_paths(text) as (paths, format, _):
        name = str(text) if format == "auto" else "texts in memory"
        corpus = _read(read_documents(paths, format))
        lock = claim(run / "checkpoints" / ".lock")  # held until this function returns
        if lock is None:
            raise InputError(f"another process is training in {run}; wait for it to finish.")
        _check_same_text(directory, corpus.sha256, name, length, resume)
        if not (records / MANIFEST).exists():
            tokenizer = Tokenizer.from_pretrained(source.path)
            used = _compute_needed(corpus, settings, length)
            if used.documents < corpus.documents and verbose != 0:
                print(
                    f"preparing {used.documents:,} of {corpus.documents:,} documents, enough for "
                    f"{settings.adapt_steps:,} steps of {settings.adapt_batch_size} rows",
                    file=sys.stderr,
                )
            with contextlib.ExitStack() as stack:
                if progress is None and verbose != 0:
                    progress = stack.enter_context(shown_progress())
                texts = _sample_texts(read_documents(paths, format), used.share)
                prepare(
                    texts, records, tokenizer, length, "mlm",
                    held_out=used.held_out, seed=seed, progress=progress,
                )  # fmt: skip
    if not is_finished(records, run, run_settings, resume):
        pretrain(
            records,
            run,
            strategy=strategy,
            resume=resume,
            verbose=verbose,
            **dataclasses.asdict(run_settings),
        )
    remove_checkpoints(run)
    with replace_directory(run / "model") as temporary:
        copy_sentence_settings(source, temporary, config)
    return run / "model"


# === The documents that are needed ===

_CHARACTERS = 6  # characters per token, more than in most texts
_HELD_OUT_ROWS = 512
_FEWEST_DOCUMENTS = 20  # minimum number of documents to hold out any


class _Corpus(NamedTuple):
    """Checksum of a corpus, and its numbers of documents and characters without duplicates."""

    sha256: str
    documents: int
    characters: int


class _Needed(NamedTuple):
    """Fraction and number of the documents to prepare, and fraction of them to hold out."""

    share: float
    documents: int
    held_out: float


def _read(documents: Iterable[Document]) -> _Corpus:
    digest, count, characters = hashlib.sha256(), 0, 0

    def hash_documents():
        for document in documents:
            digest.update("\n".join([*document.paragraphs, ""]).encode("utf-8", "surrogatepass"))
            digest.update(b"\0")
            yield document

    for document in _skip_duplicates(hash_documents()):
        count, characters = count + 1, characters + document.characters
    return _Corpus(digest.hexdigest(), count, characters)


def _compute_needed(corpus: _Corpus, settings: AdaptationSettings, length: int) -> _Needed:
    rows = settings.adapt_steps * settings.adapt_batch_size + _HELD_OUT_ROWS
    # minimum number of rows in the text
    available = max(corpus.characters / (length * _CHARACTERS), 1.0)
    share = min(1.0, rows / available)
    count = math.ceil(corpus.documents * share)
    if count < _FEWEST_DOCUMENTS:
        return _Needed(share, count, 0.0)
    held_out = min(0.1, _HELD_OUT_ROWS / (available * share))
    # This fraction holds out at least one document.
    return _Needed(share, count, max(held_out, 2 / count))


def _sample_texts(documents: Iterable[Document], share: float) -> Iterator[str]:
    """Yields the texts of a fraction of the documents, evenly spaced in the corpus."""
    for number, document in enumerate(_skip_duplicates(documents)):
        if math.floor(number * share) > math.floor((number - 1) * share):
            yield "\n".join(document.paragraphs)


def _skip_duplicates(documents):
    counts = {"documents": 0, "duplicate_documents": 0}
    return (document for _, document in numbered(documents, counts))


def _check_same_text(directory, sha256, name, length, resume):
    """Writes `data.json`. Raises `InputError` if existing records have another text or length."""
    now = {"text": name, "sha256": sha256, "length": length}
    path = directory / "data.json"
    if (directory / "records").exists():  # Without records, later calls may use another text.
        if not path.exists():
            raise InputError(
                f"{directory} contains an adapted model, but data.json is missing. Restore "
                "data.json, or choose another directory."
            )
        if not resume:
            raise InputError(f"{directory} contains an adapted model. Choose another directory.")
        before = read_json(path)
        for name, difference in (
            ("sha256", "other text"),
            ("length", "a different sequence length"),
        ):
            if before.get(name) != now[name]:
                raise InputError(
                    f"{directory} contains a model adapted with {difference}: text "
                    f"{before.get('text')}, adapt_length {before.get('length')}. Use the same text "
                    "and length, or choose another directory."
                )
    write_json(path, now)
