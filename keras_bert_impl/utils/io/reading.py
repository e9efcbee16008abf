"""Reads text, JSON, YAML and the files of a model directory.

Invalid files raise an `InputError` that names the file and the key.
"""

import contextlib
import functools
import json
import os
import re
import types
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import yaml

from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.settings import OneOf, Range, check, misfit, rule

_REQUIRED = object()  # marks a setting without a default


class Document(dict):
    """A JSON or YAML object with type-checked access to its values."""

    def __init__(self, values: dict, source: str | Path, inside: str = "") -> None:
        super().__init__(values)
        self.source = source
        self.inside = inside

    def setting(self, key: str, annotation: Any, default: Any = _REQUIRED) -> Any:
        """Returns a value validated by an annotation, or `default` if it is missing."""
        if self.get(key) is not None:
            return check(self._name(key), self[key], annotation)
        if default is _REQUIRED:
            raise self.error(key, rule(annotation))
        return default

    def integer(
        self, key: str, default: Any = _REQUIRED, least: int | None = None, most: int | None = None
    ) -> Any:
        return self.setting(key, Annotated[int, Range(least=least, most=most)], default)

    def number(
        self,
        key: str,
        default: Any = _REQUIRED,
        least: float | None = None,
        above: float | None = None,
        below: float | None = None,
        most: float | None = None,
    ) -> Any:
        limits = Range(least=least, most=most, above=above, below=below)
        return self.setting(key, Annotated[float, limits], default)

    def flag(self, key: str, default: Any = _REQUIRED) -> Any:
        return self.setting(key, bool, default)

    def text(self, key: str, default: Any = _REQUIRED, choices: Iterable[str] | None = None) -> Any:
        """Returns a str, one of `choices` if given."""
        return self.setting(
            key, str if choices is None else Annotated[str, OneOf(*choices)], default
        )

    def mapping(self, key: str, default: Any = _REQUIRED) -> Any:
        """Returns a nested object, empty if it is missing."""
        value = self.setting(key, dict, {} if default is _REQUIRED else default)
        if not isinstance(value, dict):
            return value
        return Document(value, self.source, f"{self.inside}{key}.")

    def mappings(self) -> list[tuple[str, "Document"]]:
        """Returns (key, `Document`) pairs; raises `InputError` if a value is not an object."""
        return [(key, self.mapping(key)) for key in self]

    def list_of(self, key: str, kind: type, default: Any = _REQUIRED) -> Any:
        annotation = types.GenericAlias(tuple, (kind, ...))
        if isinstance(self.get(key), str):
            raise self.error(key, rule(annotation))
        values = self.setting(key, annotation, default)
        if values is default:
            return default
        if kind is not dict:
            return list(values)
        return [
            Document(value, self.source, f"{self.inside}{key}[{number}].")
            for number, value in enumerate(values)
        ]

    def error(self, key: str, what: str) -> InputError:
        """Returns the error for a value that must be `what`, such as "a string"."""
        if self.get(key) is None:
            return InputError(f"{self._name(key)} is missing; it must be {what}.")
        return misfit(self._name(key), self[key], what)

    def _name(self, key):
        return f"{self.source}: {self.inside}{key}"


_POINTER = b"version https://git-lfs.github.com/spec/"
_PAGES = (b"<!doctype html", b"<html")
_MAX_BYTES = 64 << 20  # The largest published vocabularies have a few MiB.
# Bytes, and values with their objects and lists. A value takes up to 100 times its bytes in memory.
_LIMITS_OF_CONFIG = 4 << 20, 500_000
_LIMITS_OF_VOCABULARY = _MAX_BYTES, 4_000_000
_MAX_YAML_BYTES = 256 << 10  # Recipes have a few KiB. PyYAML needs seconds per MiB.
_MAX_NESTING = 100
_YAML_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_MAX_DIGITS = 100  # maximum digits of a number in YAML


def path_within(directory: str | os.PathLike, name: str) -> Path:
    """Returns the path of a file or folder, which must be inside the directory.

    In the cache of Hugging Face, links to the blobs of the same repository are allowed.
    """
    directory = local_path(directory)
    parts = PurePosixPath(name)
    if not parts.parts or not all(map(is_plain_name, parts.parts)):
        raise InputError(f"{directory}: {shown(name)} is not the name of a file in this directory.")
    path = directory / name
    try:
        target, roots = path.resolve(), [directory.resolve()]
        kind = "folder" if target.is_dir() else "file"
    except (OSError, RuntimeError) as error:  # The links form a cycle.
        raise InputError(f"{path} is a link that cannot be resolved: {error}.") from error
    roots += [folder.parent / "blobs" for folder in roots[0].parents if folder.name == "snapshots"]
    if not any(target.is_relative_to(root) for root in roots):
        raise InputError(
            f"{path} links to a {kind} outside its directory, {target}. Replace the link with the "
            f"{kind}."
        )
    return path


def file_within(directory: str | os.PathLike, name: str) -> Path:
    """Like `path_within`, for a file. Raises `InputError` for a folder, page or Git LFS pointer."""
    path = path_within(directory, name)
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a regular file.")
    _check_content(path)
    return path


def check_links(directory: Path, root: Path) -> None:
    """Raises `InputError` if a directory, or an entry of it, is a link that leads out of `root`."""
    for path in (directory, *directory.rglob("*")):
        if path.is_symlink() and path != root:
            path_within(root, path.relative_to(root).as_posix())


def _check_content(path):
    """Raises `InputError` if the file is a Git LFS pointer or a web page."""
    with contextlib.suppress(OSError):  # The read that follows raises the error.
        with path.open("rb") as file:
            beginning = file.read(1000)
        if beginning.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith(_PAGES):
            raise InputError(
                f"{path} is an HTML page. Download the file again, with `hf download` or from an "
                "address with /resolve/ instead of /blob/."
            )
        if len(beginning) < 1000 and beginning.startswith(_POINTER):
            raise InputError(
                f"{path} is a Git LFS pointer. Run `git lfs pull` in the clone, or download the "
                "file."
            )


def is_plain_name(name: str) -> bool:
    """Returns whether a name is valid for a file or folder on every system."""
    is_short = len(name.encode("utf-8", "surrogatepass")) <= 255
    is_name = name not in ("", ".", "..") and not set(name) & set("/\\")
    return is_name and is_short and name.isprintable()


def read_bytes(path: Path, most: int = _MAX_BYTES) -> bytes:
    try:
        if path.stat().st_size > most:
            raise InputError(f"{path} is larger than {most >> 20} MiB, the limit for this file.")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}.") from error


def read_text(path: Path, most: int = _MAX_BYTES) -> str:
    data = read_bytes(path, most)
    bad = data.find(b"\0")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = error.start
    if bad >= 0:
        line = data.count(b"\n", 0, bad) + 1
        raise InputError(f"{path}, line {line}: not UTF-8 text; is it a binary file?")
    return text


# === JSON and YAML ===


def read_json(path: Path, is_vocabulary: bool = False) -> Document:
    """Reads a JSON file with an object: a configuration, or a vocabulary, which may be larger."""
    is_vocabulary = is_vocabulary or bool(re.search("token|vocab", path.name))
    most, _ = _LIMITS_OF_VOCABULARY if is_vocabulary else _LIMITS_OF_CONFIG
    value = parse_config(read_text(path, most), path, is_vocabulary)
    return _make_document(value, path, "one JSON object")


def parse_config(text: str, source: str | Path, is_vocabulary: bool = False) -> Any:
    """Like `parse_json`, for a text of limited size and a limited number of values."""
    size, values = _LIMITS_OF_VOCABULARY if is_vocabulary else _LIMITS_OF_CONFIG
    if len(text) > size or sum(map(text.count, "[{,")) > values:
        raise InputError(
            f"{source} has more than {size >> 20} MiB or {values:,} values of JSON, the limit."
        )
    return parse_json(text, source)


def parse_json(text: str | bytes, source: str | Path) -> Any:
    try:
        return _decode_json(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{source}, line {error.lineno}, is not valid JSON: {error.msg}."
        ) from error
    except _NotRead as error:
        raise InputError(f"{source} {error}.") from error


def parse_json_line(text: str | bytes, source: str | None = None, finite: bool = False) -> Any:
    prefix = "" if source is None else f"{source}: "
    try:
        return _decode_json(text, finite)
    except json.JSONDecodeError as error:
        raise InputError(f"{prefix}not valid JSON: {error.msg} (character {error.pos}).") from error
    except _NotRead as error:
        raise InputError(f"{prefix}the line {error}.") from error


def read_yaml(path: Path) -> Document:
    """Reads a small YAML file with a mapping, which may be empty."""
    value = parse_yaml(read_text(path), path)
    return _make_document({} if value is None else value, path, "a YAML mapping of keys to values")


def parse_yaml(text: str, source: str | Path) -> Any:
    """Parses a YAML text into plain types."""
    if len(text) > _MAX_YAML_BYTES:
        raise InputError(
            f"{source} is larger than {_MAX_YAML_BYTES >> 10} KiB, the limit for YAML."
        )
    try:
        value = yaml.load(text, _Loader)
        _check_nesting(value, len(text))
        return value
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise InputError(f"{source}{line}: not valid YAML: {problem:.200}.") from error
    except _NotRead as error:
        raise InputError(f"{source} {error}.") from error
    except RecursionError as error:
        raise InputError(f"{source} is nested too deeply.") from error
    # PyYAML raises these for invalid numbers, dates and tags.
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise InputError(f"{source}: not valid YAML: {shown(str(error))}.") from error


def _make_document(value, path, expected):
    if not isinstance(value, dict):
        raise InputError(f"{path} must contain {expected}, not {type(value).__name__}.")
    return Document(value, path)


class _NotRead(ValueError):
    """A text cannot be parsed. The message follows the file name: "has the key 'a' twice"."""


def _build_dict(pairs):
    """Builds a dict from key-value pairs; rejects duplicate keys."""
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = set()
        twice = next(key for key, _ in pairs if key in keys or keys.add(key))
        raise _NotRead(f"has the key {shown(twice)} twice")
    return value


def _reject_number(name):
    raise _NotRead(f"has {name}, which is not valid JSON")


@functools.cache
def _make_decoder(finite):
    refused = {"parse_constant": _reject_number} if finite else {}
    return json.JSONDecoder(object_pairs_hook=_build_dict, **refused)


def _decode_json(text, finite=False):
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text))
        text = text.removeprefix("\ufeff")
        value = _make_decoder(finite).decode(text)
    except (json.JSONDecodeError, _NotRead):
        raise
    except UnicodeDecodeError as error:
        raise _NotRead(f"is not valid JSON: {error}") from error
    except RecursionError as error:
        raise _NotRead("is nested too deeply") from error
    except ValueError as error:  # Python does not parse integers with more than 4,300 digits.
        raise _NotRead("has a number with too many digits") from error
    if text.count("[") + text.count("{") > _MAX_NESTING:
        _check_nesting(value, len(text))
    return value


def _check_nesting(value, size):
    """Rejects values that are nested too deeply or have more than `size` items."""
    level, depth, count = [value], 0, 0
    while level:
        depth, inner = depth + 1, []
        if depth > _MAX_NESTING:
            raise _NotRead("is nested too deeply")
        for outer in level:
            if isinstance(outer, (dict, list)):
                count += len(outer)
                if count > size:
                    raise _NotRead("contains too many aliases")
                inner.extend(outer.values() if isinstance(outer, dict) else outer)
        level = inner


class _Loader(yaml.SafeLoader):
    """YAML loader for plain types; rejects duplicate keys, `<<` and very long numbers."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        keys = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    problem="YAML merge keys (<<) are not supported"
                )
            if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in keys:
                raise _NotRead(f"has the key {shown(key.value)} twice")
            keys.add((key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag in _YAML_NUMBERS and len(node.value) > _MAX_DIGITS:
            raise _NotRead("has a number with too many digits")
        return super().construct_object(node, deep)


# 1e-4 is a string in YAML 1.1, because it has no decimal point, but a number in YAML 1.2.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+"), list("-+0123456789")
)
