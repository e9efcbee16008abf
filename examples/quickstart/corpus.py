"""An English corpus from the docstrings of the installed Python packages."""

import ast
import collections
import concurrent.futures
import dataclasses
import importlib.metadata
import multiprocessing
import os
import random
import re
import sysconfig
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

from examples.quickstart.prose import prose_sentences
from keras_bert_impl import InputError

File = tuple[str, str, Path]  # library, dotted name of the module, path
# Folders of tests and vendored packages, which do not document the library.
_SKIPPED = re.compile(r"tests?|testing|_?vendor(ed)?|externals|\w+-packages|idlelib|_tf_keras")
_LARGEST_FILE = 2_000_000  # bytes; larger files are generated tables
_OWN_DOCUMENT = 3  # minimum sentences; shorter docstrings are merged into their class or module
_SCOPES = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_FEWEST_WORDS, _FEWEST_SENTENCES = 20, 2  # of a passage; next-sentence prediction needs two
_MOST_LABELED_WORDS, _FEWEST_LABELED_WORDS = 60, 15  # few, so that the task is not trivial
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
    "tensorflow": ["tf"],
    "tensorflow-datasets": ["tfds"],
}


@dataclasses.dataclass(frozen=True)
class Passage:
    """The docstrings of a class, function or module."""

    library: str  # name of the distribution, such as `"scikit-learn"`, or `"python"`
    name: str  # module and object, such as `"numpy.linalg:solve"`
    sentences: Sequence[str]

    @property
    def module(self) -> str:
        return self.name.split(":")[0]


# === Reading ===


def installed_files() -> list[File]:
    """Lists the Python files of the installed distributions and of the standard library."""
    root = Path(sysconfig.get_path("stdlib"))
    paths = [("python", path.relative_to(root).parts, path) for path in root.rglob("*.py")]
    for distribution in importlib.metadata.distributions():
        library = re.sub(r"[-_.]+", "-", distribution.metadata["Name"] or "").lower()
        # Reads RECORD directly: `distribution.files` takes ten seconds for 20,000 files.
        for line in (distribution.read_text("RECORD") or "").splitlines():
            name = line.split(",", 1)[0]
            if name.endswith(".py") and not name.startswith(".."):
                paths.append((library, Path(name).parts, Path(str(distribution.locate_file(name)))))
    return sorted(
        (library, ".".join(parts).removesuffix(".py").removesuffix(".__init__"), path)
        for library, parts, path in paths
        if not parts[-1].startswith("test_") and not any(map(_SKIPPED.fullmatch, parts))
    )


def file_documents(file: File) -> list[tuple[str, list[str]]]:
    """Extracts (name, sentences) from the docstrings of a file, which is not executed."""
    _, module, path = file
    try:
        if os.path.getsize(path) > _LARGEST_FILE:
            return []
        source = path.read_bytes()
        if b'"""' not in source and b"'''" not in source:
            return []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in strings of other packages
            tree = ast.parse(source)
    # newer syntax, other encoding, null bytes or deep nesting
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    documents: list[tuple[str, list[str]]] = []
    _collect(tree, f"{module}:", documents)
    return documents


def _collect(scope, name, documents):
    """Appends a document for `scope` and for each inner scope with enough sentences.

    If `scope` has too few sentences, they are returned and become part of the outer document.
    """
    sentences = prose_sentences(ast.get_docstring(scope, clean=False) or "")
    position = len(documents)
    for child in scope.body:
        if isinstance(child, _SCOPES):
            sentences += _collect(child, f"{name}.{child.name}".replace(":.", ":"), documents)
    if len(sentences) < _OWN_DOCUMENT and not isinstance(scope, ast.Module):
        return sentences
    if sentences:
        documents.insert(position, (name.removesuffix(":"), sentences))
    return []


def read_passages(files: Sequence[File], processes: int | None = None) -> list[Passage]:
    """Reads the passages of files. Repeated sentences are used only once."""
    files, seen, passages = sorted(files), set(), []
    # Processes are spawned, because a forked process can hang if TensorFlow has started threads.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context) as pool:
        all_documents = list(pool.map(file_documents, files, chunksize=64))
    for (library, _, _), documents in zip(files, all_documents, strict=True):
        for name, sentences in documents:
            keys = {re.sub(r"[\W\d]+", "", sentence.lower()): sentence for sentence in sentences}
            new = [sentence for key, sentence in keys.items() if key not in seen]
            seen.update(keys)
            if len(new) >= _FEWEST_SENTENCES and len(" ".join(new).split()) >= _FEWEST_WORDS:
                passages.append(Passage(library, name, new))
    if not passages:
        raise InputError("the installed Python packages have no documentation.")
    return passages


def split_by_module(
    passages: Sequence[Passage], held_out_fraction: float = 0.15, seed: int = 0
) -> tuple[list[Passage], list[Passage]]:
    """Splits passages into (training, held_out), with no module in both.

    `held_out_fraction` is the fraction of modules that are held out. Near-duplicates of training
    passages are removed from the held-out passages.
    """
    parts: tuple[list[Passage], list[Passage]] = ([], [])
    for passage in passages:
        draw = random.Random(f"{seed} {passage.module}").random()
        parts[draw < held_out_fraction].append(passage)
    training, held_out = parts
    trained = set().union(*map(_word_runs, training))
    return training, [one for one in held_out if _share(_word_runs(one), trained) < 0.5]


def _word_runs(passage, length=5):
    words = re.findall(r"[a-z]+", " ".join(passage.sentences).lower())
    return {tuple(words[i : i + length]) for i in range(max(1, len(words) - length + 1))}


def _share(runs, others):
    return len(runs & others) / len(runs)


# === Writing ===


def write_sentences(passages: Iterable[Passage], path: str | Path) -> None:
    """Writes one sentence per line, with a blank line between documents."""
    texts = ["\n".join(passage.sentences) for passage in passages]
    Path(path).write_text("\n\n".join(texts) + "\n", encoding="utf-8")


def largest_libraries(passages: Iterable[Passage], count: int = 8) -> list[str]:
    words: collections.Counter[str] = collections.Counter()
    for passage in passages:
        words[passage.library] += len(" ".join(passage.sentences).split())
    if len(words) < 2:
        raise InputError("classification needs the documentation of at least two libraries.")
    return [library for library, _ in words.most_common(count)]


def write_labeled(
    passages: Sequence[Passage], libraries: Sequence[str], path: str | Path, most_per_library: int
) -> None:
    """Writes a TSV file of short texts (`text`) about libraries (`label`), without their names."""
    names = _names_pattern(passages, libraries)
    texts: dict[str, list[str]] = {library: [] for library in libraries}
    for passage in passages:
        if passage.library in texts:
            texts[passage.library] += _short_texts(passage.sentences, names)
    lines = ["text\tlabel"]
    for library, of_library in texts.items():
        count = min(len(of_library), most_per_library)
        chosen = [of_library[place * len(of_library) // count] for place in range(count)]
        lines += [f"{text}\t{library}" for text in chosen]
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _short_texts(sentences, names):
    words: list[str] = []
    for sentence in sentences:
        sentence = re.sub(r"\(\s*\)", "", names.sub("", sentence))
        sentence = re.sub(r"\s+([.,;:!?)])", r"\1", sentence).strip()
        new = (sentence[:1].upper() + sentence[1:]).split()
        if words and len(words) + len(new) > _MOST_LABELED_WORDS:
            yield " ".join(words)
            words = []
        words += new
    if len(words) >= _FEWEST_LABELED_WORDS:
        yield " ".join(words)


def _names_pattern(passages, libraries):
    names = set(libraries).union(*(_OTHER_NAMES.get(library, ()) for library in libraries))
    for passage in passages:
        if passage.library in libraries and passage.library != "python":
            names.add(passage.module.split(".")[0].strip("_"))
    # The longest names come first: "tensorflow datasets" before "tensorflow". Words of a name are
    # joined by a hyphen, an underscore, a space or nothing. "np." includes the dot.
    ordered = sorted(names, key=lambda name: (-len(name), name))
    spelled = "|".join("[-_ ]?".join(map(re.escape, re.split("[-_ ]", name))) for name in ordered)
    return re.compile(rf"(?<![A-Za-z])(?:{spelled})(?:['’]s\b)?(?:\.(?=\w)|(?![A-Za-z]))", re.I)
