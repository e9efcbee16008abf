"""Reads a corpus from files or memory, drops duplicates and cuts the documents into blocks."""

import contextlib
import dataclasses
import json
import math
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from keras_bert_impl.pretraining.corpus import blocks
from keras_bert_impl.pretraining.corpus.readers import Document
from keras_bert_impl.pretraining.corpus.sentences import split_sentences
from keras_bert_impl.pretraining.examples import records, rows
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io import files

_LOOKED_AT = 100  # number of strings in a list that are checked for paths
_LONGEST_PATH = 4_000
_URL = re.compile(r"\w+://")
_IN_FOLDER = re.compile(r"[/\\]")
_SUFFIX = re.compile(r"[^\s]\.\w{1,8}\Z")


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Arguments of `prepare` that define the documents, blocks and splits."""

    paths: list[str]
    format: str
    text_field: str
    block_characters: int
    held_out: float


class Written(NamedTuple):
    """Result of writing a corpus: the number of documents, and the counts and shards by split."""

    documents: int
    duplicate_documents: int
    counts: dict[str, blocks.Counts]
    shards: dict[str, list[dict[str, Any]]]  # of `describe_shard`


def numbered(
    documents: Iterable[Document], counts: dict[str, int]
) -> Iterator[blocks.NumberedDocument]:
    """Skips duplicates; yields (index in the corpus, document). Updates `counts`."""
    hashes = blocks.HashSet()
    for document in documents:
        counts["documents"] += 1
        if hashes.add(document.text_hash):
            yield counts["documents"] - 1, document
        else:
            counts["duplicate_documents"] += 1


def split_of(number: int, held_out: float, seed: int) -> str:
    """Returns the split, `"train"` or `"held_out"`, of the document with the given index."""
    share = min(held_out, 1 - held_out)
    if not share:
        return "train"
    part = int(number * share)
    first, end = math.ceil(part / share), math.ceil((part + 1) / share)
    is_chosen = number == first + int(rows.uniform(seed, "held_out", part) * (end - first))
    return "held_out" if is_chosen == (held_out <= 0.5) else "train"


def check_corpus(documents: Iterable[Document], corpus: Corpus, objective: str, seed: int) -> None:
    """Raises `InputError` if the documents are too few or too short for the objective."""
    counts = {"documents": 0, "duplicate_documents": 0}
    takes_pairs = objective == "mlm_nsp"
    missing = dict.fromkeys(records.SPLITS, 2 if takes_pairs else 1)
    if not corpus.held_out:
        del missing["held_out"]
    no_true_pair = takes_pairs
    for number, document in numbered(documents, counts):
        split = split_of(number, corpus.held_out, seed)
        missing[split] -= 1
        if no_true_pair and split == "train":
            no_true_pair = _count_sentences(document) < 2
        if not no_true_pair and max(missing.values()) <= 0:
            return
    num_distinct = counts["documents"] - counts["duplicate_documents"]
    if takes_pairs and num_distinct == 1 and not corpus.held_out:
        if _count_sentences(document) > 2:
            return
        raise InputError(
            f"the corpus has only one distinct document ({document.source}), and it has fewer than "
            "the three sentences that next-sentence prediction needs. Add text, with one sentence "
            "per line and a blank line between documents, or choose --objective mlm."
        )
    for split, count in missing.items():
        if count > 0:
            how, name = {"held_out": ("larger", "held-out"), "train": ("smaller", "train")}[split]
            raise InputError(
                f"held_out={corpus.held_out} leaves too few of the {num_distinct} documents in the "
                f"{name} split. Choose a {how} held_out, or add documents."
            )
    raise InputError(
        f"none of the {num_distinct} documents has two sentences, so every pair would have a "
        "random second segment. If each line is a document, write one sentence per line and a "
        "blank line between documents. For single-sentence texts choose --objective mlm."
    )


def _count_sentences(document):
    if document.is_split:
        return len(document.paragraphs)
    return sum(len(split_sentences(paragraph)) for paragraph in document.paragraphs)


def first_shard_of(block: int, seed: int) -> int:
    # The number is pseudorandom, so that the blocks begin at different open shards.
    return rows.stable_hash(seed, "shards", block)


def text_blocks(
    numbered: Iterable[blocks.NumberedDocument], corpus: Corpus, objective: str, seed: int
) -> Iterator[blocks.TextBlock]:
    """Groups the documents of each split into blocks; yields numbered blocks."""
    fewest = 2 if objective == "mlm_nsp" else 1
    waiting = dict.fromkeys(records.SPLITS)
    growing = {split: blocks.TextBlock(split) for split in records.SPLITS}
    number = 0
    for document_number, document in numbered:
        split = split_of(document_number, corpus.held_out, seed)
        block = growing[split]
        block.append(document_number, document)
        if block.characters >= corpus.block_characters and len(block.documents) >= fewest:
            if waiting[split]:
                yield dataclasses.replace(waiting[split], number=number)
                number += 1
            waiting[split], growing[split] = block, blocks.TextBlock(split)
    for split in records.SPLITS:
        last = [block for block in (waiting[split], growing[split]) if block and block.documents]
        if len(last) == 2 and len(last[1].documents) < fewest:
            last = [last[0].joined(last[1])]
        for block in last:
            yield dataclasses.replace(block, number=number)
            number += 1


@contextlib.contextmanager
def as_paths(
    inputs: Any, format: str = "auto", text_field: str = "text"
) -> Iterator[tuple[Any, str, str]]:
    """Context manager that writes texts to a temporary file. Paths are not changed.

    Yields:
        (paths, format, text field): the arguments of `read_documents`.
    """
    texts = _find_texts(inputs, text_field)
    if texts is None:
        yield inputs, format, text_field
        return
    if format != "auto":
        raise InputError(f"format is only for files, not for texts. Received: format={format!r}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "texts.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for number, text in enumerate(texts):
                file.write(json.dumps({"text": _convert_to_str(text, number)}) + "\n")
        try:
            yield path, "jsonl", "text"
        except InputError as error:  # name the text, not the line of the file
            message = re.sub(re.escape(path) + r":(\d+)", _name_text, str(error))
            raise InputError(message.replace(path, "the texts")) from error


def _name_text(match):
    return f"text {int(match[1]) - 1}"


def _find_texts(inputs, text_field):
    """Returns the texts in `inputs`, or None if `inputs` are paths."""
    if isinstance(inputs, (str, os.PathLike)):
        return None
    names = getattr(inputs, "column_names", None)  # columns of Hugging Face `datasets` and Arrow
    if names is None:
        names = getattr(inputs, "columns", None)  # pandas
    if names is None and isinstance(inputs, Mapping):
        names = inputs.keys()
    if names is not None:
        if text_field not in list(names):
            raise InputError(
                f"the table has no column {text_field!r}; its columns are {listed(names)}. Pass "
                "the name of the text column as text_field=..."
            )
        return inputs[text_field]
    if not isinstance(inputs, (list, tuple)):
        return inputs
    sample = inputs[:_LOOKED_AT]
    is_path = not sample or any(_is_path(text) for text in sample)
    return None if is_path else inputs


def _is_path(value):
    if not isinstance(value, str) or len(value) > _LONGEST_PATH or "\0" in value:
        return isinstance(value, os.PathLike)
    is_one_word = len(value.split()) == 1 and value == value.strip()
    is_place = is_one_word and (_IN_FOLDER.search(value) or _SUFFIX.search(value[-10:]))
    return bool(_URL.match(value) or is_place) or files.exists(value)


def _convert_to_str(text, number):
    """Converts strings of NumPy, TensorFlow, Arrow and pandas to str."""
    for method in ("numpy", "as_py"):  # tensors and Arrow
        if hasattr(text, method):
            text = getattr(text, method)()
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if not isinstance(text, str):
        raise InputError(f"text {number} must be a string, got {text!r:.60}.")
    return text
