"""A hostile hub: writes outside the cache, fills disk or memory, or never finishes."""

import contextlib
import gzip
import http.server
import json
import os
import threading
import time
import types

import pytest

from keras_bert_impl.hub import huggingface, local_directory, transfer
from keras_bert_impl.io.errors import InputError
from tests.hub.hub_models import FILES, WEIGHTS, content, point_at
from tests.hub_server import Fault, HubServer

NAME = "hf://owner/model"


@pytest.fixture
def victim(tmp_path):
    """A folder outside the cache that must not change."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "file").write_bytes(b"precious")
    before = content(tmp_path / "victim")
    yield folder
    assert content(folder) == before


@pytest.fixture
def impatient(monkeypatch):
    """Sets small limits and disables retries."""
    monkeypatch.setenv("KERAS_BERT_HUB_TIMEOUT", "0.5")
    monkeypatch.setenv("KERAS_BERT_HUB_MIN_SPEED", "1000")
    monkeypatch.setattr(huggingface, "_WAITS", ())


def outside(tmp_path):
    """Returns files that a download created outside the cache."""
    return {name for name in content(tmp_path) if not name.startswith(("cache/", "victim/"))}


@pytest.mark.parametrize("header", ["ETag", "X-Linked-ETag"])
@pytest.mark.parametrize("name", ["config.json", "vocab.txt", "model.safetensors"])
@pytest.mark.parametrize(
    "tag", ["{victim}", "../../../victim/file", "..", "", "a/b", "C:\\x", "a" * 5000]
)
def test_etag_is_not_used_as_a_file_name(hub, tmp_path, victim, header, name, tag):
    hub.add("owner/model", FILES)
    etag = f'"{tag.format(victim=victim / "file")}"'
    hub.faults[name] = Fault(times=100, headers={header: etag}, only=None)
    assert content(local_directory(NAME)) == FILES
    assert outside(tmp_path) == set()


@pytest.mark.parametrize("name", ["vocab.txt", "model.safetensors"])
@pytest.mark.parametrize(
    "checksum", ["{victim}", "../../../victim/file", "..", "A" * 40, "0" * 41, 7, None]
)
def test_rejects_a_checksum_that_is_a_path(hub, tmp_path, victim, monkeypatch, name, checksum):
    hub.add("owner/model", FILES)
    honest = HubServer.entry
    bad = checksum.format(victim=victim / "file") if isinstance(checksum, str) else checksum

    def entry(file, data):
        listed = honest(file, data)
        if file == name:
            listed = {"path": file, "oid": bad, "size": len(data)} | (
                {"lfs": {"sha256": bad, "size": len(data)}} if "lfs" in listed else {}
            )
        return listed

    monkeypatch.setattr(HubServer, "entry", staticmethod(entry))
    with pytest.raises(InputError, match="does not list the files .* HF_ENDPOINT"):
        local_directory(NAME)
    assert outside(tmp_path) == set()


@pytest.mark.parametrize("size", [-1, 1.5, "7", None, True, 10**4000, {}])
def test_rejects_an_invalid_size(hub, monkeypatch, size):
    hub.add("owner/model", FILES)
    entry = staticmethod(lambda name, data: {"path": name, "oid": "0" * 40, "size": size})
    monkeypatch.setattr(HubServer, "entry", entry)
    with pytest.raises(InputError, match="does not list the files"):
        local_directory(NAME)


@pytest.mark.parametrize(
    "commit", ["../../../victim", "/tmp/x", "a/b", "A" * 40, "0" * 39, "0" * 40 + "/..", "", "main"]
)
def test_rejects_an_invalid_commit(hub, tmp_path, victim, commit):
    hub.add("owner/model", FILES)
    hub.faults["config.json"] = Fault(times=100, headers={"X-Repo-Commit": commit}, only="HEAD")
    with pytest.raises(InputError, match="is not a commit. Check HF_ENDPOINT"):
        local_directory(NAME)
    assert outside(tmp_path) == set()


@pytest.mark.parametrize(
    "name", ["\0", "../x", "/etc/x", "C:\\x", "con", "n" * 10_000, 7, None, []]
)
def test_names_in_a_listing_are_looked_up_and_never_written(hub, tmp_path, victim, name):
    commit = hub.add("owner/model", FILES)
    listed = [HubServer.entry(*item) for item in FILES.items()]
    for entry in listed:
        entry |= {"rfilename": entry["path"], "blobId": entry["oid"]}
    siblings = [*listed, {"rfilename": name, "blobId": "0" * 40, "size": 1}]
    body = json.dumps({"sha": commit, "siblings": siblings}).encode()
    hub.faults["revision"] = Fault(times=100, content=body)
    if name == []:
        with pytest.raises(InputError, match="does not list the files"):
            local_directory(NAME)
    else:
        assert content(local_directory(NAME)) == FILES
    assert outside(tmp_path) == set()


def test_rejects_links_out_of_the_cache(hub, cache, victim):
    commit = hub.add("owner/model", FILES)
    folder = cache / "models--owner--model"
    (folder / "snapshots").mkdir(parents=True)
    (folder / "snapshots" / commit).symlink_to(victim)
    with pytest.raises(InputError, match="links out of the cache"):
        local_directory(NAME)
    (folder / "snapshots" / commit).unlink()
    (folder / "snapshots" / commit).mkdir()
    (folder / "snapshots" / commit / "vocab.txt").symlink_to(victim / "file")
    assert content(local_directory(NAME)) == FILES


@pytest.mark.parametrize("name", ["config.json", "revision", "model.safetensors"])
def test_retry_after_is_bounded(hub, monkeypatch, name):
    waits = []
    monkeypatch.setattr(huggingface, "time", types.SimpleNamespace(sleep=waits.append))
    hub.add("owner/model", FILES)
    hub.faults[name] = Fault(times=2, status=429, headers={"Retry-After": "100000"}, only=None)
    assert content(local_directory(NAME)) == FILES
    asked = [wait for wait in waits if wait]
    assert asked == [60, 60]


@pytest.mark.parametrize("wait", ["-5", "9" * 5000, "soon", "Wed, 21 Oct 2065 07:28:00 GMT"])
def test_ignores_an_invalid_retry_after(hub, monkeypatch, wait):
    waits = []
    monkeypatch.setattr(huggingface, "time", types.SimpleNamespace(sleep=waits.append))
    hub.add("owner/model", FILES)
    hub.faults["revision"] = Fault(times=1, status=503, headers={"Retry-After": wait})
    assert content(local_directory(NAME)) == FILES
    assert max(waits) <= 60


@pytest.mark.parametrize("name", ["revision", "config.json", "vocab.txt", "model.safetensors"])
def test_rejects_a_slow_body(hub, impatient, name):
    hub.add("owner/model", FILES)
    hub.faults[name] = Fault(times=100, content=bytes(5000), drip=0.05)
    with pytest.raises(InputError, match="too little data arrived within 0.5 seconds"):
        local_directory(NAME)


@pytest.mark.parametrize("name", ["config.json", "revision", "model.safetensors"])
def test_rejects_a_response_that_never_begins(hub, impatient, name):
    hub.add("owner/model", FILES)
    hub.faults[name] = Fault(times=100, seconds=3, only=None)
    # The second message is the socket's own timeout, which may come first on a busy machine.
    message = "too little data arrived within 0.5 seconds|read timeout=0.5"
    with pytest.raises(InputError, match=message):
        local_directory(NAME)


def test_rejects_a_listing_that_takes_too_long(hub, impatient, monkeypatch):
    hub.add("owner/model", FILES)
    monkeypatch.setenv("KERAS_BERT_HUB_MIN_SPEED", "1")
    hub.faults["revision"] = Fault(times=100, content=b" " * 100_000, drip=0.0001)
    with pytest.raises(InputError, match="takes too long|too little data arrived"):
        local_directory(NAME)


@pytest.mark.parametrize("name", ["revision", "config.json", "model.safetensors"])
def test_rejects_an_endless_body(hub, tmp_path, impatient, name):
    hub.add("owner/model", FILES)
    hub.faults[name] = Fault(times=100, forever=b"x" * 2**16)
    with pytest.raises(InputError, match="longer than .* bytes"):
        local_directory(NAME)
    sizes = [len(data) for data in content(tmp_path).values()]
    assert max(sizes, default=0) <= len(WEIGHTS)
    assert hub.sent_forever < 2**25


@pytest.mark.parametrize("name", ["revision", "config.json", "model.safetensors"])
def test_a_compressed_body_is_not_unpacked(hub, impatient, name):
    hub.add("owner/model", FILES)
    bomb = gzip.compress(bytes(2**24))
    hub.faults[name] = Fault(times=100, forever=bomb, headers={"Content-Encoding": "gzip"})
    with pytest.raises(InputError, match="is compressed"):
        local_directory(NAME)


@pytest.mark.parametrize("length", ["-1", "junk", "9" * 30, "5, 7", "1e3"])
@pytest.mark.parametrize("name", ["revision", "vocab.txt", "model.safetensors"])
def test_rejects_wrong_lengths(hub, impatient, name, length):
    hub.add("owner/model", FILES)
    hub.faults[name] = Fault(times=1, headers={"Content-Length": length})
    try:
        assert content(local_directory(NAME)) == FILES
    except InputError:
        hub.faults.clear()
        assert content(local_directory(NAME)) == FILES


@pytest.mark.parametrize("stated", ["bytes 0-9/10", "bytes 7-", "junk", "bytes 1000-9/10", ""])
def test_rejects_wrong_ranges(hub, cache, impatient, stated):
    hub.add("owner/model", FILES)
    hub.faults["model.safetensors"] = Fault(drop_after=1000)
    with pytest.raises(InputError, match="broke"):
        local_directory(NAME)
    hub.faults["model.safetensors"] = Fault(headers={"Content-Range": stated})
    try:
        local_directory(NAME)
    except InputError as error:
        assert "other content" in str(error) or "longer" in str(error) or "broke" in str(error)
    hub.faults.clear()
    try:
        directory = local_directory(NAME)
    except InputError:  # the error removed the bad file
        directory = local_directory(NAME)
    assert content(directory) == FILES


@pytest.mark.parametrize("listing", [b"[" * 2**20, b'{"siblings":' * 2**18, b"9" * 2**20])
def test_rejects_a_nested_or_long_listing(hub, listing):
    hub.add("owner/model", FILES)
    hub.faults["revision"] = Fault(times=100, content=listing)
    with pytest.raises(InputError, match="does not list the files"):
        local_directory(NAME)


def test_rejects_a_file_over_the_limit(hub, monkeypatch):
    hub.add("owner/model", FILES)
    monkeypatch.setenv("KERAS_BERT_HUB_MAX_BYTES", "1000")
    with pytest.raises(
        InputError, match="model.safetensors has 2.62e.05 bytes; KERAS_BERT_HUB_MAX_BYTES"
    ):
        local_directory(NAME)
    assert hub.asked("GET", "model.safetensors") == []


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e400", "ten", "9" * 5000])
def test_limits_are_numbers(monkeypatch, value):
    monkeypatch.setenv("KERAS_BERT_HUB_TIMEOUT", value)
    with pytest.raises(InputError, match="KERAS_BERT_HUB_TIMEOUT must be a positive number"):
        transfer.limit("TIMEOUT")


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://x", "data:,x", "//"]
)
@pytest.mark.parametrize("name", ["revision", "vocab.txt"])
def test_follows_redirects_only_to_http(hub, impatient, name, target):
    hub.add("owner/model", FILES)
    hub.faults[name] = Fault(times=100, status=302, headers={"Location": target})
    with pytest.raises(InputError):
        local_directory(NAME)


def test_rejects_circular_redirects(hub, impatient):
    hub.add("owner/model", FILES)
    location = f"{hub.url}/api/models/owner/model/revision/main"
    hub.faults["revision"] = Fault(times=100, status=302, headers={"Location": location})
    with pytest.raises(InputError, match="redirects more than 5 times"):
        local_directory(NAME)
    assert len(hub.asked("GET", "revision")) == 6


@pytest.mark.parametrize("name", ["revision", "vocab.txt"])
def test_redirects_do_not_receive_the_token(hub, name):
    hub.add("owner/model", FILES)
    location = f"{hub.storage.url}/storage/{name}"
    hub.faults[name] = Fault(status=307, headers={"Location": location})
    with contextlib.suppress(InputError):
        local_directory(NAME)
    elsewhere = [r for r in hub.requests if r.host == hub.storage.url.removeprefix("http://")]
    assert elsewhere and all(request.authorization is None for request in elsewhere)


def test_a_password_of_netrc_is_not_sent(hub, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("default login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    hub.add("owner/model", FILES)
    local_directory(NAME)
    assert {request.authorization for request in hub.requests} == {"Bearer hf_secret", None}


class _Raw(http.server.BaseHTTPRequestHandler):
    """Sends header lines forever, slowly or fast."""

    pace = 0.0

    def do_GET(self):
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while True:
                self.wfile.write(b"X-Header: value\r\n" if not self.pace else b"X")
                self.wfile.flush()
                time.sleep(self.pace)
        except OSError:
            pass

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("pace", [0.0, 0.05])
def test_rejects_endless_headers(cache, impatient, monkeypatch, pace):
    monkeypatch.setattr(_Raw, "pace", pace)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Raw)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        point_at(f"http://127.0.0.1:{server.server_address[1]}", cache, monkeypatch)
        monkeypatch.setattr(huggingface, "_WAITS", ())
        with pytest.raises(InputError, match="cannot be reached"):
            local_directory(NAME)
    finally:
        server.shutdown()
        server.server_close()


def test_huggingface_hub_finds_the_downloads(hub):
    from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download
    from huggingface_hub.constants import HF_HUB_CACHE

    hub.add("owner/model", FILES)
    directory = local_directory(NAME)
    hub.requests.clear()
    for name in FILES:
        path = hf_hub_download("owner/model", name, local_files_only=True)
        assert os.path.samefile(path, directory / name)
    assert os.path.samefile(snapshot_download("owner/model", local_files_only=True), directory)
    scanned = scan_cache_dir(HF_HUB_CACHE)
    assert [repository.repo_id for repository in scanned.repos] == ["owner/model"]
    assert not scanned.warnings
    assert hub.requests == []
