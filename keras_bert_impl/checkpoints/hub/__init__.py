"""Finds the directory of a model by path, hub name or published name."""

import difflib
import functools
import os
import re
from collections.abc import Callable
from pathlib import Path

from keras_bert_impl.checkpoints.hub import downloads, presets
from keras_bert_impl.checkpoints.published import MODELS, instead_of, unsupported_in_name
from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.paths import expanded
from keras_bert_impl.utils.io.reading import path_within

# Characters allowed in names on both hubs. Names become folder names, so `..` is rejected.
_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
_REPOSITORY = re.compile(f"{_PART}/{_PART}")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
_HANDLE = re.compile(f"({_PART}(?:/{_PART}){{3}})(?:/([1-9][0-9]{{0,8}}))?")


def local_directory(name_or_path: str | os.PathLike, revision: str | None = None) -> Path:
    """Returns the directory with a model's files, downloading them if needed.

    The libraries `huggingface_hub` and `kagglehub` use their usual caches and environment
    variables, and resume interrupted downloads. With `HF_HUB_OFFLINE=1`, models are read only from
    the Hugging Face cache.

    Args:
        name_or_path: A model directory; a run directory; `hf://owner/name[@revision]` on the
            Hugging Face hub, or `owner/name` if no directory has this name;
            `kaggle://owner/model/framework/variation[/version]`; or the name of a published model
            (`bert-base-uncased`) or KerasHub preset (`bert_tiny_en_uncased`).
        revision: Branch, tag or commit on the Hugging Face hub. The default is the revision in the
            name, or `main` if the name contains no revision.

    Returns:
        `Path` of a directory with `config.json` and weights. Do not write to a downloaded
        directory, because it belongs to the cache.

    Raises:
        InputError: the directory or name does not exist, or the model can be neither downloaded nor
            found in the cache.

    Example:
        >>> from keras_bert_impl.checkpoints.hub import local_directory
        >>> local_directory("hf://google-bert/bert-base-uncased@main") / "config.json"
    """
    return _place(name_or_path, revision)()


def check_name(name_or_path: str | os.PathLike) -> None:
    """Checks a name or directory without downloading or reading any files.

    Args:
        name_or_path: See `local_directory`.

    Raises:
        InputError: the directory or the published name does not exist, or the name of a model on a
            hub is malformed.

    Example:
        from keras_bert_impl.checkpoints.hub import check_name
        check_name("bert-base-uncased")
    """
    _place(name_or_path, None)


def _place(name_or_path, revision) -> Callable[[], Path]:
    """Returns a function that downloads the model if needed and returns its directory."""
    if not isinstance(name_or_path, (str, os.PathLike)) or not os.fspath(name_or_path):
        raise InputError(f"A model's name or directory must be a str. Received: {name_or_path!r}")
    name = os.fspath(name_or_path)
    if not isinstance(name_or_path, os.PathLike):
        if name.startswith("hf://"):
            return _prepare_hugging_face(name.removeprefix("hf://"), revision)
        if name.startswith("kaggle://"):
            return _prepare_kaggle(name.removeprefix("kaggle://"), revision)
    path = expanded(name)
    if os.path.isdir(path):
        if revision is not None:
            raise InputError(
                f"{name} is a directory. Omit revision, which is only for models on a hub."
            )
        return functools.partial(_find_model, Path(path))
    if isinstance(name_or_path, os.PathLike) or _is_local(name, path):
        problem = (
            "is a file; pass the directory that contains it"
            if os.path.exists(path)
            else "does not exist"
        )
        if os.path.isfile(path) and path.endswith(".keras"):
            problem = f"is a Keras file; write keras.models.load_model({name!r})"
        raise InputError(f"{shown(name)} {problem}.")
    if name in MODELS:
        return _prepare_hugging_face(MODELS[name].hub, revision)
    if name in presets.PRESETS:
        return _prepare_kaggle(presets.PRESETS[name], revision)
    if _REPOSITORY.fullmatch(name.partition("@")[0]):
        return functools.partial(_download_repository, name, _prepare_hugging_face(name, revision))
    raise InputError(f"No model is named {shown(name)}.{_make_hint(name)}")


def _find_model(directory):
    """Returns `model/` of a run directory. Returns other directories unchanged."""
    model = path_within(directory, "model")
    is_run = (model / "config.json").is_file() and not (directory / "config.json").exists()
    return model if is_run else directory


def _download_repository(name, download):
    """Downloads `owner/name`. The error message adds that no directory has this name."""
    try:
        return download()
    except InputError as error:
        raise InputError(f"There is no directory {name!r}, and {error}") from error


def _is_local(name, path):
    separators = {os.sep, os.altsep or os.sep}
    return name[0] in {".", "~"} | separators or (
        os.path.exists(path) and not separators.isdisjoint(name)
    )


def _make_hint(name):
    family = unsupported_in_name(name)
    if family:
        return f" Models of type {family!r} are not supported. {instead_of(family)}"
    near = difflib.get_close_matches(name, [*MODELS, *presets.PRESETS], n=3)
    if near:
        return f" Did you mean {' or '.join(map(repr, near))}?"
    return (
        " Pass a directory, owner/name on the Hugging Face hub, "
        "kaggle://owner/model/framework/variation, or a name that `keras-bert models` lists."
    )


def _prepare_hugging_face(name, revision):
    repository, at, pinned = name.partition("@")
    if not _REPOSITORY.fullmatch(repository) or ".." in repository or "--" in repository:
        raise InputError(f"'hf://{name}' must have the form hf://owner/name[@revision].")
    if at and revision not in (None, pinned):
        raise InputError(f"'hf://{name}' and revision={revision!r} name different revisions.")
    revision = pinned if at else "main" if revision is None else revision
    valid = isinstance(revision, str) and len(revision) <= 200 and _REVISION.fullmatch(revision)
    if not valid or ".." in revision:
        raise InputError(f"revision must be a branch, tag or commit. Received: {revision!r}")
    return functools.partial(downloads.from_hugging_face, repository, revision)


def _prepare_kaggle(name, revision):
    handle = _HANDLE.fullmatch(name)
    if not handle or ".." in name:
        raise InputError(
            f"'kaggle://{name}' must have the form "
            "kaggle://owner/model/framework/variation[/version]."
        )
    if revision is not None:
        raise InputError(
            "On Kaggle, the version is a number at the end of the name: "
            f"'kaggle://{handle[1]}/2'. Received: revision={revision!r}"
        )
    return functools.partial(downloads.from_kaggle, *handle.groups())
