"""Interrupted downloads, and faults of hubs, caches, networks and disks."""

import pytest

from keras_bert_impl.checkpoints.hub import downloads, local_directory
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.hub.hub_models import FILES, content, point_at
from tests.hub_server import Fault, closed_port


def test_a_dropped_connection_is_repeated(hub):
    hub.add("owner/model", FILES)
    hub.faults["model.safetensors"] = Fault(times=2, drop_after=100_500)
    assert content(local_directory("hf://owner/model")) == FILES


def test_downloads_missing_files_again(hub):
    hub.add("owner/model", FILES)
    (local_directory("hf://owner/model") / "vocab.txt").unlink()
    assert content(local_directory("hf://owner/model")) == FILES


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hf://owner/nothing", "no repository owner/nothing at http://127.0.0.1:.*HF_TOKEN"),
        ("hf://owner/model@v9", "no such revision"),
        (f"hf://owner/model@{'1' * 40}", "no such revision"),
    ],
)
def test_rejects_missing_repositories_and_revisions(hub, name, message):
    hub.add("owner/model", FILES)
    with pytest.raises(InputError, match=message):
        local_directory(name)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(
    ("name", "method"), [("config.json", "HEAD"), ("model.safetensors", "GET")]
)
def test_gated(hub, status, name, method):
    hub.add("owner/model", FILES)
    hub.faults[name] = Fault(status=status, error_code="GatedRepo", only=method)
    with pytest.raises(InputError, match="gated: accept its terms at .*/owner/model, then log in"):
        local_directory("hf://owner/model")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_busy_hub(hub, monkeypatch, name):
    monkeypatch.setattr(downloads.time, "sleep", lambda _: None)
    hub.add("owner/model", FILES)
    hub.faults[name] = Fault(times=2, status=503, only="HEAD")
    assert content(local_directory("hf://owner/model")) == FILES
    assert hub.faults[name].times == 0


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_gives_up_on_a_hub_that_stays_busy(hub, monkeypatch, name):
    monkeypatch.setattr(downloads.time, "sleep", lambda _: None)
    hub.add("owner/model", FILES)
    hub.faults[name] = Fault(times=1000, status=503, only=None)
    with pytest.raises(InputError, match="503"):
        local_directory("hf://owner/model")


def test_without_a_network(hub, cache, monkeypatch):
    commit = hub.add("owner/model", FILES)
    directory = local_directory("hf://owner/model")
    with closed_port() as url:
        point_at(url, cache, monkeypatch)
        assert local_directory("hf://owner/model") == directory
        assert local_directory(f"hf://owner/model@{commit}") == directory
        with pytest.raises(InputError, match="other@main is not in the cache, and .* reached"):
            local_directory("hf://owner/other")


def test_offline_takes_complete_models_of_the_cache(hub, monkeypatch):
    from huggingface_hub import constants, snapshot_download

    hub.add("owner/model", FILES)
    hub.add("owner/elsewhere", FILES)
    hub.add("owner/half", FILES)
    directory = local_directory("hf://owner/model")
    snapshot_download("owner/elsewhere")
    snapshot_download("owner/half", allow_patterns=["*.json"])
    hub.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert local_directory("hf://owner/model") == directory
    assert content(local_directory("hf://owner/elsewhere")) == FILES
    with pytest.raises(
        InputError, match="hf://owner/half@main in the cache has no supported weights"
    ):
        local_directory("hf://owner/half")
    assert hub.requests == []


def test_token_goes_only_to_the_hub(hub):
    hub.add("owner/model", FILES)
    local_directory("hf://owner/model")
    storage = hub.storage.url.removeprefix("http://")
    tokens = {(r.host == storage, r.authorization) for r in hub.requests}
    assert tokens == {(False, "Bearer hf_secret"), (True, None)}


def test_a_full_disk(hub, tmp_path, monkeypatch):
    from tests.helpers import small_disk

    hub.add("owner/model", FILES | {"model.safetensors": bytes(2**21)})
    with small_disk(tmp_path / "small"):
        point_at(hub.url, tmp_path / "small" / "cache", monkeypatch)
        with pytest.raises(InputError, match="cannot write to the cache .*HF_HOME"):
            local_directory("hf://owner/model")
