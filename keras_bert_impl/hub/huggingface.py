"""Downloads from the Hugging Face hub, into the cache that its own library uses.

The library finds, caches and names the files. What it lacks is here: it compares sizes and no
checksums, and its newer versions begin a file anew after an interruption.
"""

import contextlib
import functools
import hashlib
import os
import re
import shutil
import time
from pathlib import Path

from keras_bert_impl.errors import InputError
from keras_bert_impl.hub.contents import gather, is_complete, write_record

_WAITS = (1, 2, 4)  # seconds before another attempt
_BUSY = (429, 500, 502, 503, 504)


class _TemporaryError(InputError):
    """The same call may succeed in a moment."""


def download(repository, revision):
    """The directory in the cache with the model of a repository, downloaded where it must be.

    Args:
        repository: str, `owner/name`.
        revision: str. Branch, tag or commit.

    Returns:
        `Path`.

    Raises:
        InputError: it can neither be downloaded nor found in the cache; says why.
    """
    for wait in _WAITS:
        try:
            return _download(repository, revision)
        except _TemporaryError:
            time.sleep(wait)
    return _download(repository, revision)


def _download(repository, revision):
    from huggingface_hub import constants, hf_hub_download

    source = f"hf://{repository}@{revision}"
    with _clear_errors(source, repository):
        # Asks which commit the revision is, or looks that up in the cache without a network.
        snapshot = Path(hf_hub_download(repository, "config.json", revision=revision)).parent
        if re.fullmatch("[0-9a-f]{40}", revision) and snapshot.name != revision:
            raise InputError(f"{source}: the hub answered with commit {snapshot.name}.")
        record = snapshot.parents[1] / "verified" / snapshot.name
        if is_complete(record, snapshot):
            return snapshot
        if constants.HF_HUB_OFFLINE:
            return _from_cache(snapshot, source)
        try:
            stated = _stated_files(repository, snapshot.name)
        except _connection_errors() as error:
            if not _status(error):
                with contextlib.suppress(InputError):
                    return _from_cache(snapshot, source)
            raise
        files = gather(functools.partial(_fetch, repository, snapshot, stated), source)
        with contextlib.suppress(InputError):  # a cache that is only read is checked each time
            write_record(record, files)
        return snapshot


def _from_cache(snapshot, source):
    """The snapshot, if another program has put the whole of a model there."""

    def fetch(name):
        path = snapshot / name
        return path if path.exists() else None

    gather(fetch, f"{source} in the cache")
    return snapshot


def _stated_files(repository, commit):
    """Checksum and size of every file, by name, as the hub states them."""
    from huggingface_hub import HfApi, constants

    try:
        info = HfApi().model_info(
            repository,
            revision=commit,
            files_metadata=True,
            timeout=constants.HF_HUB_ETAG_TIMEOUT,
        )
        return {file.rfilename: _checksum(file) for file in info.siblings}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{constants.ENDPOINT} did not list the files of {repository} as the Hugging Face hub "
            "does. Check HF_ENDPOINT and your proxy."
        ) from error


def _checksum(file):
    """SHA-256 of a large file, git's SHA-1 of a small one, and the size; names in the cache too."""
    checksum, size = (file.lfs.sha256, file.lfs.size) if file.lfs else (file.blob_id, file.size)
    if not re.fullmatch("[0-9a-f]{64}" if file.lfs else "[0-9a-f]{40}", checksum) or size < 0:
        raise ValueError(f"{checksum!r} is no checksum")
    return checksum, size


def _fetch(repository, snapshot, stated, name):
    """The path of a file that has its checksum, or None where the repository has no such file."""
    from huggingface_hub import hf_hub_download

    if name not in stated:
        return None
    checksum, size = stated[name]
    path = snapshot / name
    if path.exists():
        if _checksum_of(path, checksum) == checksum:
            return path
        _remove(path)
    if len(checksum) == 64:
        _download_large(repository, snapshot, name, checksum, size)
    # Finds a large file downloaded, and makes the name in the snapshot that leads to it.
    hf_hub_download(repository, name, revision=snapshot.name)
    if _checksum_of(path, checksum) != checksum:
        _remove(path)
        raise InputError(
            f"hf://{repository}@{snapshot.name}: {name} was downloaded with other content than "
            f"the hub states (checksum {checksum}). It was removed; try again."
        )
    return path


def _download_large(repository, snapshot, name, checksum, size):
    """Puts a large file where the library looks for it, going on with what is there of it."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import WeakFileLock, build_hf_headers

    cached = snapshot.parents[1]
    blob = cached / "blobs" / checksum
    partial = cached / "blobs" / f"{checksum}.incomplete"
    lock = cached.parent / ".locks" / cached.name / f"{checksum}.lock"  # the library's
    lock.parent.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):
        if blob.exists():
            return
        done = partial.stat().st_size if partial.exists() else 0
        if done > size:
            partial.unlink()
            done = 0
        free = shutil.disk_usage(partial.parent).free
        if free < size - done:
            raise InputError(
                f"{partial.parent} has {free:,} bytes free, and {name} of {repository} needs "
                f"{size - done:,}. Free some space or set HF_HOME to another disk."
            )
        with partial.open("ab") as file:
            http_get(
                hf_hub_url(repository, name, revision=snapshot.name),
                file,
                resume_size=done,
                headers=build_hf_headers(),
                expected_size=size,
                displayed_filename=name,
            )
        os.replace(partial, blob)


def _checksum_of(path, like):
    """The checksum of a file, of the kind that `like` is."""
    if len(like) == 64:
        digest = hashlib.sha256()
    else:
        digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _remove(path):
    """Removes a file from the cache: the name in the snapshot and what it leads to."""
    path.resolve().unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _connection_errors():
    from huggingface_hub import errors

    # The base of all errors of the HTTP client, which is another one in each major version.
    return (errors.HfHubHTTPError.__bases__[0], OSError)


def _status(error):
    """The HTTP status that an error is about, or None."""
    return getattr(getattr(error, "response", None), "status_code", None)


@contextlib.contextmanager
def _clear_errors(source, repository):
    """Turns whatever goes wrong on the way to the hub into one InputError."""
    from huggingface_hub import constants, errors

    endpoint = constants.ENDPOINT
    log_in = "log in with `hf auth login` or set HF_TOKEN"
    try:
        yield
    except errors.GatedRepoError as error:
        raise InputError(
            f"{source} is gated: accept its terms at {endpoint}/{repository}, then {log_in}."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise InputError(
            f"{source}: there is no repository {repository} at {endpoint}, or it is private; in "
            f"that case {log_in}."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise InputError(f"{source}: the repository has no such revision.") from error
    except errors.LocalEntryNotFoundError as error:
        cause = error.__cause__ or error
        if constants.HF_HUB_OFFLINE:
            reason = "HF_HUB_OFFLINE is set; unset it for the download"
        elif _status(cause):
            reason = f"{endpoint} answered with status {_status(cause)}; try later"
        else:
            reason = f"{endpoint} cannot be reached ({cause})"
        raise InputError(f"{source} is not in the cache, and {reason}.") from error
    except errors.EntryNotFoundError as error:
        name = str(error.response.url).rpartition("/")[2]
        raise InputError(f"{source}: the repository has no {name}.") from error
    except _connection_errors() as error:
        if status := _status(error):
            kind = _TemporaryError if status in _BUSY else InputError
            raise kind(f"{source}: {endpoint} answered with status {status}; try later.") from error
        if getattr(error, "errno", None) and not isinstance(error, ConnectionError):
            raise InputError(
                f"{source}: cannot write to the cache in {constants.HF_HUB_CACHE}: "
                f"{error.strerror}. Free some space or set HF_HOME to another disk."
            ) from error
        raise _TemporaryError(
            f"{source}: the connection to {endpoint} broke ({error}). Try again: the download "
            "goes on where it stopped."
        ) from error

