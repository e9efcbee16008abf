"""Reading files that somebody else wrote: text, JSON, and what lies in a model directory."""

import json
from pathlib import Path, PurePosixPath

from keras_bert_impl.errors import InputError

_MAX_BYTES = 64 << 20  # the largest published texts and JSON files have some MiB


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
    if not parts.parts or parts.is_absolute() or ".." in parts.parts or set(name) & set("\\\0"):
        raise InputError(f"{directory}: {name!r} is not the name of a file in this directory.")
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
    return path


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


def read_json(path):
    """The object in a small JSON file.

    Args:
        path: `Path`.

    Returns:
        dict.

    Raises:
        InputError: it is damaged, has a key twice or is something else than an object.
    """
    value = parse_json(read_text(path), path)
    if not isinstance(value, dict):
        raise InputError(f"{path} must hold one JSON object, not {type(value).__name__}.")
    return value


def parse_json(text, source):
    """The value of a JSON text.

    Args:
        text: str or bytes.
        source: what to call it in an error.

    Raises:
        InputError: it is damaged or has a key twice.
    """

    def unique(pairs):
        value = dict(pairs)
        if len(value) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise InputError(f"{source} has the key {twice!r:.80} twice.")
        return value

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{source}, line {error.lineno}, is not valid JSON: {error.msg}."
        ) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{source} is not valid JSON: {error}.") from error
