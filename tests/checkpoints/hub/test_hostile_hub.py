"""A hostile hub that tries to write outside the cache."""

import contextlib
import os

import pytest

from keras_bert_impl.checkpoints.hub import local_directory
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.hub.hub_models import FILES, content
from tests.hub_server import Fault

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
    with contextlib.suppress(InputError):
        assert content(local_directory(NAME)) == FILES
    assert outside(tmp_path) == set()


@pytest.mark.parametrize(
    "commit", ["../../../victim", "/tmp/x", "a/b", "A" * 40, "0" * 39, "0" * 40 + "/..", "", "main"]
)
def test_rejects_an_invalid_commit(hub, tmp_path, victim, commit):
    hub.add("owner/model", FILES)
    hub.faults["config.json"] = Fault(times=100, headers={"X-Repo-Commit": commit}, only="HEAD")
    with pytest.raises(InputError, match="did not send a valid checksum: .*Check HF_ENDPOINT"):
        local_directory(NAME)
    assert outside(tmp_path) == set()


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
