"""HTTP requests to a hub, with limits on time, size and redirects.

`requests` and the hub libraries wait as long as single bytes keep arriving, decompress responses of
any size and follow every redirect. Here a thread receives the data, and the caller enforces the
limits.
"""

import contextlib
import os
import queue
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from keras_bert_impl.io.errors import InputError

# Environment variables and their defaults, documented in docs/models.md.
_DEFAULTS = {
    "KERAS_BERT_HUB_TIMEOUT": 30,  # seconds
    "KERAS_BERT_HUB_MIN_SPEED": 5_000,  # bytes per second
    "KERAS_BERT_HUB_MAX_BYTES": 100_000_000_000,  # per file
}
_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 5
_BLOCK = 8192  # bytes


class TransferError(Exception):
    """The connection failed, broke or was too slow; the same request may succeed later."""


class UnsafeAnswerError(Exception):
    """The response exceeds a limit or redirects to a disallowed address."""


def limit(name: str) -> float:
    """Returns the limit in the environment variable `KERAS_BERT_HUB_<name>`, or its default."""
    name = f"KERAS_BERT_HUB_{name}"
    text = os.environ.get(name, "").strip() or str(_DEFAULTS[name])
    if not re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,9})?", text) or not float(text):
        raise InputError(
            f"the environment variable {name} must be a positive number, not {text!r:.80}."
        )
    return float(text)


class Answer:
    """HTTP response."""

    def __init__(
        self, status: int, headers: Mapping[str, str], receive: Callable[[float], bytes | None]
    ) -> None:
        self.status = status
        self.headers = headers
        self._receive = receive

    def blocks(self, max_bytes: int) -> Iterator[bytes]:
        """Yields the body in blocks of bytes."""
        encoding = self.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            raise UnsafeAnswerError(
                f"the response is compressed ({encoding!r:.40}) without having been asked to"
            )
        seconds, speed = limit("TIMEOUT"), limit("MIN_SPEED")
        waited, received, total = 0.0, 0, 0
        while True:
            start = time.monotonic()
            block = self._receive(seconds - waited)
            waited += time.monotonic() - start
            if block is None:
                return
            received += len(block)
            total += len(block)
            if total > max_bytes:
                raise UnsafeAnswerError(f"the response is longer than {max_bytes:,} bytes")
            if received >= speed * seconds:
                waited, received = 0.0, 0
            yield block

    def read(self, max_bytes: int) -> bytes:
        """Returns the whole body, which must arrive within `KERAS_BERT_HUB_TIMEOUT` seconds."""
        end = time.monotonic() + limit("TIMEOUT")
        body = bytearray()
        for block in self.blocks(max_bytes):
            body += block
            if time.monotonic() > end:
                raise TransferError("the response takes too long")
        return bytes(body)


@contextlib.contextmanager
def request(
    method: str,
    url: str,
    headers: dict[str, str],
    json: Any = None,
    trusted_hosts: Iterable[str] = (),
    stop_at: str | None = None,
) -> Iterator[Answer]:
    """Sends a request and yields the `Answer`; receives nothing after the block exits."""
    seconds = limit("TIMEOUT")
    received: queue.Queue[Any] = queue.Queue(16)
    is_over = threading.Event()

    def put(item):
        while not is_over.is_set():
            with contextlib.suppress(queue.Full):
                received.put(item, timeout=0.5)
                return True
        return False

    def receive(seconds_left):
        from requests.exceptions import Timeout

        try:
            item = received.get(timeout=max(seconds_left, 0.001))
        except queue.Empty:
            item = Timeout()
        if isinstance(item, Timeout):  # of the wait here or of the connection, whichever was first
            raise TransferError(f"too little data arrived within {seconds:g} seconds") from None
        if isinstance(item, UnsafeAnswerError):
            raise item
        if isinstance(item, Exception):
            raise TransferError(f"{item}"[:300]) from item
        return item

    def work():
        from requests import Session

        try:
            with Session() as session:
                arguments = method, url, headers, json, trusted_hosts, stop_at, seconds
                with _follow(session, *arguments) as response:
                    if put((response.status_code, response.headers)):
                        for block in response.raw.stream(_BLOCK, decode_content=False):
                            if not put(block):
                                return
            put(None)
        except Exception as error:  # passed on to the caller, whatever it is
            put(error)

    # Not joined: if a server sends only occasional bytes, the read returns much later.
    threading.Thread(target=work, daemon=True, name="hub transfer").start()
    try:
        status, answered = receive(seconds)
        yield Answer(status, answered, receive)
    finally:
        is_over.set()


def _follow(session, method, url, headers, json, trusted_hosts, stop_at, seconds):
    """Returns the response with an unread body, after following at most five redirects."""
    from requests import Request

    first = urllib.parse.urlsplit(url)
    for _ in range(_MAX_REDIRECTS + 1):
        settings = session.merge_environment_settings(url, {}, True, None, None)
        # Prepared without the session, which would add the host's password from .netrc.
        prepared = Request(method, url, headers, json=json).prepare()
        response = session.send(prepared, timeout=seconds, allow_redirects=False, **settings)
        location = response.headers.get("Location")
        is_enough = stop_at is not None and stop_at in response.headers
        if response.status_code not in _REDIRECTS or not location or is_enough:
            return response
        response.close()
        before, url = url, urllib.parse.urljoin(url, location)
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and before.startswith("http:")):
            raise UnsafeAnswerError(
                f"{before:.200} redirects to {url!r:.200}, which is not followed"
            )
        is_trusted = parts.scheme == "https" and parts.hostname in trusted_hosts
        if not is_trusted and (parts.scheme, parts.netloc) != (first.scheme, first.netloc):
            headers = {name: headers[name] for name in headers if name.lower() != "authorization"}
        if method == "POST":
            method, json = "GET", None
    raise UnsafeAnswerError(f"{first.geturl():.200} redirects more than {_MAX_REDIRECTS} times")
