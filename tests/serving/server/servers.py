"""Running servers, and clients that ask them over sockets."""

import contextlib
import http.client
import json
import socket
import threading
import time

from keras_bert_impl.serving.server.model import Limits
from keras_bert_impl.serving.server.model_server import ModelServer
from keras_bert_impl.serving.server.versions import Folder


@contextlib.contextmanager
def running(path, poll_seconds=60.0, grpc=False, feedback=None, allowed_hosts=(), **limits):
    """A server of a folder of versions, in threads of this process; yields its `Client`."""
    lines = []
    server = ModelServer(
        Folder(path), Limits(**limits), poll_seconds, lines.append, feedback, allowed_hosts
    )
    server.load()
    grpc_port = server.start_grpc("127.0.0.1:0") if grpc else None
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=[listener])
    thread.start()
    try:
        yield Client(listener.getsockname()[1], server.versions.name, server, lines, grpc_port)
    finally:
        server.stop()
        thread.join(60)
        assert not thread.is_alive()


def wait_for(condition, seconds=60):
    """Waits until a function returns something."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


class Client:
    """Sends requests, each on a connection of its own."""

    def __init__(self, port, name="", server=None, lines=(), grpc_port=None):
        self.port = port
        self.grpc_port = grpc_port
        self.path = f"/v1/models/{name}"
        self.server = server
        self.lines = lines

    def send(self, method, path, body=None, headers=None, timeout=60):
        """Returns (status, headers, text of the answer)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode()

    def get(self, path):
        """Returns (status, text)."""
        status, _, text = self.send("GET", path)
        return status, text

    def predict(self, request, suffix="", method="predict"):
        """Returns (status, answer) of a request, a value or the bytes of its JSON."""
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        kind = {"Content-Type": "application/json"}
        status, headers, text = self.send("POST", f"{self.path}{suffix}:{method}", body, kind)
        assert headers["Content-Type"] == "application/json"
        return status, json.loads(text)

    def raw(self, data, timeout=10, ends=False):
        """Sends bytes, and the end of the connection if `ends`.

        Returns all that comes back until the server closes, or `timeout` seconds.
        """
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            received = b""
            with contextlib.suppress(OSError):
                connection.sendall(data)
                if ends:
                    connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(65536):
                    received += part
            return received

    def metric(self, line):
        """Returns the value of a metric, given its name and labels."""
        _, text = self.get("/metrics")
        values = [row.split()[-1] for row in text.splitlines() if row.startswith(f"{line} ")]
        return float(values[0]) if values else 0.0
