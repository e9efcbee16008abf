"""Downloads models with the hubs' own libraries and caches.

Only configurations, tokenizer files and weights are requested, by name (see `hub.contents`). No
code is downloaded, and no archive is unpacked.
"""

import contextlib
import errno
import functools
import re
import time
from collections.abc import Iterator
from pathlib import Path

from keras_bert_impl.checkpoints.hub.contents import gather
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.paths import version_of

_BUSY = (408, 429, 500, 502, 503, 504)
_COMMIT = re.compile("[0-9a-f]{40}")
_ETAG = re.compile("[0-9a-f]{40}([0-9a-f]{24})?")  # a Git SHA-1 or a SHA-256


def from_hugging_face(repository: str, revision: str) -> Path:
    """Returns the cached directory of the model `owner/name`; downloads files if needed."""
    from huggingface_hub import HfApi, constants, hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError

    source = f"hf://{repository}@{revision}"

    def find_cached(name, at):
        path = try_to_load_from_cache(repository, name, revision=at)
        return Path(path) if isinstance(path, str) else None

    def read_cache(error=None):
        first = find_cached("config.json", revision) or find_cached("modules.json", revision)
        if first is None:
            raise InputError(_explain_missing(source, constants.ENDPOINT, error)) from error
        gather(functools.partial(_find_existing, first.parent), f"{source} in the cache")
        return first.parent

    def fetch(name):
        if name not in names:
            return None
        path = find_cached(name, commit)
        if path is None:
            _check_answer(repository, name, commit)
            path = Path(hf_hub_download(repository, name, revision=commit))
        return path

    if constants.HF_HUB_OFFLINE:
        return read_cache()
    with _convert_errors(source, constants.HF_HUB_CACHE, "HF_HOME"):
        try:
            listing = _send_request(
                HfApi(endpoint=constants.ENDPOINT).model_info, repository, revision
            )
        except Exception as error:
            if isinstance(error, HfHubHTTPError) and error.response.status_code < 500:
                raise
            return read_cache(error)
        commit = listing.sha or ""
        names = {file.rfilename for file in listing.siblings or ()}
        if not _COMMIT.fullmatch(commit):
            raise _make_hub_error(commit)
        if _COMMIT.fullmatch(revision) and commit != revision:
            raise InputError(f"{source}: the hub responded with commit {commit}.")
        files = gather(fetch, source)
        name, path = next(iter(files.items()))
        # This call makes the library store the commit of the branch in the cache.
        if find_cached(name, revision) != path:
            hf_hub_download(repository, name, revision=revision)
        return path.parents[name.count("/")]


def _check_answer(repository, name, commit):
    """Raises `InputError` if the commit or the ETag from the hub is invalid.

    `huggingface_hub` uses both in file names.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    about = _send_request(get_hf_file_metadata, hf_hub_url(repository, name, revision=commit))
    if about.commit_hash != commit or not _ETAG.fullmatch(about.etag or ""):
        raise _make_hub_error(about.etag if about.commit_hash == commit else about.commit_hash)


def _send_request(ask, repository, revision=None):
    """Sends a request, and repeats it after a delay if the hub is busy."""
    from huggingface_hub.errors import HfHubHTTPError

    for wait in (1, 2, 4, None):
        try:
            return ask(repository, revision=revision) if revision else ask(repository)
        except HfHubHTTPError as error:
            if wait is None or error.response.status_code not in _BUSY:
                raise
            time.sleep(wait)


def _make_hub_error(answer):
    from huggingface_hub import constants

    return InputError(
        f"{constants.ENDPOINT} did not send a valid checksum: {answer!r:.80}. Check HF_ENDPOINT "
        "and your proxy."
    )


def from_kaggle(handle: str, version: str | None = None) -> Path:
    """Returns the cached directory of a model; downloads files if needed."""
    import filelock
    import kagglehub.config
    from huggingface_hub import constants
    from kagglehub.exceptions import KaggleApiHTTPError

    source = f"kaggle://{handle}" + (f"/{version}" if version else "")
    root = Path(kagglehub.config.get_cache_folder()).expanduser().absolute()
    models = root / "models" / handle

    def fetch(name, number):
        try:
            path = kagglehub.model_download(f"{handle}/{number}" if number else handle, path=name)
        except KaggleApiHTTPError as error:
            if error.response.status_code != 404:
                raise
            return None
        return Path(path)

    cached = _find_newest_complete(models, version, source)
    if cached and (version or constants.HF_HUB_OFFLINE):
        return cached
    if constants.HF_HUB_OFFLINE:
        raise InputError(_explain_missing(source, "Kaggle"))
    with _convert_errors(source, root, "KAGGLEHUB_CACHE"):
        models.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(models / ".lock"):
            try:
                config = fetch("config.json", version)
            except OSError as error:
                # The network is not available.
                if cached and getattr(error, "response", None) is None:
                    return cached
                raise
            if config is None:
                raise InputError(f"{source}: Kaggle has no such model, or it has no config.json.")
            directory = config.parent
            if directory == models / directory.name:
                gather(functools.partial(fetch, number=directory.name), source)
            else:  # Notebooks on Kaggle and Colab mount models instead of downloading them.
                gather(functools.partial(_find_existing, directory), source)
            return directory


def _find_newest_complete(models, version, source):
    """Returns the directory of `version` (default: the newest complete version), or None."""
    numbers = [path.name for path in models.glob("[1-9]*") if version_of(path.name) is not None]
    for number in sorted(numbers, key=int, reverse=True):

        def fetch(name, number=number):
            # The library marks either a complete version or each complete file.
            markers = f"{number}.complete", f".complete/{number}/{name}.complete"
            is_complete = any((models / marker).exists() for marker in markers)
            return _find_existing(models / number, name) if is_complete else None

        with contextlib.suppress(InputError):
            if version in (None, number):
                gather(fetch, source)
                return models / number
    return None


def _find_existing(directory, name):
    path = directory / name
    return path if path.exists() else None


def _explain_missing(source, hub, error=None):
    if error is None:
        return (
            f"{source} is not in the cache, and HF_HUB_OFFLINE is set. Unset it to download the "
            "model."
        )
    return f"{source} is not in the cache, and {hub} cannot be reached ({error}). Try again later."


@contextlib.contextmanager
def _convert_errors(source: str, cache: str | Path, variable: str) -> Iterator[None]:
    """Converts exceptions of a hub's library to an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES):
            raise InputError(
                f"{source}: cannot write to the cache in {cache}: {error.strerror}. Free some space "
                f"or set {variable} to another disk."
            ) from error
        raise InputError(_explain_error(error, source)) from error


def _explain_error(error, source):
    from huggingface_hub import constants, errors

    repository = source.removeprefix("hf://").partition("@")[0]
    response = getattr(error, "response", None)
    status = None if response is None else response.status_code
    log_in = "log in with `hf auth login` or set HF_TOKEN"
    if isinstance(error, errors.GatedRepoError):
        page = f"{constants.ENDPOINT}/{repository}"
        return f"{source} is gated: accept its terms at {page}, then {log_in}."
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{source}: the repository has no such revision."
    if isinstance(error, errors.RepositoryNotFoundError):
        return (
            f"{source}: there is no repository {repository} at {constants.ENDPOINT}, or it is "
            f"private; if it is, {log_in}."
        )
    if source.startswith("kaggle://") and status in (401, 403):
        page = "/".join(source.removeprefix("kaggle://").split("/")[:2])
        return (
            f"{source}: Kaggle denies access (status {status}). Accept the model's terms at "
            f"https://www.kaggle.com/models/{page}, then log in with `kagglehub.login()` or set "
            "KAGGLE_API_TOKEN."
        )
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{source}: the download failed ({reason:.300}). Try again later."
