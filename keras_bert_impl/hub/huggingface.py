"""Downloads from the Hugging Face hub into the cache of the `huggingface_hub` library.

Uses the library's settings, tokens, addresses, locks and cache layout, but not its requests: it
takes the names of files to write from responses and enforces no limits.
"""

import contextlib
import functools
import json
import os
import re
import time
import urllib.parse
from pathlib import Path

from keras_bert_impl.hub import cache
from keras_bert_impl.hub.contents import gather
from keras_bert_impl.hub.transfer import TransferError, UnsafeAnswerError, request
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_file

_WAITS = (1, 2, 4)  # seconds before another attempt
_MAX_WAIT = 60  # seconds, even if the hub asks for more
_BUSY = (408, 429, 500, 502, 503, 504)
_MAX_LISTING_BYTES = 2**24
_MUCH = 2**20  # bytes: an attempt that received this much resets the retry count
_COMMIT = re.compile("[0-9a-f]{40}")


class _TemporaryError(InputError):
    """A failure that may succeed on retry: after `wait` seconds, as requested by the hub, and with
    `received` bytes received by this attempt."""

    def __init__(self, message: str, wait: int = 0, received: int = 0) -> None:
        super().__init__(message)
        self.wait = wait
        self.received = received


def download(repository: str, revision: str) -> Path:
    """Returns the cached directory of a model, `owner/name`, downloading files if needed."""
    waits = iter(_WAITS)
    while True:
        try:
            return _Repository(repository, revision).download()
        except _TemporaryError as error:
            if error.received >= _MUCH:
                waits = iter(_WAITS)
            wait = next(waits, None)
            if wait is None:
                raise
            time.sleep(max(wait, min(error.wait, _MAX_WAIT)))


class _Repository:
    """A repository at a revision, on the hub and in the cache."""

    def __init__(self, repository: str, revision: str) -> None:
        from huggingface_hub import constants
        from huggingface_hub.file_download import repo_folder_name

        self._repository = repository
        self._revision = revision
        self._source = f"hf://{repository}@{revision}"
        self._endpoint = constants.ENDPOINT
        self._is_offline = constants.HF_HUB_OFFLINE
        self._cache = Path(constants.HF_HUB_CACHE).expanduser().absolute()
        self._folder = self._cache / repo_folder_name(repo_id=repository, repo_type="model")

    def download(self) -> Path:
        """Returns the `Path` of the snapshot, with all files of a model."""
        with cache.disk_errors(self._source, self._cache, "HF_HOME"):
            commit = self._ask_commit()
            snapshot = self._snapshot(commit)
            record = self._folder / "verified" / commit
            if cache.is_complete(record, snapshot):
                return snapshot
            if self._is_offline:
                return self._from_cache(snapshot)
            try:
                stated = self._list_files(commit)
            except _TemporaryError as error:
                if not error.wait:
                    with contextlib.suppress(InputError):
                        return self._from_cache(snapshot)
                raise
            files = gather(functools.partial(self._fetch, snapshot, stated), self._source)
            with contextlib.suppress(InputError):  # a read-only cache is checked every time
                cache.write_record(record, files)
            return snapshot

    def _ask_commit(self):
        """Returns the commit of the revision, from the hub or, without a network, the cache."""
        from huggingface_hub import hf_hub_url

        cached = self._cached_commit()
        is_pinned = cached == self._revision
        if is_pinned and cache.is_complete(
            self._folder / "verified" / cached, self._snapshot(cached)
        ):
            return cached
        if self._is_offline:
            if cached and self._snapshot(cached).is_dir():
                return cached
            raise InputError(
                f"{self._source} is not in the cache, and HF_HUB_OFFLINE is set; unset it for the "
                "download."
            )
        url = hf_hub_url(self._repository, "config.json", revision=self._revision)
        try:
            with self._request("HEAD", url, stop_at="X-Repo-Commit") as answer:
                commit = answer.headers.get("X-Repo-Commit", "")
        except _TemporaryError as error:
            if cached and self._snapshot(cached).is_dir():
                return cached
            error.args = (f"{self._source} is not in the cache, and {error}",)
            raise
        if not _COMMIT.fullmatch(commit):
            raise InputError(
                f"{self._endpoint} does not respond like the Hugging Face hub: {commit!r:.80} is "
                "not a commit. Check HF_ENDPOINT and your proxy."
            )
        if _COMMIT.fullmatch(self._revision) and commit != self._revision:
            raise InputError(f"{self._source}: the hub responded with commit {commit}.")
        if commit != cached:
            with contextlib.suppress(InputError):  # a read-only cache
                with replace_file(self._folder / "refs" / self._revision) as temporary:
                    temporary.write_text(commit, encoding="ascii")
        return commit

    def _cached_commit(self):
        """Returns the commit that the revision had when last resolved, or None."""
        if _COMMIT.fullmatch(self._revision):
            return self._revision
        with contextlib.suppress(OSError, ValueError):
            with open(self._folder / "refs" / self._revision, encoding="ascii") as file:
                commit = file.read(100)
            return commit if _COMMIT.fullmatch(commit) else None

    def _snapshot(self, commit):
        return self._folder / "snapshots" / commit

    def _from_cache(self, snapshot):
        """Returns the snapshot if another program has put a complete model there."""
        gather(functools.partial(cache.existing, snapshot), f"{self._source} in the cache")
        return snapshot

    def _list_files(self, commit):
        """Returns a dict of file names to the (checksum, size) stated by the hub."""
        path = urllib.parse.quote(commit, safe="")
        url = f"{self._endpoint}/api/models/{self._repository}/revision/{path}?blobs=true"
        with self._request("GET", url) as answer:
            body = answer.read(_MAX_LISTING_BYTES)
        try:
            return {file["rfilename"]: _checksum(file) for file in json.loads(body)["siblings"]}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{self._endpoint} does not list the files of {self._repository} like the Hugging "
                "Face hub. Check HF_ENDPOINT and your proxy."
            ) from error

    def _fetch(self, snapshot, stated, name):
        """Returns the path of a verified file, or None if the repository has no such file."""
        from huggingface_hub.utils import WeakFileLock

        if name not in stated:
            return None
        checksum, size = stated[name]
        path = snapshot / name
        blob = self._folder / "blobs" / checksum
        self._check_inside(path)
        self._check_inside(blob)
        if path.exists() and cache.checksum_of(path, checksum) == checksum:
            return path
        lock = self._cache / ".locks" / self._folder.name / f"{checksum}.lock"  # the library's lock
        for file in (lock, path, blob):
            file.parent.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(lock):
            if not blob.exists() or cache.checksum_of(blob, checksum) != checksum:
                self._download_blob(blob, name, snapshot.name, checksum, size)
            path.unlink(missing_ok=True)
            try:
                path.symlink_to(os.path.relpath(blob, path.parent))
            except OSError:  # a file system without symbolic links
                os.replace(blob, path)
        return path

    def _check_inside(self, path):
        """Raises `InputError` if a link would lead a file out of the cache."""
        if not path.parent.resolve().is_relative_to(self._folder.resolve()):
            raise InputError(
                f"{path.parent} links out of the cache; remove the link and try again."
            )

    def _download_blob(self, blob, name, commit, checksum, size):
        """Downloads a file to `blob`, resuming a partial download."""
        partial = blob.with_name(f"{checksum}.incomplete")
        if partial.is_symlink() or (partial.exists() and partial.stat().st_size > size):
            partial.unlink()
        done = partial.stat().st_size if partial.exists() else 0
        cache.check_size(partial.parent, self._source, name, size, done, "HF_HOME")
        if done < size or not partial.exists():
            self._receive(partial, name, commit, done, size)
        if cache.checksum_of(partial, checksum) != checksum:
            partial.unlink()
            raise InputError(
                f"hf://{self._repository}@{commit}: the checksum of the downloaded {name} is not "
                f"the hub's, {checksum}. The file was removed; try again."
            )
        os.replace(partial, blob)

    def _receive(self, partial, name, commit, done, size):
        """Appends the missing part of a file to `partial`."""
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import tqdm

        url = hf_hub_url(self._repository, name, revision=commit)
        more = {"Range": f"bytes={done}-"} if done else {}
        with self._request("GET", url, **more) as answer, partial.open("ab") as file:
            if done and not answer.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
                file.truncate(0)  # the server sends the whole file
                done = 0
            start = done
            bar = tqdm(total=size, initial=done, unit="B", unit_scale=True, desc=name, disable=None)
            with bar:
                try:
                    for block in answer.blocks(max_bytes=size - done):
                        file.write(block)
                        done += len(block)
                        bar.update(len(block))
                except TransferError as error:
                    raise self._broken(error, done - start) from error
        if done < size:
            raise self._broken(f"{name} ended after {done:,} of {size:,} bytes", done - start)

    def _broken(self, why, received=0):
        return _TemporaryError(
            f"{self._source}: the connection to {self._endpoint} broke ({why}). Try again: the "
            "download resumes where it stopped.",
            received=received,
        )

    @contextlib.contextmanager
    def _request(self, method, url, stop_at=None, **headers):
        """Yields a response with status 2xx, or 3xx with the header `stop_at`."""
        from huggingface_hub.utils import build_hf_headers

        headers |= build_hf_headers() | {"Accept-Encoding": "identity"}
        answered = False
        try:
            with request(
                method, url, headers, trusted_hosts=("huggingface.co",), stop_at=stop_at
            ) as answer:
                answered = True
                self._check_status(answer, url)
                yield answer
        except UnsafeAnswerError as error:
            raise InputError(f"{self._source}: {error}.") from error
        except TransferError as error:
            if answered:
                raise self._broken(error) from error
            raise _TemporaryError(f"{self._endpoint} cannot be reached ({error})") from error

    def _check_status(self, answer, url):
        if answer.status < 400:
            return
        code = answer.headers.get("X-Error-Code")
        log_in = "log in with `hf auth login` or set HF_TOKEN"
        if code == "GatedRepo":
            raise InputError(
                f"{self._source} is gated: accept its terms at {self._endpoint}/"
                f"{self._repository}, then {log_in}."
            )
        if code == "RevisionNotFound":
            raise InputError(f"{self._source}: the repository has no such revision.")
        if code == "EntryNotFound":
            name = urllib.parse.urlsplit(url).path.rpartition("/")[2]
            raise InputError(f"{self._source}: the repository has no {name}.")
        if code == "RepoNotFound" or answer.status == 401:
            raise InputError(
                f"{self._source}: there is no repository {self._repository} at {self._endpoint}, "
                f"or it is private; if it is, {log_in}."
            )
        message = f"{self._endpoint} responded with status {answer.status}; try again later."
        if answer.status in _BUSY:
            asked = answer.headers.get("Retry-After", "")
            wait = int(asked) if re.fullmatch("[0-9]{1,9}", asked) else 1
            raise _TemporaryError(message, wait=wait)
        raise InputError(f"{self._source}: {message}")


def _checksum(file):
    """Returns (checksum, size): SHA-256 for LFS files, else git's SHA-1. Names the cached blob."""
    large = file.get("lfs")
    checksum, size = (large["sha256"], large["size"]) if large else (file["blobId"], file["size"])
    if not re.fullmatch("[0-9a-f]{64}" if large else "[0-9a-f]{40}", checksum):
        raise ValueError("no checksum")
    if type(size) is not int or not 0 <= size < 2**63:
        raise ValueError("no size")
    return checksum, size
