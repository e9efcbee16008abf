"""Which Host and Origin headers a server accepts."""

import json

import pytest

from keras_bert_impl.serving.server.hosts import Hosts
from tests.serving.server.servers import running

LOOPBACK = ["localhost", "localhost:8501", "LOCALHOST:1", "127.0.0.1:8501", "127.9.9.9", "[::1]:80"]
FOREIGN = [
    *("", "evil.example", "evil.example:8501", "localhost.evil.example", "localhost@evil.example"),
    *("evil.example@localhost", "localhost:8501:1", "192.168.0.7:8501", "[::2]", "[::1", "null"),
]


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::1"])
def test_a_loopback_server_has_loopback_names(address):
    hosts = Hosts(address)
    for name in LOOPBACK:
        assert hosts.error("GET", {"host": name}) is None
        assert hosts.error("POST", {"host": name, "origin": f"http://{name}"}) is None
    for name in FOREIGN:
        assert f"The Host header {name!r} is not allowed" in hosts.error("GET", {"host": name})
        error = hosts.error("POST", {"host": "localhost", "origin": f"https://{name}"})
        assert "The Origin header" in error and "--allowed-hosts NAME" in error
    assert hosts.error("POST", {"host": "localhost", "origin": "null"})
    assert hosts.error("GET", {"host": "localhost", "origin": "http://evil.example"}) is None


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.0.7", "::"])
def test_other_servers_check_only_listed_names(address):
    for name in [*LOOPBACK, *FOREIGN]:
        assert Hosts(address).error("POST", {"host": name, "origin": "http://a.example"}) is None
    hosts = Hosts(address, ["Models.Example"])
    for name in [*LOOPBACK, "models.example", "MODELS.example:8501"]:
        assert hosts.error("POST", {"host": name, "origin": f"https://{name}"}) is None
    assert all(hosts.error("GET", {"host": name}) for name in FOREIGN)


def test_every_path_is_refused_with_403(exported):
    with running(exported("single_label")[1], allowed_hosts=["models.example"]) as client:
        path, body = f"{client.path}:predict", json.dumps({"instances": ["good"]})
        foreign = {"Host": "evil.example"}
        for where in ("/", "/healthz", "/metrics", client.path):
            status, _, text = client.send("GET", where, headers=foreign)
            assert status == 403 and "'evil.example' is not allowed" in json.loads(text)["error"]
        assert client.send("POST", path, body, foreign)[0] == 403
        assert client.send("POST", path, body, {"Origin": "http://evil.example"})[0] == 403
        assert client.send("POST", path, body, {"Host": "models.example:1"})[0] == 200
        assert client.send("POST", path, body, {"Origin": "https://models.example"})[0] == 200
        assert client.metric('keras_bert_requests_total{code="403",method="refused"}') == 6
