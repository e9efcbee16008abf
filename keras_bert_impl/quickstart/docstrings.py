"""Documents from Python source files, which are parsed and never imported or executed."""

import ast
import importlib.metadata
import os
import re
import sysconfig
import warnings
from pathlib import Path

from keras_bert_impl.quickstart.prose import prose_sentences

# Tests and vendored packages do not document the library itself.
_SKIPPED_FOLDERS = set(
    "tests test testing _vendor _vendored vendored vendor externals site-packages dist-packages "
    "idlelib lib2to3 turtledemo _tf_keras __pycache__".split()
)
File = tuple[str, str, Path]  # library, dotted name of the module, path
_LARGEST_FILE = 2_000_000  # bytes; larger files are generated tables
_OWN_DOCUMENT = 3  # sentences; a shorter docstring joins the document of its class or module
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
    """Extracts documents from the docstrings of a file, or from Python's table of help topics."""
    try:
        if os.path.getsize(path) > _LARGEST_FILE:
            return []
        source = Path(path).read_bytes()
        if b'"""' not in source and b"'''" not in source and module != "pydoc_data.topics":
            return []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's strings
            tree = ast.parse(source)
    # Newer Python syntax, another encoding, null bytes, or nesting too deep for the parser.
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
    """Appends the documents of `scope`; returns its sentences if too few for a document."""
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
