"""Interrupted downloads, and faults of hubs, caches, networks and disks."""

import re
import shutil
import types
from pathlib import Path

import pytest

from keras_bert_impl.hub import huggingface, local_directory
from keras_bert_impl.io.errors import InputError
from tests.hub.hub_models import FILES, WEIGHTS, content, point_at
from tests.hub_server import Fault, HubServer, closed_port, sha256


def test_dropped_connection_resumes_in_the_same_call(hub):
    hub.add("owner/model", FILES)
    hub.faults["model.safetensors"] = Fault(times=2, drop_after=100_500)
    assert content(local_directory("hf://owner/model")) == FILES
    first, second, third = hub.asked("GET", "model.safetensors")
    starts = [int(re.fullmatch(r"bytes=(\d+)-", r.range)[1]) for r in (second, third)]
    assert first.range is None and starts == [100_500, 201_000]
    assert hub.sent["model.safetensors"] == len(WEIGHTS)


@pytest.mark.parametrize("kept", [0, 1, 1000, len(WEIGHTS) - 1, len(WEIGHTS), len(WEIGHTS) + 1])
def test_interrupted_download_resumes_in_the_next_call(hub, cache, kept):
    hub.add("owner/model", FILES)
    partial = cache / "models--owner--model" / "blobs" / f"{sha256(WEIGHTS)}.incomplete"
    partial.parent.mkdir(parents=True)
    partial.write_bytes((WEIGHTS + b"x")[:kept])
    assert content(local_directory("hf://owner/model")) == FILES
    kept = 0 if kept > len(WEIGHTS) else kept
    assert hub.sent.get("model.safetensors", 0) == len(WEIGHTS) - kept
    assert not partial.exists()


def test_rejects_a_partial_download_of_another_file(hub, cache):
    hub.add("owner/model", FILES)
    partial = cache / "models--owner--model" / "blobs" / f"{sha256(WEIGHTS)}.incomplete"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"wrong")
    with pytest.raises(InputError, match="checksum of the downloaded model.safetensors is not"):
        local_directory("hf://owner/model")
    assert content(local_directory("hf://owner/model")) == FILES


def test_a_body_that_states_to_be_shorter(hub):
    hub.add("owner/model", FILES)
    hub.faults["model.safetensors"] = Fault(truncate_to=5000)
    assert content(local_directory("hf://owner/model")) == FILES
    assert [r.range for r in hub.asked("GET", "model.safetensors")] == [None, "bytes=5000-"]


def test_downloads_changed_files_again(hub):
    hub.add("owner/model", FILES)
    directory = local_directory("hf://owner/model")
    (directory / "model.safetensors").resolve().write_bytes(b"short")
    (directory / "vocab.txt").unlink()
    assert content(local_directory("hf://owner/model")) == FILES


def test_checks_files_that_another_program_cached(hub):
    from huggingface_hub import hf_hub_download

    hub.add("owner/model", FILES)
    hub.faults["model.safetensors"] = Fault(content=bytes(len(WEIGHTS)))
    path = Path(hf_hub_download("owner/model", "model.safetensors"))
    assert path.read_bytes() != WEIGHTS  # the library compares only the size
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


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("config.json", "HEAD"),
        ("revision", "GET"),
        ("vocab.txt", "GET"),
        ("model.safetensors", "GET"),
    ],
)
def test_retries_a_busy_hub(hub, monkeypatch, status, name, method):
    monkeypatch.setattr(huggingface, "time", types.SimpleNamespace(sleep=lambda _: None))
    hub.add("owner/model", FILES)
    hub.faults[name] = Fault(times=2, status=status, only=method)
    assert content(local_directory("hf://owner/model")) == FILES
    assert hub.faults[name].times == 0


@pytest.mark.parametrize("name", ["config.json", "revision", "model.safetensors"])
def test_gives_up_on_a_hub_that_stays_busy(hub, monkeypatch, name):
    monkeypatch.setattr(huggingface, "time", types.SimpleNamespace(sleep=lambda _: None))
    hub.add("owner/model", FILES)
    hub.faults[name] = Fault(times=1000, status=503, only=None)
    with pytest.raises(InputError, match="responded with status 503; try again later"):
        local_directory("hf://owner/model")


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"{}", b'{"id": "a/b", "siblings": [{}]}'])
def test_rejects_a_server_that_is_not_a_hub(hub, answer):
    hub.add("owner/model", FILES)
    hub.faults["revision"] = Fault(content=answer)
    with pytest.raises(InputError, match="does not list the files .* HF_ENDPOINT"):
        local_directory("hf://owner/model")


def test_rejects_a_hub_without_checksums(hub, monkeypatch):
    hub.add("owner/model", FILES)
    without_checksum = staticmethod(lambda name, content: {"path": name, "oid": "x"})
    monkeypatch.setattr(HubServer, "entry", without_checksum)
    with pytest.raises(InputError, match="does not list the files .* HF_ENDPOINT"):
        local_directory("hf://owner/model")


def test_a_connection_that_breaks_while_the_files_are_listed(hub):
    hub.add("owner/model", FILES)
    hub.faults["revision"] = Fault(drop_after=10)
    assert content(local_directory("hf://owner/model")) == FILES
    hub.add("owner/other", FILES)
    hub.faults["revision"] = Fault(times=100, drop_after=10)
    with pytest.raises(InputError, match="the connection to .* broke .* resumes where it stopped"):
        local_directory("hf://owner/other")


def test_without_a_network(hub, cache, monkeypatch):
    monkeypatch.setattr(huggingface, "time", types.SimpleNamespace(sleep=lambda _: None))
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


def test_no_other_protocol_is_used_where_one_is_offered(hub):
    hub.offers_xet = True
    hub.add("owner/model", FILES)
    assert content(local_directory("hf://owner/model")) == FILES
    assert hub.sent["model.safetensors"] == len(WEIGHTS)


def test_rejects_a_download_without_disk_space(hub, monkeypatch):
    hub.add("owner/model", FILES)
    usage = type("Usage", (), {"free": len(WEIGHTS) - 1})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(InputError, match="262,143 bytes free, and model.safetensors .* 262,144"):
        local_directory("hf://owner/model")
    assert hub.asked("GET", "model.safetensors") == []


def test_a_full_disk(hub, tmp_path, monkeypatch):
    from tests.helpers import small_disk

    hub.add("owner/model", FILES | {"model.safetensors": bytes(2**21)})
    enough = type("Usage", (), {"free": 2**30})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: enough)
    with small_disk(tmp_path / "small"):
        point_at(hub.url, tmp_path / "small" / "cache", monkeypatch)
        with pytest.raises(InputError, match="cannot write to the cache .*HF_HOME"):
            local_directory("hf://owner/model")
