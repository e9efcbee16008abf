"""An English corpus from the documentation of the installed Python packages."""

import ast
import collections
import concurrent.futures
import dataclasses
import importlib.metadata
import multiprocessing
import os
import re
import sysconfig
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_file
from keras_bert_impl.pretraining.examples.rows import uniform
from keras_bert_impl.quickstart.prose import prose_sentences

# Folders of tests and vendored packages, which do not document the library.
_SKIPPED_FOLDERS = set(
    "tests test testing _vendor _vendored vendored vendor externals site-packages dist-packages "
    "idlelib lib2to3 turtledemo _tf_keras __pycache__".split()
)
File = tuple[str, str, Path]  # library, dotted name of the module, path
_LARGEST_FILE = 2_000_000  # bytes; larger files are generated tables
_OWN_DOCUMENT = 3  # minimum sentences; shorter docstrings are merged into their class or module
_SCOPES = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def installed_files() -> list[File]:
    """Lists the Python files of the installed distributions and of the standard library."""
    files = {}
    for distribution in importlib.metadata.distributions():
        library = re.sub(r"[-_.]+", "-", distribution.metadata["Name"] or "").lower()
        # Reads RECORD directly: `distribution.files` takes ten seconds for 20,000 files.
        for line in (distribution.read_text("RECORD") or "").splitlines():
            relative = line.split(",", 1)[0]
            parts = Path(relative).parts
            if relative.endswith(".py") and parts[0] != ".." and _wanted(parts):
                files[Path(str(distribution.locate_file(relative)))] = (library, _module(parts))
    root = Path(sysconfig.get_path("stdlib"))
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS]
        for name in names:
            if name.endswith(".py"):
                path = Path(folder, name)
                files[path] = ("python", _module(path.relative_to(root).parts))
    return sorted((library, module, path) for path, (library, module) in files.items())


def file_documents(module: str, path: str | Path) -> list[tuple[str, list[str]]]:
    """Extracts documents from a file's docstrings, or from Python's table of help topics."""
    try:
        if os.path.getsize(path) > _LARGEST_FILE:
            return []
        source = Path(path).read_bytes()
        if b'"""' not in source and b"'''" not in source and module != "pydoc_data.topics":
            return []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in strings of other packages
            tree = ast.parse(source)
    # newer syntax, other encoding, null bytes or deep nesting
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    if module == "pydoc_data.topics":
        return _help_topics(tree)
    documents: list[tuple[str, list[str]]] = []
    _collect(tree, f"{module}:", documents)
    return documents


def _wanted(parts):
    is_test = parts[-1].startswith("test_") or parts[-1].endswith("_test.py")
    return not is_test and not _SKIPPED_FOLDERS.intersection(parts)


def _module(parts):
    return ".".join(parts).removesuffix(".py").removesuffix(".__init__")


def _collect(scope, name, documents):
    """Appends a document for `scope` and for each inner scope with enough sentences.

    If `scope` has too few sentences, they are returned and become part of the outer document.
    """
    sentences = prose_sentences(ast.get_docstring(scope, clean=False) or "")
    position = len(documents)
    for child in scope.body:
        if isinstance(child, _SCOPES):
            child_name = f"{name}{child.name}" if name.endswith(":") else f"{name}.{child.name}"
            sentences += _collect(child, child_name, documents)
    if len(sentences) < _OWN_DOCUMENT and not isinstance(scope, ast.Module):
        return sentences
    if sentences:
        documents.insert(position, (name.removesuffix(":"), sentences))
    return []


def _help_topics(tree):
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Dict):
            topics = ast.literal_eval(statement.value)
            return [
                (f"pydoc_data.topics.{topic}", prose_sentences(text))
                for topic, text in sorted(topics.items())
            ]
    return []


_FEWEST_WORDS = 20  # sentences of a passage
_FEWEST_SENTENCES = 2  # next-sentence prediction needs two
_FILES_PER_TASK = 64


@dataclasses.dataclass(frozen=True)
class Passage:
    """A document with the docstrings of a class, function or module, or with a help topic."""

    library: str  # name of the distribution, such as `"scikit-learn"`, or `"python"`
    name: str  # module and object, such as `"numpy.linalg:solve"`
    text: str  # one sentence per line

    @property
    def module(self) -> str:
        return self.name.split(":")[0]

    @property
    def sentences(self) -> list[str]:
        return self.text.split("\n")


def read_passages(
    files: Iterable[File] | None = None, processes: int | None = None
) -> list[Passage]:
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
    """Splits passages into (training, held_out), with no module in both.

    `held_out_fraction` is the fraction of modules that are held out. Near-duplicates of training
    passages are removed from the held-out passages.
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
    """Writes one sentence per line, with a blank line between documents."""
    with replace_file(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        for passage in passages:
            file.write(f"{passage.text}\n\n")


def shingles(text: str, length: int = 5) -> set[int]:
    """Returns the hashes of all n-grams of words in a text; `length` is n. Ignores case."""
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
    processes = processes or os.cpu_count() or 1
    starts = range(0, len(files), _FILES_PER_TASK)
    tasks = [files[start : start + _FILES_PER_TASK] for start in starts]
    if processes == 1 or len(tasks) == 1:
        for result in map(_documents_of, tasks):
            yield from result
        return
    # Processes are spawned, because a forked process can hang if TensorFlow has started threads.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context) as pool:
        for result in pool.map(_documents_of, tasks):
            yield from result


def _documents_of(files):
    return [file_documents(module, path) for _, module, path in files]


_MOST_LABELED_WORDS = 60  # sentences in a labeled passage; few, so that the task is not trivial
_FEWEST_LABELED_WORDS = 15

# Common names of libraries that differ from the names of their distributions and packages.
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
    """Returns short passages about the libraries. Removes the libraries' names from the texts."""
    names = _names_pattern(passages, libraries)
    found: dict[str, list[Passage]] = {library: [] for library in libraries}
    for passage in passages:
        if passage.library in found:
            found[passage.library].extend(_short_passages(passage, names))
    return [one for items in found.values() for one in _spread(items, most_per_library)]


def write_labeled(passages: Iterable[Passage], path: str | Path) -> None:
    """Writes a tab-separated file with the columns `text` and `label`."""
    with replace_file(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write("text\tlabel\n")
        for passage in passages:
            text = " ".join(passage.text.split())
            file.write(f"{text}\t{passage.library}\n")


def _short_passages(passage, names):
    chosen, words = [], 0
    for sentence in passage.sentences:
        sentence = _without_names(sentence, names)
        length = len(sentence.split())
        if chosen and words + length > _MOST_LABELED_WORDS:
            yield dataclasses.replace(passage, text="\n".join(chosen))
            chosen, words = [], 0
        chosen.append(sentence)
        words += length
    if words >= _FEWEST_LABELED_WORDS:
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
    # The longest names come first: "tensorflow datasets" before "tensorflow". Words of a name are
    # joined by a hyphen, an underscore, a space or nothing. "np." includes the dot.
    ordered = sorted(names, key=lambda name: (-len(name), name))
    spelled = "|".join("[-_ ]?".join(map(re.escape, re.split("[-_ ]", name))) for name in ordered)
    return re.compile(rf"(?<![A-Za-z])(?:{spelled})(?:['’]s\b)?(?:\.(?=\w)|(?![A-Za-z]))", re.I)


def _spread(items, count):
    if count is None or len(items) <= count:
        return items
    return [items[position * len(items) // count] for position in range(count)]
