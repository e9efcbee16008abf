"""The download cache, and a server that implements the hub's protocol."""

import pytest

from tests.checkpoints.hub.hub_models import point_at
from tests.hub_server import HubServer


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def hub(cache, monkeypatch):
    with HubServer() as server:
        point_at(server.url, cache, monkeypatch)
        yield server
