"""An English corpus on every machine: the documentation of the installed Python packages."""

import concurrent.futures
import dataclasses
import multiprocessing
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_file
from keras_bert_impl.pretraining.examples.rows import uniform
from keras_bert_impl.quickstart.docstrings import File, file_documents, installed_files

_FEWEST_WORDS = 20  # of a passage
_FEWEST_SENTENCES = 2  # next-sentence prediction needs two
_FILES_PER_TASK = 64


@dataclasses.dataclass(frozen=True)
class Passage:
    """A document: the documentation of a class, a function, a module or a help topic."""

    library: str  # its distribution, such as `"scikit-learn"`, or `"python"`
    name: str  # module and object, such as `"numpy.linalg:solve"`
    text: str  # one sentence per line

    @property
    def module(self) -> str:
        """The module, or help topic, that contains the passage."""
        return self.name.split(":")[0]

    @property
    def sentences(self) -> list[str]:
        return self.text.split("\n")


def read_passages(
    files: Iterable[File] | None = None, processes: int | None = None
) -> list[Passage]:
    """Reads the documentation of the installed packages and of Python itself."""
    files = sorted(installed_files() if files is None else files)
    seen: set[str] = set()
    passages: list[Passage] = []
    for (library, _, _), documents in zip(files, _all_documents(files, processes), strict=True):
        for name, sentences in documents:
            new = [sentence for sentence in sentences if _is_new(sentence, seen)]
            words = sum(sentence.count(" ") + 1 for sentence in new)
            if len(new) >= _FEWEST_SENTENCES and words >= _FEWEST_WORDS:
                passages.append(Passage(library, name, "\n".join(new)))
    if not passages:
        raise InputError(
            "the installed Python packages have no documentation. Run `keras-bert prepare` on your "
            "own text."
        )
    return passages


def split_by_module(
    passages: Sequence[Passage], held_out_fraction: float = 0.15, seed: int = 0
) -> tuple[list[Passage], list[Passage]]:
    """Splits passages by module, without near copies on both sides.

    Returns:
        (training, held_out): passages in their original order; `held_out_fraction` is that of the
        modules, in (0, 1).
    """
    training: list[Passage] = []
    held_out: list[Passage] = []
    for passage in passages:
        is_held_out = uniform(seed, "held out", passage.module) < held_out_fraction
        (held_out if is_held_out else training).append(passage)
    known = set()
    for passage in training:
        known.update(shingles(passage.text))
    return training, [passage for passage in held_out if not _is_near_copy(passage, known)]


def write_sentences(passages: Iterable[Passage], path: str | Path) -> None:
    """Writes a corpus in BERT's format: one sentence a line, a blank line between documents."""
    with replace_file(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        for passage in passages:
            file.write(f"{passage.text}\n\n")


def shingles(text: str, length: int = 5) -> set[int]:
    """Returns the set of hashes of all runs of `length` words of a lowercased text."""
    words = re.findall(r"[a-z]+", text.lower())
    runs = max(1, len(words) - length + 1)
    return {hash(tuple(words[start : start + length])) for start in range(runs)}


def _is_near_copy(passage, known):
    own = shingles(passage.text)
    return len(own & known) >= 0.5 * len(own)


def _is_new(sentence, seen):
    key = re.sub(r"[\W\d]+", "", sentence.lower())
    if key in seen:
        return False
    seen.add(key)
    return True


def _all_documents(files, processes):
    """Yields the documents of each file, in order."""
    processes = processes or os.cpu_count() or 1
    starts = range(0, len(files), _FILES_PER_TASK)
    tasks = [files[start : start + _FILES_PER_TASK] for start in starts]
    if processes == 1 or len(tasks) == 1:
        for result in map(_documents_of, tasks):
            yield from result
        return
    # Spawned, because a forked process can hang if TensorFlow has started threads.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context) as pool:
        for result in pool.map(_documents_of, tasks):
            yield from result


def _documents_of(files):
    return [file_documents(module, path) for _, module, path in files]
