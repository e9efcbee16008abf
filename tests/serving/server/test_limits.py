"""What clients can do to a server: nothing."""

import contextlib
import json
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.serving.server.garbage import head, send_garbage
from tests.serving.server.servers import running, wait_for

GOOD = json.dumps({"instances": ["good"]}).encode()


@pytest.fixture(scope="module")
def folder(exported):
    return exported("single_label")[1]


@pytest.fixture(scope="module")
def small(folder):
    """A server with low limits."""
    with running(
        folder, max_bytes=10_000, max_rows=3, client_seconds=1.0, max_connections=20
    ) as client:
        yield client


def test_large_bodies(small):
    path = f"{small.path}:predict"
    assert small.predict(b" " * 9_000 + GOOD)[0] == 200
    status, answer = small.predict(b" " * 10_000 + GOOD)
    assert status == 413 and answer == {"error": "The request is larger than 10000 bytes."}
    # Clients that read no answer before they have sent all, such as `urllib`, get one, too.
    for size in (150_000, 100 << 20):
        sent = urllib.request.Request(
            f"http://127.0.0.1:{small.port}{path}", b" " * size, method="POST"
        )
        with pytest.raises(urllib.error.HTTPError, match="413"):
            urllib.request.urlopen(sent, timeout=5)
    # Much larger ones are answered before anything is sent.
    assert b" 413 " in small.raw(head(path, "Content-Length: 999999999999"), timeout=3)
    chunks = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
    assert b" 413 " in small.raw(head(path, "Transfer-Encoding: chunked") + chunks * 4, timeout=3)
    status, _, _ = small.send("POST", path, b"\x1f\x8b", {"Content-Encoding": "gzip"})
    assert status == 415


@pytest.mark.parametrize("size, status", [(1, b" 400 "), (100, b" 400 "), (300, b" 413 ")])
def test_bodies_of_small_chunks(folder, size, status):
    """The response arrives while the client still sends."""
    with running(folder, max_bytes=100_000) as client:
        chunk = f"{size:x}\r\n{' ' * size}\r\n".encode()
        answer = client.raw(
            head(f"{client.path}:predict", "Transfer-Encoding: chunked") + chunk * 100_000
        )
        assert status in answer[:20]
        assert (b"The chunks of the request are too small." in answer) == (status == b" 400 ")
        few = chunk * 200 + b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)
        sent = head(f"{client.path}:predict", "Transfer-Encoding: chunked") + few
        assert b" 200 " in client.raw(sent)


def test_a_damaged_rest_of_a_request(small, caplog):
    """The response to a request has been sent when its next chunk cannot be read."""
    with socket.create_connection(("127.0.0.1", small.port), timeout=10) as connection:
        lines = "POST /v1/none HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked", "", ""
        connection.sendall("\r\n".join(lines).encode())
        answer = b""
        while not answer.endswith(b"}"):  # The head and the body may arrive separately.
            answer += connection.recv(1000)
        assert b" 400 " in answer
        connection.sendall(b"damaged\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1000) == b""
    assert small.get("/healthz")[0] == 200 and not caplog.records


def test_many_rows(small):
    assert small.predict({"instances": ["a"] * 3})[0] == 200
    for request in ({"instances": ["a"] * 4}, {"inputs": {"text": ["a"] * 4}}):
        status, answer = small.predict(request)
        assert (
            status == 400 and "has 4 rows, but the maximum of this server is 3" in answer["error"]
        )


@pytest.mark.parametrize(
    "sent, status",
    [
        (b"", None),
        (b"POST /v1", None),
        (head("/v1/models/single_label:predict", "Content-Length: 50"), b" 408 "),
        (head("/healthz", method="GET") + b"GET /he", b" 200 "),
    ],
    ids=["connect", "head", "body", "second request"],
)
def test_slow_senders_are_dropped(small, sent, status):
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", small.port), timeout=10) as connection:
        connection.sendall(sent)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65536):
                received += part
    assert 0.5 < time.monotonic() - begun < 8
    assert status in received if status else received == b""


def test_slow_readers_are_dropped(small):
    """A client asks and asks, and reads nothing, until the server's buffers are full."""
    open_ones = small.server._server.server_state.connections
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", small.port))
        wait_for(lambda: open_ones)
        connection.settimeout(0.2)
        with contextlib.suppress(OSError):
            while True:  # at some time the server reads no more
                connection.sendall(head(f"{small.path}/metadata", method="GET") * 20)
        (protocol,) = open_ones
        wait_for(lambda: protocol.flow.write_paused)
        wait_for(lambda: not open_ones, seconds=10)
    assert small.get("/healthz")[0] == 200


def test_too_many_connections(small):
    """Those that wait longest for their client are dropped; the others are answered."""
    open_ones = small.server._server.server_state.connections
    with contextlib.ExitStack() as stack:
        for _ in range(35):
            stack.enter_context(socket.create_connection(("127.0.0.1", small.port)))
        assert small.get("/healthz")[0] == 200
        begun = time.monotonic()
        wait_for(lambda: len(open_ones) <= 20)
        assert time.monotonic() - begun < 0.8  # before they are dropped for being slow
        assert small.predict(GOOD)[0] == 200


def test_a_flood_of_connections_is_refused(folder):
    with running(folder, max_connections=2, client_seconds=60.0) as client:
        client.server._server.on_tick = lambda counter: _ticks(client.server)
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                stack.enter_context(socket.create_connection(("127.0.0.1", client.port)))
            time.sleep(0.2)
            assert client.send("GET", "/healthz")[0] == 503


async def _ticks(server):
    """Looks at no connections."""
    return server._server.should_exit


def test_a_request_that_takes_too_long(folder):
    with running(folder, seconds=0.5, batch_timeout=5.0) as client:
        begun = time.monotonic()
        assert client.predict(GOOD) == (504, {"error": "The model took too long."})
        assert time.monotonic() - begun < 4


def test_a_full_queue(folder):
    with running(folder, max_waiting=1, batch_timeout=1.0) as client:
        statuses = []

        def ask():
            status, headers, _ = client.send("POST", f"{client.path}:predict", GOOD)
            statuses.append(status)
            assert status == 200 or headers["Retry-After"] == "1"

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200, 503, 503, 503]


# === Garbage ===


def memory():
    """MB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def check_garbage(folder, count, caplog, capfd):
    with running(folder, client_seconds=5.0) as client:
        send_garbage(client, count // 5, seed=1)
        before = memory()
        counts = send_garbage(client, count)
        grown = memory() - before
        assert client.predict(GOOD)[0] == 200
    print(f"{count} requests: {counts}, {grown:.1f} MB more")
    assert {"200", "400", "404"} <= counts.keys()
    assert grown < 30
    assert not caplog.records
    assert "Traceback" not in capfd.readouterr().err


def test_garbage(folder, caplog, capfd):
    check_garbage(folder, 2000, caplog, capfd)


@pytest.mark.slow
def test_much_garbage(folder, caplog, capfd):
    check_garbage(folder, 100_000, caplog, capfd)
