"""A labeled dataset on every machine: which library does a passage document?"""

import collections
import dataclasses
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_file
from keras_bert_impl.quickstart.corpus import Passage

_MOST_WORDS = 60  # of a labeled passage: a few sentences, so that the task is not trivial
_FEWEST_WORDS = 15

# Common names of a library besides those of its distribution and its packages.
_OTHER_NAMES = {
    "huggingface-hub": ["hugging face", "huggingface", "hf"],
    "jax": ["jnp", "lax"],
    "keras-hub": ["kerashub", "kerasnlp", "keras nlp"],
    "matplotlib": ["mpl", "plt", "pyplot"],
    "numpy": ["np", "ndarray", "ndarrays"],
    "pandas": ["pd"],
    "python": ["cpython", "pythonic", "py"],
    "scikit-learn": ["sklearn", "scikit"],
    "scipy": ["sp"],
    "seaborn": ["sns"],
    "tensorflow": ["tf"],
    "tensorflow-datasets": ["tfds"],
}


def largest_libraries(passages: Iterable[Passage], count: int = 8) -> list[str]:
    """Returns the `count` libraries with the most words, largest first."""
    words: collections.Counter[str] = collections.Counter()
    for passage in passages:
        words[passage.library] += len(passage.text.split())
    ranked = sorted(words, key=lambda library: (-words[library], library))[:count]
    if len(ranked) < 2:
        raise InputError(
            f"the passages come from {len(ranked)} libraries; classification needs at least two."
        )
    return ranked


def library_passages(
    passages: Sequence[Passage], libraries: Sequence[str], most_per_library: int | None = None
) -> list[Passage]:
    """Returns short passages of the given libraries, with the libraries' names removed."""
    names = _names_pattern(passages, libraries)
    found: dict[str, list[Passage]] = {library: [] for library in libraries}
    for passage in passages:
        if passage.library in found:
            found[passage.library].extend(_short_passages(passage, names))
    return [one for items in found.values() for one in _spread(items, most_per_library)]


def write_labeled(passages: Iterable[Passage], path: str | Path) -> None:
    """Writes a labeled dataset as a tab-separated file with the header line `text`, `label`."""
    with replace_file(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write("text\tlabel\n")
        for passage in passages:
            text = " ".join(passage.text.split())
            file.write(f"{text}\t{passage.library}\n")


def _short_passages(passage, names):
    """Yields `Passage`s of consecutive sentences of one passage."""
    chosen, words = [], 0
    for sentence in passage.sentences:
        sentence = _without_names(sentence, names)
        length = len(sentence.split())
        if chosen and words + length > _MOST_WORDS:
            yield dataclasses.replace(passage, text="\n".join(chosen))
            chosen, words = [], 0
        chosen.append(sentence)
        words += length
    if words >= _FEWEST_WORDS:
        yield dataclasses.replace(passage, text="\n".join(chosen))


def _without_names(sentence, names):
    sentence = names.sub("", sentence)
    sentence = re.sub(r"\(\s*\)", "", sentence)
    sentence = re.sub(r"\s+([.,;:!?)])", r"\1", sentence)
    sentence = " ".join(sentence.split())
    return sentence[:1].upper() + sentence[1:]


def _names_pattern(passages, libraries):
    names = set()
    for passage in passages:
        if passage.library in libraries and passage.library != "python":
            names.add(passage.name.split(":")[0].split(".")[0].strip("_"))
    for library in libraries:
        names.update([library, *_OTHER_NAMES.get(library, [])])
    # Longest first: "tensorflow datasets" before "tensorflow". The parts of a name may be joined by
    # a hyphen, an underscore, a space or nothing. "np." includes its dot.
    ordered = sorted(names, key=lambda name: (-len(name), name))
    spelled = "|".join("[-_ ]?".join(map(re.escape, re.split("[-_ ]", name))) for name in ordered)
    return re.compile(rf"(?<![A-Za-z])(?:{spelled})(?:['’]s\b)?(?:\.(?=\w)|(?![A-Za-z]))", re.I)


def _spread(items, count):
    if count is None or len(items) <= count:
        return items
    return [items[position * len(items) // count] for position in range(count)]
