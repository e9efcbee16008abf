"""Reads documents from files, folders and TFDS, one at a time with constant memory."""

import dataclasses
import functools
import hashlib
import html
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qsl

from keras_bert_impl.pretraining.settings import TEXT_FORMATS
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io import files
from keras_bert_impl.utils.io.lines import decompressed, suffix_of
from keras_bert_impl.utils.io.paths import expanded
from keras_bert_impl.utils.io.reading import parse_json_line
from keras_bert_impl.utils.tfds import open_dataset

_LONGEST_LINE = 64 << 20  # bytes; a file with a longer line is not text
_READ_AT_ONCE = 1 << 20  # bytes
_MOST_AHEAD = 8 << 20  # characters of a file that are read before it counts as readable
_BINARY = 0.1  # fraction of NUL bytes above which a file is not text
_TFDS = re.compile(r"tfds://(?P<name>[^:?]+(?::\d+\.\d+\.\d+)?):(?P<split>[^?]+)(\?(?P<query>.*))?")
_MANY_LINED_JSON = re.compile(r'\[\s*\{\s*("|$)|\{\n"')
_HTML = re.compile(r"<!doctype html|<html", re.IGNORECASE)
_WIKI_HEADER = re.compile(r"<doc\b.*?(?:\btitle=\"(?P<title>[^\"]*)\")?(?<!\s)\s*>")

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclasses.dataclass(frozen=True)
class Document:
    """One document of a corpus.

    Attributes:
        source: `file:line` where the document starts, for messages.
        paragraphs: non-blank paragraphs.
        is_split: whether each paragraph is already one sentence.
    """

    source: str
    paragraphs: list[str]
    is_split: bool

    @property
    def characters(self) -> int:
        return sum(map(len, self.paragraphs))

    @functools.cached_property
    def text_hash(self) -> int:
        """Hash in [0, 2⁶⁴) of the document's text."""
        text = b"\n".join(map(str.encode, self.paragraphs))
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def read_documents(
    paths: Paths,
    format: str = "auto",
    text_field: str = "text",
    unreadable: list[InputError] | None = None,
) -> Iterator[Document]:
    """Iterates over the documents of files, folders and TFDS datasets, in order.

    | format | a document is |
    |---|---|
    | `sentences` | BERT's format: one sentence per line, a blank line between documents |
    | `wikiextractor` | from `<doc …>` to `</doc>`: the title, then one paragraph per line |
    | `jsonl` | a line with a JSON object; `text_field` contains the text, one paragraph per line |
    | `files` | a file, with blank lines between paragraphs |
    | `tfds://name[/config][:version]:split[?field=text&data_dir=…]` | an example of the split |

    If the format is `auto`, it is detected from the start of each file. A file that starts with
    `<doc` has the format `wikiextractor`, and a file that starts with `{"` has the format `jsonl`.
    HTML pages have the format `files`. All other files have the format `sentences` if they are
    given in `paths`, and the format `files` if they are in a folder. Tables (`.csv`, `.tsv`) raise
    an error. Files compressed with gzip, xz or bzip2 are decompressed. Folders are read in sorted
    order, without hidden files.

    Args:
        paths: One or several files, folders and `tfds://` names. Folders may be in a bucket, such
            as `gs://bucket/corpus`.
        format: One of `TEXT_FORMATS`, for all files; ignored for `tfds://` names.
        text_field: Field of JSON lines, and of TFDS examples unless the `tfds://` name contains a
            field.
        unreadable: List to which the errors of unreadable files are added; none of the documents of
            these files are returned. An error after the first 8 million characters of a file is
            raised. Default: the first error is raised.

    Returns:
        Iterator over the documents that contain text.

    Raises:
        InputError: A path does not exist (raised immediately). While iterating: a file is binary,
            truncated, not UTF-8, a table or a multi-line JSON file; a line of JSON is invalid or
            lacks the field; or the corpus contains no text. The message names the file and, if
            possible, the line.

    Example:
        from keras_bert_impl.pretraining import read_documents
        for document in read_documents(["wiki.txt.xz", "tfds://my_text:train[:1%]?field=body&data_dir=tfds"]):
            print(document.source, len(document.paragraphs))
    """
    return _read(paths_of(paths), sources(paths, format, unreadable), text_field, unreadable)


def paths_of(paths: Paths) -> list[str]:
    """Returns one path or several paths as a list of str."""
    paths = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    return [os.fspath(expanded(path)) for path in paths]


def sources(
    paths: Paths, format: str = "auto", unreadable: list[InputError] | None = None
) -> Iterator[tuple[str, str]]:
    """Returns the (name, format) of each source of a corpus; see `read_documents` for errors."""
    if format not in TEXT_FORMATS:
        raise InputError(f"unknown format {format!r}; choose one of {', '.join(TEXT_FORMATS)}.")
    names = paths_of(paths)
    if not names:
        raise InputError("the corpus is missing. Name at least one file, folder or tfds:// name.")
    for name in names:
        if not name.startswith("tfds://") and not _choose_file_module(name).exists(name):
            is_one = isinstance(paths, (str, os.PathLike))
            hint = "" if is_one else " To pass texts instead of paths, pass iter(texts)."
            raise InputError(f"{name} does not exist.{hint}")
    return (source for name in names for source in _list_files(name, format, unreadable))


def read_source(name: str, format: str, text_field: str = "text") -> Iterator[Document]:
    """Iterates over the documents of a file or TFDS dataset. Documents without text are omitted."""
    for document in _READERS[format](name, text_field):
        paragraphs = [text for text in map(str.strip, document.paragraphs) if text]
        if paragraphs:
            yield dataclasses.replace(document, paragraphs=paragraphs)


def no_text(paths: Paths) -> InputError:
    """Returns the `InputError` for a corpus without text."""
    return InputError(f"{', '.join(paths_of(paths))}: no text found. Name files that contain text.")


def _read(paths, sources, text_field, unreadable):
    empty = True
    for name, format in sources:
        documents = read_source(name, format, text_field)
        for document in (
            documents if unreadable is None else _skip_unreadable(documents, unreadable)
        ):
            empty = False
            yield document
    if empty:
        raise unreadable[0] if unreadable else no_text(paths)


def _skip_unreadable(documents, unreadable):
    """Yields the documents of a file; none if the file has an error near its beginning."""
    first, characters = [], 0
    try:
        for document in documents:
            first.append(document)
            characters += document.characters
            if characters > _MOST_AHEAD:
                break
    except InputError as error:
        unreadable.append(error)
    else:
        yield from first
        yield from documents


def _list_files(name, format, unreadable):
    """Yields (path, format) of each file in `name`, in sorted order."""
    if name.startswith("tfds://"):
        yield name, "tfds"
        return
    inside = _choose_file_module(name).files_in(name)
    if inside is None:
        paths, otherwise = [name], "sentences"
    else:
        visible_paths = [
            path for path in sorted(inside) if not any(p.startswith(".") for p in path.parts)
        ]
        paths, otherwise = [os.path.join(name, path) for path in visible_paths], "files"
    if format == "auto" and unreadable is None:
        for path in paths:
            _refuse_table(path)
    for path in paths:
        try:
            file_format = _detect(path, otherwise) if format == "auto" else format
        except InputError as error:
            if unreadable is None:
                raise
            unreadable.append(error)
        else:
            yield path, file_format


def _refuse_table(path):
    if suffix_of(path) in (".csv", ".tsv"):
        raise InputError(
            f"{path} is a table; write its text column to a .jsonl or .txt file. If each line is a "
            "text, rename the file to .txt, or pass --format sentences."
        )


def _detect(path, otherwise):
    _refuse_table(path)
    start = ""
    for _, line in _read_lines(path):
        start = f"{start}\n{line.strip()}".strip()
        if start not in ("", "[", "{"):
            break
    if start.startswith("<doc"):
        return "wikiextractor"
    if _MANY_LINED_JSON.match(start):
        structure = "array" if start.startswith("[") else "object on several lines"
        raise InputError(
            f"{path} is a JSON {structure}; write one object per line (.jsonl), or pass the texts "
            "themselves."
        )
    if _HTML.match(start):
        return "files"
    return "jsonl" if re.match(r'\{\s*"', start) else otherwise


def _choose_file_module(name):
    if not files.is_remote(name):
        return files
    from keras_bert_impl.utils.io import remote_files

    return remote_files


def _read_lines(path):
    """Yields (1-based line number, text without line ending)."""
    number = 0
    try:
        with _choose_file_module(path).read_from(path) as raw, decompressed(raw, path) as file:
            for lines in _read_whole_lines(file):
                texts = _decode_lines(lines, path, number + 1)
                yield from enumerate(texts, number + 1)
                number += len(texts)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from None


def _read_whole_lines(file):
    """Yields chunks of about 1 MiB that end at the end of a line."""
    is_first = True
    while lines := file.read(_READ_AT_ONCE):
        lines += file.readline(_LONGEST_LINE)
        if is_first and b"\n" not in lines:
            lines = lines.replace(b"\r", b"\n")  # classic Mac line endings
        is_first = False
        yield lines


def _decode_lines(lines, path, number):
    """Decodes bytes of whole lines to a list of str; `number` is the number of the first line."""
    if lines.count(b"\0") <= _BINARY * len(lines):
        lines = lines.replace(b"\0", b"")  # A tokenizer removes control characters, too.
    if b"\0" not in lines and len(lines) < _LONGEST_LINE:
        try:
            texts = lines.decode("utf-8")
        except UnicodeDecodeError:
            pass  # the lines are decoded one by one below, to find the line number
        else:
            if "\r" not in texts and "\ufeff" not in texts:
                return texts.removesuffix("\n").split("\n")
    return [
        _decode(line, f"{path}:{number}").rstrip("\r\n")
        for number, line in enumerate(lines.removesuffix(b"\n").split(b"\n"), number)
    ]


def _decode(line, source):
    if b"\0" in line or len(line) >= _LONGEST_LINE:
        raise InputError(f"{source}: binary file; provide text in UTF-8.")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source}: byte {error.start + 1} of the line is not UTF-8 "
            f"(0x{line[error.start]:02x}); convert the file to UTF-8."
        ) from None
    return text.removeprefix("\ufeff")


def _split_at_blank_lines(path):
    """Splits a file at blank lines; yields (number of the first line, lines) for each part."""
    for has_text, run in itertools.groupby(_read_lines(path), lambda line: bool(line[1].strip())):
        if has_text:
            numbers, lines = zip(*run)
            yield numbers[0], list(lines)


def _read_sentences(path, _):
    for first, lines in _split_at_blank_lines(path):
        yield Document(f"{path}:{first}", lines, is_split=True)


def _read_wikiextractor(path, _):
    paragraphs, first, title = None, 0, None
    for number, line in _read_lines(path):
        if paragraphs is None and line.startswith("<doc"):
            header = _WIKI_HEADER.match(line)
            paragraphs, first = [], number
            title = html.unescape(header["title"] or "") if header else ""
        elif paragraphs is None:
            if line.strip():
                raise InputError(f"{path}:{number}: text outside <doc …> and </doc>.")
        elif line.strip() == "</doc>":
            yield Document(f"{path}:{first}", paragraphs, is_split=False)
            paragraphs = None
        elif number != first + 1 or html.unescape(line).strip() != title:
            paragraphs.append(line)  # the title is not part of the running text
    if paragraphs is not None:
        raise InputError(f"{path}:{first}: this <doc …> has no </doc>; the file is truncated.")


def _read_json_lines(path, text_field):
    for number, line in _read_lines(path):
        if not line.strip():
            continue
        source = f"{path}:{number}"
        value = parse_json_line(line, source)
        if not isinstance(value, dict) or not isinstance(value.get(text_field), str):
            names = [f"{name:.40}" for name in value][:20] if isinstance(value, dict) else []
            fields = ", ".join(names) or type(value).__name__
            raise InputError(
                f"{source}: the field {text_field!r} contains no text; the fields are: {fields}. "
                "Name the text field with text_field (--text-field)."
            )
        yield Document(source, _replace_surrogates(value[text_field]).split("\n"), is_split=False)


def _replace_surrogates(text):
    """Replaces lone surrogates, which JSON escapes can produce, with U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _read_file(path, _):
    paragraphs = [" ".join(map(str.strip, lines)) for _, lines in _split_at_blank_lines(path)]
    yield Document(f"{path}:1", paragraphs, is_split=False)


def _read_tfds(name, text_field):
    parts = _TFDS.fullmatch(name)
    query = dict(parse_qsl(parts["query"] or "")) if parts else {}
    if parts is None or set(query) - {"field", "data_dir"}:
        raise InputError(f"{name}: write tfds://name[/config]:split[?field=text&data_dir=DIR].")
    field = query.get("field", text_field)
    dataset, _ = open_dataset(parts["name"], parts["split"], query.get("data_dir"))
    if not isinstance(dataset.element_spec, dict) or field not in dataset.element_spec:
        fields = ", ".join(dataset.element_spec) if isinstance(dataset.element_spec, dict) else ""
        raise InputError(f"{name}: no field {field!r}; the fields are: {fields}.")
    texts = dataset.map(lambda example: example[field])
    if texts.element_spec.dtype.name != "string" or texts.element_spec.shape.rank != 0:
        raise InputError(
            f"{name}: the field {field!r} must contain strings, not {texts.element_spec}."
        )
    for number, text in enumerate(texts.as_numpy_iterator(), 1):
        source = f"{name}#{number}"
        yield Document(source, _decode(text, source).split("\n"), is_split=False)


_READERS = {
    "sentences": _read_sentences,
    "wikiextractor": _read_wikiextractor,
    "jsonl": _read_json_lines,
    "files": _read_file,
    "tfds": _read_tfds,
}
