"""`clean`: writes a corpus without HTML, broken characters, other languages and duplicates."""

import array
import collections
import concurrent.futures
import itertools
import json
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from keras_bert_impl.pretraining.corpus.cutting import as_paths
from keras_bert_impl.pretraining.corpus.readers import Document, read_documents
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import replace_file
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.settings import PositiveInt, Range, check
from keras_bert_impl.utils.version import install_command

try:
    from keras_bert_impl.pretraining.corpus import text_cleaning
    from keras_bert_impl.pretraining.corpus.near_duplicates import find_duplicates, text_hash
except ModuleNotFoundError as error:
    raise InputError(
        f"cleaning a corpus needs more packages ({error}): {install_command('corpus')}."
    ) from error

STEPS = (*text_cleaning.STEPS, "duplicates", "near_duplicates")
Similarity = Annotated[float, Range(least=0.1, most=1)]
_AT_ONCE = 1 << 20  # characters


def clean(
    inputs: Any,
    output: str | Path,
    languages: tuple[str, ...] = (),
    near_duplicates: float = 0.8,
    input_format: str = "auto",
    text_field: str = "text",
    num_workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Cleans a corpus and writes it as JSON lines, which `prepare` and `adapt` read.

    These steps are applied in this order. They need the extra `corpus`.

    | step | what it does |
    |---|---|
    | `html` | extracts the main text of documents that are HTML pages (trafilatura) |
    | `characters` | repairs wrongly decoded text (ftfy), removes control characters and blank lines |
    | `language` | removes documents in other languages than `languages` (py3langid) |
    | `duplicates` | removes documents with the same text as an earlier document |
    | `near_duplicates` | removes documents that are similar to an earlier document (MinHash) |

    Args:
        inputs: Paths or texts; see `prepare`.
        output: File to write, such as `clean.jsonl`: one document per line, in the field `text`.
        languages: ISO 639-1 codes of the languages to keep, such as `("en", "de")`. Empty keeps all
            languages.
        near_duplicates: Minimum similarity of near-duplicates, in [0.1, 1]. The similarity of two
            documents is the estimated Jaccard similarity of their 5-grams of words.
        input_format, text_field: see `read_documents`.
        num_workers: Number of processes, if the corpus has more than a million characters; see
            `prepare`.
        progress: Function called with the number of documents cleaned so far.

    Returns:
        dict with `read` and `written`: numbers of `documents` and `characters`; `steps`: for each
        step, the number of documents that it `removed` and `changed`, and of `characters` that it
        removed; `languages`: the number of documents by language, if `languages` is not empty;
        `unreadable`: why files were skipped, one text for each file.

    Raises:
        InputError: The corpus or an argument is invalid, a package is missing, or no text remains.
            Nothing is written.

    Example:
        from keras_bert_impl.pretraining import clean
        texts = ["A boat sails on the sea.", "<html><body><p>A boat sails on the sea.</p></body></html>"]
        clean(texts, "clean.jsonl")["steps"]["duplicates"]["removed"]  # 1
    """
    if local_path(output).suffix != ".jsonl":
        raise InputError(f"{output} would contain JSON lines. Choose a name that ends in .jsonl.")
    languages = check("languages", languages, tuple[str, ...])
    text_cleaning.check_languages(languages)
    threshold = check("near_duplicates", near_duplicates, Similarity)
    num_workers = check("num_workers", num_workers, PositiveInt | None) or os.cpu_count() or 1
    counts: text_cleaning.Counts = collections.Counter()
    unreadable: list[InputError] = []
    hashes = array.array("Q")
    with as_paths(inputs, input_format, text_field) as (paths, format, field):
        with replace_file(output) as temporary:
            aside = temporary.with_name("texts"), temporary.with_name("signatures")
            batches = _batch_texts(read_documents(paths, format, field, unreadable), counts)
            with open(aside[0], "w", encoding="utf-8") as texts, open(aside[1], "wb") as signatures:
                for cleaned, batch_counts in _clean_batches(batches, languages, num_workers):
                    counts.update(batch_counts)
                    for text, signature in cleaned:
                        texts.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
                        signatures.write(signature.tobytes())
                        hashes.append(text_hash(text))
                    if progress:
                        progress(counts["read", "documents"])
            if not hashes:
                raise InputError(
                    f"no text remains after cleaning; removed by step: {_list_removed(counts)}."
                )
            _write_distinct(aside, hashes, threshold, temporary, counts)
    return _build_summary(counts) | {"unreadable": list(map(str, unreadable))}


def _batch_texts(
    documents: Iterable[Document], counts: text_cleaning.Counts
) -> Iterator[list[str]]:
    """Yields batches of texts with about a million characters; counts documents and characters."""
    batch, size = [], 0
    for document in documents:
        text = "\n".join(document.paragraphs)
        counts["read", "documents"] += 1
        counts["read", "characters"] += len(text)
        batch.append(text)
        size += len(text)
        if size >= _AT_ONCE:
            yield batch
            batch, size = [], 0
    yield batch


def _clean_batches(batches, languages, num_workers):
    """Calls `clean_texts` for each batch, in several processes; yields the results in order."""
    first = list(itertools.islice(batches, 2))
    batches = itertools.chain(first, batches)
    if num_workers == 1 or len(first) == 1:
        yield from (text_cleaning.clean_texts(batch, languages) for batch in batches)
        return
    spawn = multiprocessing.get_context("spawn")  # TensorFlow deadlocks when forked
    pending: collections.deque = collections.deque()
    with concurrent.futures.ProcessPoolExecutor(num_workers, mp_context=spawn) as executor:
        for batch in batches:
            pending.append(executor.submit(text_cleaning.clean_texts, batch, languages))
            if len(pending) > num_workers:
                yield pending.popleft().result()
        yield from (future.result() for future in pending)


def _write_distinct(aside, hashes, threshold, output, counts):
    """Writes the texts to `output`, except duplicates and near-duplicates. Updates `counts`."""
    signatures = np.memmap(aside[1], np.uint32, "r").reshape(len(hashes), -1)
    exact, near = find_duplicates(np.array(hashes, np.uint64), signatures, threshold)
    with open(aside[0], encoding="utf-8") as lines, open(output, "w", encoding="utf-8") as file:
        for line, is_exact, is_near in zip(lines, exact, near):
            step = "duplicates" if is_exact else "near_duplicates" if is_near else ""
            characters = len(json.loads(line)["text"])
            if step:
                counts[step, "removed"] += 1
                counts[step, "characters"] += characters
            else:
                counts["written", "documents"] += 1
                counts["written", "characters"] += characters
                file.write(line)


def _build_summary(counts):
    summary: dict[str, Any] = {
        part: {name: counts[part, name] for name in ("documents", "characters")}
        for part in ("read", "written")
    }
    names = ("removed", "changed", "characters")
    summary["steps"] = {step: {name: counts[step, name] for name in names} for step in STEPS}
    languages = {name: number for (part, name), number in counts.items() if part == "languages"}
    return summary | ({"languages": languages} if languages else {})


def _list_removed(counts):
    return ", ".join(f"{step} {counts[step, 'removed']:,}" for step in text_cleaning.STEPS)
