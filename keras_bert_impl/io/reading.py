"""Reading files that somebody else wrote: text, JSON, YAML, and what lies in a model directory.

Whatever stands in such a file, reading it ends in a value of the right type or in an `InputError`
that names the file and the key.
"""

import contextlib
import functools
import json
from pathlib import Path, PurePosixPath

import yaml

from keras_bert_impl.io.document import Document
from keras_bert_impl.io.errors import InputError, shown

_POINTER = b"version https://git-lfs.github.com/spec/"
_MAX_BYTES = 64 << 20  # the largest published texts and JSON files have some MiB
_MAX_YAML_BYTES = 256 << 10  # recipes have a few; PyYAML needs seconds for a MiB
_MAX_NESTING = 100
_YAML_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_MAX_DIGITS = 100  # of a number in YAML


def file_within(directory, name):
    """The path of a file of a model directory, which must lie in it.

    A symbolic link may lead to another place in the directory and, in the cache of the Hugging
    Face hub, to the `blobs` beside its snapshots.

    Args:
        directory: str or `Path`.
        name: str, with `/` between folders.

    Returns:
        `Path`; there may be no such file.

    Raises:
        InputError: the name or a link leads out of the directory, or to what is no regular file.
    """
    directory = Path(directory)
    parts = PurePosixPath(name)
    if not parts.parts or not all(map(is_plain_name, parts.parts)):
        raise InputError(
            f"{directory}: {shown(name)} is not the name of a file in this directory."
        )
    path = directory / name
    try:
        target, roots = path.resolve(), [directory.resolve()]
    except (OSError, RuntimeError) as error:  # links in a circle
        raise InputError(f"{path} cannot be followed: {error}.") from error
    if roots[0].parent.name == "snapshots":
        roots.append(roots[0].parents[1] / "blobs")
    if not any(target.is_relative_to(root) for root in roots):
        raise InputError(
            f"{path} is a link that leads out of its directory, to {target}; put the file itself "
            "there."
        )
    if target.exists() and not target.is_file():
        raise InputError(f"{path} is not a regular file.")
    _check_content(target)
    return path


def _check_content(path):
    """Raises an `InputError` for what Git leaves in place of a large file."""
    with contextlib.suppress(OSError):  # whoever reads it will say so
        if path.stat().st_size < 1000 and path.read_bytes().startswith(_POINTER):
            raise InputError(
                f"{path} is a pointer of Git LFS, not the file itself: run `git lfs pull` where it "
                "was cloned, or download the file."
            )


def is_plain_name(name):
    """bool. Whether a str is the name of a file or folder alone, as every system has them."""
    is_short = len(name.encode("utf-8", "surrogatepass")) <= 255
    is_name = name not in ("", ".", "..") and not set(name) & set("/\\")
    return is_name and is_short and name.isprintable()


def read_bytes(path):
    """The content of a file that should be small.

    Args:
        path: `Path`.

    Raises:
        InputError: it cannot be read or is very large.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path} has more than {_MAX_BYTES >> 20} MiB: too many for its kind.")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}.") from error


def read_text(path):
    """The text of a small UTF-8 file.

    Args:
        path: `Path`.

    Raises:
        InputError: it cannot be read, is very large or no text; names the line.
    """
    data = read_bytes(path)
    try:
        text = data.decode("utf-8")
        bad = text.find("\0")
    except UnicodeDecodeError as error:
        bad, text = error.start, data
    if bad >= 0:
        line = text[:bad].count(b"\n" if text is data else "\n") + 1
        raise InputError(f"{path}, line {line}: not UTF-8 text; is it a binary file?")
    return text


# === JSON and YAML ===


def read_json(path):
    """The object in a small JSON file.

    Args:
        path: `Path`.

    Returns:
        `Document`.

    Raises:
        InputError: it is damaged, has a key twice or is something else than an object.
    """
    return _document(parse_json(read_text(path), path), path, "one JSON object")


def parse_json(text, source):
    """The value of a JSON text.

    Args:
        text: str or bytes.
        source: what to call it in an error.

    Raises:
        InputError: it is damaged, nested too deeply, has a key twice or a number of more digits
            than Python reads.
    """
    damaged = "{source}, line {error.lineno}, is not valid JSON: {error.msg}."
    return _parsed(text, False, damaged, "{source} {error}.", source=source)


def parse_json_line(text, source=None, finite=False):
    """The value of a line of a file with JSON on each line.

    Args:
        text: str or bytes.
        source: what to call the line in an error; None for nothing.
        finite: bool. Whether NaN and Infinity, which Python's JSON has, are refused.

    Raises:
        InputError: see `parse_json`.
    """
    prefix = "" if source is None else f"{source}: "
    damaged = "{prefix}not valid JSON: {error.msg} (character {error.pos})."
    return _parsed(text, finite, damaged, "{prefix}the line {error}.", prefix=prefix)


def _parsed(text, finite, damaged, not_read, **place):
    """The value of a JSON text; the other arguments are the messages of errors, and their parts."""
    try:
        return _json_value(text, finite)
    except json.JSONDecodeError as error:
        raise InputError(damaged.format(error=error, **place)) from error
    except _NotRead as error:
        raise InputError(not_read.format(error=error, **place)) from error


def read_yaml(path):
    """The mapping in a small YAML file; empty where the file is.

    Args:
        path: `Path`.

    Returns:
        `Document`.

    Raises:
        InputError: it is damaged, has a key twice or is something else than a mapping.
    """
    value = parse_yaml(read_text(path), path)
    return _document({} if value is None else value, path, "a YAML mapping of keys to values")


def parse_yaml(text, source):
    """The value of a YAML text, of plain types; see `parse_json`."""
    if len(text) > _MAX_YAML_BYTES:
        raise InputError(f"{source} has more than {_MAX_YAML_BYTES >> 10} KiB of YAML.")
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
        raise InputError(f"{source} is nested too deeply to be YAML of settings.") from error
    # What the library makes of numbers, dates and tags that are none.
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise InputError(f"{source}: not valid YAML: {shown(str(error))}.") from error


def _document(value, path, what):
    if not isinstance(value, dict):
        raise InputError(f"{path} must hold {what}, not {type(value).__name__}.")
    return Document(value, path)


class _NotRead(ValueError):
    """Why a text has no value; what it is called comes before."""


def _unique(pairs):
    """dict of pairs of key and value."""
    value = dict(pairs)
    if len(value) < len(pairs):
        seen = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise _NotRead(f"has the key {shown(twice)} twice")
    return value


def _no_number(name):
    raise _NotRead(f"has {name}, which is not valid JSON and no number to learn")


@functools.cache
def _decoder(finite):
    refused = {"parse_constant": _no_number} if finite else {}
    return json.JSONDecoder(object_pairs_hook=_unique, **refused)


def _json_value(text, finite=False):
    """The value of a JSON text; raises `JSONDecodeError` or `_NotRead`."""
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text))
        text = text.removeprefix("\ufeff")
        value = _decoder(finite).decode(text)
    except (json.JSONDecodeError, _NotRead):
        raise
    except UnicodeDecodeError as error:
        raise _NotRead(f"is not valid JSON: {error}") from error
    except RecursionError as error:
        raise _NotRead("is not valid JSON of data: it is nested too deeply") from error
    except ValueError as error:  # more than 4,300 digits
        raise _NotRead("is not valid JSON of data: it has a number of too many digits") from error
    if text.count("[") + text.count("{") > _MAX_NESTING:
        _check_nesting(value, len(text))
    return value


def _check_nesting(value, size):
    """Goes through the levels of a value, which has fewer parts than its text of `size` has
    characters, unless names in YAML stand for the same part again and again."""
    level, depth, found = [value], 0, 0
    while level:
        depth, inner = depth + 1, []
        if depth > _MAX_NESTING:
            raise _NotRead("is nested too deeply")
        for outer in level:
            if isinstance(outer, (dict, list)):
                found += len(outer)
                if found > size:
                    raise _NotRead("repeats parts of itself too often")
                inner.extend(outer.values() if isinstance(outer, dict) else outer)
        level = inner


class _Loader(yaml.SafeLoader):
    """Plain types alone, no key twice, and nothing that takes long."""

    def flatten_mapping(self, node):
        seen = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(problem="merging by << is not supported")
            if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                raise _NotRead(f"has the key {shown(key.value)} twice")
            seen.add((key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None)

    def construct_object(self, node, deep=False):
        if node.tag in _YAML_NUMBERS and len(node.value) > _MAX_DIGITS:
            raise _NotRead("has a number of too many digits")
        return super().construct_object(node, deep)
