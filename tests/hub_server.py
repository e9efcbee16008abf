"""Loopback servers that speak the protocols of the two model hubs, with injected faults.

They record the requests they receive in `requests`, and the bytes sent of each file.
"""

import base64
import contextlib
import dataclasses
import hashlib
import http.server
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

LARGE = (".safetensors", ".bin", ".h5", ".spm")


@dataclasses.dataclass
class Fault:
    """A fault in the next `times` responses for a file.

    Args:
        times: int. Number of responses affected.
        status: int. HTTP status sent in place of the file.
        error_code: str. The hub's name for the error.
        drop_after: int. Bytes after which the connection closes.
        stalls: bool. If true, the connection stays open after `drop_after` bytes but sends nothing.
        content: bytes. Sent in place of the file's content.
        seconds: float. Delay before the response begins.
        only: str. HTTP method that is affected; None for all.
        headers: dict. Response headers that override those of the same name.
    """

    times: int = 1
    status: int = None
    error_code: str = None
    drop_after: int = None
    stalls: bool = False
    content: bytes = None
    seconds: float = 0.0
    only: str = "GET"
    headers: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Request:
    """One request: the file's name, or else the last part of the address."""

    method: str
    name: str
    range: str
    authorization: str
    host: str


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def git_sha1(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler, owner, host="127.0.0.1"):
        super().__init__(("127.0.0.1", 0), handler)
        self.owner = owner
        self.url = f"http://{host}:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        """Ignores errors: tests kill clients in the middle of a response."""


class FaultyServer:
    """Base of both servers; a context manager that serves while it is open."""

    handler = None

    def __init__(self):
        self.requests = []
        self.sent = {}
        self.faults = {}
        self.lock = threading.Lock()
        self._server = _Server(self.handler, self)
        self.url = self._server.url

    def __enter__(self):
        # The polling interval limits how long `shutdown` takes.
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def asked(self, method, name):
        """The requests for a file."""
        return [r for r in self.requests if (r.method, r.name) == (method, name)]

    def next_fault(self, method, name):
        with self.lock:
            fault = self.faults.get(name)
            if fault is None or fault.times == 0 or fault.only not in (None, method):
                return Fault()
            fault.times -= 1
            return fault


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "hub"

    def log_message(self, *_):
        pass

    @property
    def owner(self):
        return self.server.owner

    def note(self, name):
        """Records the request; returns the fault to inject."""
        headers = self.headers
        request = Request(
            self.command, name, headers["Range"], headers["Authorization"], headers["Host"]
        )
        with self.owner.lock:
            self.owner.requests.append(request)
        fault = self.owner.next_fault(self.command, name)
        time.sleep(fault.seconds)
        if fault.status:
            code = {"X-Error-Code": fault.error_code} if fault.error_code else {}
            self.reply(fault.status, code | fault.headers)
        return fault

    def reply(self, status, headers, body=b"", length=None):
        self.send_response(status)
        headers = {"Content-Length": len(body) if length is None else length} | headers
        for name, value in headers.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def reply_json(self, content):
        self.reply(200, {"Content-Type": "application/json"}, json.dumps(content).encode())

    def send_content(self, name, content, headers, fault):
        """Sends the file, or the rest requested by `Range`, with its fault."""
        content = content if fault.content is None else fault.content
        start, status = 0, 200
        match = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
        if match:
            start, status = int(match[1]), 206
            headers = headers | {
                "Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"
            }
            if start >= len(content):
                return self.reply(416, {"Content-Range": f"bytes */{len(content)}"})
        body = content[start:]
        sent = body if fault.drop_after is None else body[: fault.drop_after]
        headers = {"Accept-Ranges": "bytes"} | headers | fault.headers
        with self.owner.lock:  # before the client has all, and looks
            if self.command != "HEAD":
                self.owner.sent[name] = self.owner.sent.get(name, 0) + len(sent)
        self.reply(status, headers, sent, len(body))
        if len(sent) < len(body) and self.command != "HEAD":
            if fault.stalls:
                self.connection.recv(1)  # until the client disconnects
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        return None


class _HubHandler(_Handler):
    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        for pattern, answer in (
            ("/storage/(.+)", self._stored),
            ("/api/models/([^/]+/[^/]+)/revision/([^/]+)", self._listing),
            ("/api/models/([^/]+/[^/]+)/tree/([^/]+)", self._tree),
            ("/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self._resolve),
        ):
            if match := re.fullmatch(pattern, path):
                return answer(*map(urllib.parse.unquote, match.groups()))
        return self.reply(404, {})

    do_HEAD = do_GET

    def _commit(self, repository, revision):
        """Returns the commit and files of a revision; None after sending an error."""
        commits = self.owner.repositories.get(repository)
        if commits is None:  # the hub's response without a login
            return self.reply(401, {"X-Error-Code": "RepoNotFound"})
        commit = self.owner.branches.get((repository, revision), revision)
        if commit not in commits:
            return self.reply(404, {"X-Error-Code": "RevisionNotFound"})
        return commit, commits[commit]

    def _listing(self, repository, revision):
        fault = self.note("revision")
        if fault.status:
            return
        snapshot = self._commit(repository, revision)
        if snapshot is None:
            return
        commit, files = snapshot
        siblings = [
            {"rfilename": entry.pop("path"), "blobId": entry.pop("oid")} | entry
            for entry in map(self.owner.entry, files, files.values())
        ]
        content = json.dumps({"id": repository, "sha": commit, "siblings": siblings}).encode()
        self.send_content("revision", content, {"Content-Type": "application/json"}, fault)

    def _tree(self, repository, revision):
        if self.note("tree").status:
            return
        snapshot = self._commit(repository, revision)
        if snapshot is not None:
            self.reply_json([{"type": "file"} | self.owner.entry(*f) for f in snapshot[1].items()])

    def _resolve(self, repository, revision, name):
        snapshot = self._commit(repository, revision)
        if snapshot is None:
            return
        commit, files = snapshot
        headers = {"X-Repo-Commit": commit}
        if name not in files:
            self.reply(404, headers | {"X-Error-Code": "EntryNotFound"})
            return
        content = files[name]
        large = name.endswith(LARGE)
        fault = self.note(name) if self.command == "HEAD" or not large else Fault()
        if fault.status:
            return
        headers |= fault.headers
        if not large:
            self.send_content(name, content, headers | {"ETag": f'"{git_sha1(content)}"'}, fault)
            return
        headers |= {
            # Large files are on a different server than the hub.
            "Location": f"{self.owner.storage.url}/storage/{name}?{sha256(content)}",
            "X-Linked-ETag": f'"{sha256(content)}"',
            "X-Linked-Size": str(len(content)),
        }
        self.reply(302, headers)

    def _stored(self, name):
        fault = self.note(name)
        if fault.status:
            return
        digest = urllib.parse.urlsplit(self.path).query
        self.send_content(name, self.owner.stored[digest], {"ETag": f'"{digest}"'}, fault)


class HubServer(FaultyServer):
    """A Hugging Face hub, with a second server for large files.

    Example:
        >>> with HubServer() as hub:
        ...     commit = hub.add("owner/model", {"config.json": b"{}"})
    """

    handler = _HubHandler

    def __init__(self):
        super().__init__()
        # Under another host name, because another port alone can count as the same server.
        self.storage = _Server(_HubHandler, self, host="localhost")
        self.repositories = {}  # name -> commit -> file -> content
        self.branches = {}  # (repository, branch) -> commit
        self.stored = {}  # SHA-256 -> content

    def __enter__(self):
        threading.Thread(target=self.storage.serve_forever, args=(0.01,), daemon=True).start()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.storage.shutdown()
        self.storage.server_close()

    def add(self, repository, files, branch="main"):
        """Commits these files and points the branch to the commit; returns the commit."""
        commit = hashlib.sha1(repr((repository, sorted(files.items()))).encode()).hexdigest()
        self.repositories.setdefault(repository, {})[commit] = files
        self.branches[repository, branch] = commit
        self.stored |= {sha256(content): content for content in files.values()}
        return commit

    @staticmethod
    def entry(name, content):
        """The hub's listing entry of a file."""
        entry = {"path": name, "oid": git_sha1(content), "size": len(content)}
        if name.endswith(LARGE):
            digest = sha256(content)
            entry["lfs"] = {"oid": digest, "sha256": digest, "size": len(content)}
            entry["lfs"]["pointerSize"] = 130
        return entry


class _KaggleHandler(_Handler):
    def do_POST(self):
        length = int(self.headers["Content-Length"] or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        handle = "/".join(body[key] for key in ("ownerSlug", "modelSlug", "instanceSlug"))
        versions = self.owner.models.get(handle)
        method = self.path.rpartition("/")[2]
        if versions is None:
            return self._error(404)
        if method == "GetModelInstance":
            if not self.note("version").status:
                self.reply_json({"versionNumber": max(versions)})
            return None
        files, name = versions.get(int(body["versionNumber"]), {}), body["path"]
        if name not in files:
            self.note(name)
            return self._error(404)
        query = urllib.parse.urlencode({"model": handle, "version": body["versionNumber"]})
        # All addresses must use the host that the client was given.
        location = f"http://{self.headers['Host']}/storage/{name}?{query}"
        return self.reply(302, {"Location": location})

    def do_GET(self):
        address = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(address.query))
        name = address.path.removeprefix("/storage/")
        fault = self.note(name)
        if fault.status:
            return
        content = self.owner.models[query["model"]][int(query["version"])][name]
        digest = base64.b64encode(hashlib.md5(content).digest()).decode()
        self.send_content(name, content, {"x-goog-hash": f"md5={digest}"}, fault)

    def _error(self, status):
        self.reply(status, {"Content-Type": "application/json"}, b'{"message": "no"}')


class KaggleServer(FaultyServer):
    """Kaggle's server for models; their names do not include the framework."""

    handler = _KaggleHandler

    def __init__(self):
        super().__init__()
        self.models = {}  # owner/model/variation -> version -> file -> content


@contextlib.contextmanager
def closed_port():
    """The address of a port without a server."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def start_client(code, home, environment):
    """Starts a process that runs code with `local_directory` and only this environment.

    Args:
        code: str.
        home: `Path`.
        environment: dict.
    """
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "HOME": str(home),
        "NO_PROXY": "127.0.0.1,localhost",
    } | environment
    pipe = subprocess.PIPE
    command = [
        sys.executable,
        "-c",
        f"from keras_bert_impl.checkpoints.hub import local_directory\n{code}",
    ]
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)
