import json
import re
import shutil
import time
from pathlib import Path

import pytest

from keras_bert_impl.errors import InputError
from keras_bert_impl.hub import huggingface, local_directory
from tests.hub_server import Fault, HubServer, closed_port, git_sha1, sha256

WEIGHTS = bytes(range(256)) * 1024
FILES = {
    "config.json": b'{"model_type": "bert"}',
    "vocab.txt": b"[PAD]\n[UNK]\n",
    "tokenizer.json": b"{}",
    "model.safetensors": WEIGHTS,
}
# What repositories also have, and nobody here reads.
OTHERS = dict.fromkeys(
    ("tf_model.h5", "flax_model.msgpack", "onnx/model.onnx", "pytorch_model.bin", "README.md"),
    b"unread",
)
PRESET = {
    "config.json": b'{"registered_name": "keras_hub>BertBackbone"}',
    "metadata.json": b"{}",
    "tokenizer.json": b"{}",
    "model.weights.h5": WEIGHTS,
    "assets/tokenizer/vocabulary.txt": b"[PAD]\n",
}


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def point_at(url, cache, monkeypatch):
    """Sets what the library reads from the environment only when it is imported."""
    from huggingface_hub import constants, file_download

    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", url)
    for module in (constants, file_download):  # older versions have a copy of it
        monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    monkeypatch.setattr(huggingface, "_WAITS", (0, 0, 0))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")


@pytest.fixture
def hub(cache, monkeypatch):
    with HubServer() as server:
        point_at(server.url, cache, monkeypatch)
        yield server


def content(directory):
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def blobs(cache):
    return {path.name for path in (cache / "models--owner--model" / "blobs").iterdir()}


def test_what_a_model_needs_is_downloaded_and_no_more(hub, cache):
    commit = hub.add("owner/model", FILES | OTHERS)
    directory = local_directory("hf://owner/model")
    assert content(directory) == FILES
    assert directory == cache / "models--owner--model" / "snapshots" / commit
    assert hub.sent["model.safetensors"] == len(WEIGHTS)


def test_the_server_is_one_that_the_library_itself_can_use(hub):
    from huggingface_hub import snapshot_download

    hub.add("owner/model", FILES)
    assert content(Path(snapshot_download("owner/model"))) == FILES


def test_second_time_only_the_branch_is_asked_for_and_with_a_commit_nothing(hub):
    commit = hub.add("owner/model", FILES)
    first = local_directory("hf://owner/model")
    hub.requests.clear()
    assert local_directory("hf://owner/model") == first
    assert [(r.method, r.name) for r in hub.requests] == [("HEAD", "config.json")]
    hub.requests.clear()
    assert local_directory(f"hf://owner/model@{commit}") == first
    assert local_directory("hf://owner/model", revision=commit) == first
    assert hub.requests == []


def test_a_loaded_model_is_not_hashed_again(hub, monkeypatch):
    hub.add("owner/model", FILES)
    local_directory("hf://owner/model")
    monkeypatch.setattr(huggingface, "_checksum_of", None)
    local_directory("hf://owner/model")


def test_a_pin_stays_when_the_branch_moves_on(hub):
    old = hub.add("owner/model", FILES)
    local_directory("hf://owner/model")
    new = hub.add("owner/model", FILES | {"vocab.txt": b"new\n"})
    before = hub.sent["model.safetensors"]
    assert local_directory("hf://owner/model").name == new
    # The weights are the same, and are not sent a second time.
    assert hub.sent["model.safetensors"] == before
    assert content(local_directory(f"hf://owner/model@{old}")) == FILES


def test_branches_and_tags_with_slashes(hub):
    hub.add("owner/model", FILES | {"vocab.txt": b"other\n"}, branch="refs/pr/1")
    hub.add("owner/model", FILES)
    directory = local_directory("hf://owner/model@refs/pr/1")
    assert (directory / "vocab.txt").read_bytes() == b"other\n"


def test_a_hub_that_answers_a_pin_with_another_commit_is_refused(hub):
    pin = "0" * 40
    hub.branches["owner/model", pin] = hub.add("owner/model", FILES)
    with pytest.raises(InputError, match="answered with commit"):
        local_directory(f"hf://owner/model@{pin}")


def index(*shards):
    return json.dumps({"weight_map": {f"w{i}": shard for i, shard in enumerate(shards)}}).encode()


@pytest.mark.parametrize(
    "weights",
    [
        {
            "model.safetensors.index.json": index("a-1.safetensors", "a-2.safetensors"),
            "a-1.safetensors": b"1",
            "a-2.safetensors": b"2",
        },
        {"pytorch_model.bin": b"1"},
        {"pytorch_model.bin.index.json": index("b-1.bin", "b-1.bin"), "b-1.bin": b"1"},
    ],
)
def test_weights_in_shards_and_in_the_older_format(hub, weights):
    files = {"config.json": b"{}"} | weights
    hub.add("owner/model", files | {"model-1.onnx": b"unread"})
    assert content(local_directory("hf://owner/model")) == files


def test_keras_hub_preset(hub):
    hub.add("owner/model", PRESET | OTHERS)
    assert content(local_directory("hf://owner/model")) == PRESET


@pytest.mark.parametrize(
    "shard",
    [
        "../x.safetensors",
        "/etc/x.safetensors",
        "a\\x.safetensors",
        "a/x.safetensors",
        ".safetensors",
        "config.json",
        "",
        7,
        None,
        {},
    ],
)
def test_hostile_names_in_an_index_are_refused_before_the_download(hub, cache, shard):
    files = {"config.json": b"{}", "model.safetensors.index.json": index("a.safetensors", shard)}
    hub.add("owner/model", {"a.safetensors": WEIGHTS, str(shard): b"bad"} | files)
    with pytest.raises(InputError, match="model.safetensors.index.json names"):
        local_directory("hf://owner/model")
    assert hub.asked("GET", "a.safetensors") == []
    assert len(blobs(cache)) == 2


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"vocab.txt": b""}, "no config.json"),
        ({"config.json": b"{"}, "config.json is not valid JSON"),
        ({"config.json": b"[]"}, "one JSON object"),
        ({"config.json": b"[" * 100_000}, "config.json is not valid JSON"),
        ({"config.json": b" " * (2**24 + 1)}, "too large"),
        ({"config.json": b"{}", "tf_model.h5": b""}, "no weights that can be read"),
        ({"config.json": b"{}", "model.safetensors.index.json": b"{}"}, "weight_map"),
        (
            {"config.json": b"{}", "model.safetensors.index.json": index("a.safetensors")},
            "no a.safetensors",
        ),
    ],
)
def test_repositories_without_a_model(hub, files, message):
    hub.add("owner/model", files)
    with pytest.raises(InputError, match=message):
        local_directory("hf://owner/model")


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.txt", "config.json"])
def test_wrong_content_is_an_error_and_does_not_stay(hub, cache, name):
    commit = hub.add("owner/model", FILES)
    # What leads to the other files is asked for again by itself.
    times = 2 if name == "config.json" else 1
    hub.faults[name] = Fault(times, content=bytes(len(FILES[name])))
    with pytest.raises(InputError, match=f"{name} was downloaded with other content"):
        local_directory("hf://owner/model")
    assert not (cache / "models--owner--model/snapshots" / commit / name).is_symlink()
    checksum = sha256 if name == "model.safetensors" else git_sha1
    assert checksum(FILES[name]) not in blobs(cache)
    assert content(local_directory("hf://owner/model")) == FILES


def test_a_dropped_connection_goes_on_in_the_same_call(hub):
    hub.add("owner/model", FILES)
    hub.faults["model.safetensors"] = Fault(times=2, drop_after=100_500)
    assert content(local_directory("hf://owner/model")) == FILES
    first, second, third = hub.asked("GET", "model.safetensors")
    starts = [int(re.fullmatch(r"bytes=(\d+)-", r.range)[1]) for r in (second, third)]
    # What came since the last full block of 1000 bytes is lost with the connection.
    assert first.range is None and starts == [100_000, 200_000]
    assert hub.sent["model.safetensors"] == 2 * 100_500 + len(WEIGHTS) - 200_000


@pytest.mark.parametrize("kept", [0, 1, 1000, len(WEIGHTS) - 1, len(WEIGHTS), len(WEIGHTS) + 1])
def test_an_interrupted_download_goes_on_in_the_next_call(hub, cache, kept):
    hub.add("owner/model", FILES)
    partial = cache / "models--owner--model" / "blobs" / f"{sha256(WEIGHTS)}.incomplete"
    partial.parent.mkdir(parents=True)
    partial.write_bytes((WEIGHTS + b"x")[:kept])
    assert content(local_directory("hf://owner/model")) == FILES
    kept = 0 if kept > len(WEIGHTS) else kept
    assert hub.sent.get("model.safetensors", 0) == len(WEIGHTS) - kept
    assert not partial.exists()


def test_a_part_of_another_file_is_found_out(hub, cache):
    hub.add("owner/model", FILES)
    partial = cache / "models--owner--model" / "blobs" / f"{sha256(WEIGHTS)}.incomplete"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"wrong")
    with pytest.raises(InputError, match="model.safetensors was downloaded with other content"):
        local_directory("hf://owner/model")
    assert content(local_directory("hf://owner/model")) == FILES


def test_a_body_that_states_to_be_shorter(hub):
    hub.add("owner/model", FILES)
    hub.faults["model.safetensors"] = Fault(truncate_to=5000)
    assert content(local_directory("hf://owner/model")) == FILES
    assert [r.range for r in hub.asked("GET", "model.safetensors")] == [None, "bytes=5000-"]


def test_files_that_changed_in_the_cache_are_downloaded_anew(hub):
    hub.add("owner/model", FILES)
    directory = local_directory("hf://owner/model")
    (directory / "model.safetensors").resolve().write_bytes(b"short")
    (directory / "vocab.txt").unlink()
    assert content(local_directory("hf://owner/model")) == FILES


def test_files_that_another_program_put_into_the_cache_are_checked(hub):
    from huggingface_hub import hf_hub_download

    hub.add("owner/model", FILES)
    hub.faults["model.safetensors"] = Fault(content=bytes(len(WEIGHTS)))
    path = Path(hf_hub_download("owner/model", "model.safetensors"))
    assert path.read_bytes() != WEIGHTS  # the library compares the size alone
    assert content(local_directory("hf://owner/model")) == FILES


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hf://owner/nothing", "no repository owner/nothing at http://127.0.0.1:.*HF_TOKEN"),
        ("hf://owner/model@v9", "no such revision"),
        (f"hf://owner/model@{'1' * 40}", "no such revision"),
    ],
)
def test_what_is_not_there(hub, name, message):
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
def test_a_busy_hub_is_asked_again(hub, monkeypatch, status, name, method):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    hub.add("owner/model", FILES)
    hub.faults[name] = Fault(times=2, status=status, only=method)
    assert content(local_directory("hf://owner/model")) == FILES
    assert hub.faults[name].times == 0


@pytest.mark.parametrize("name", ["config.json", "revision", "model.safetensors"])
def test_a_hub_that_stays_busy(hub, monkeypatch, name):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    hub.add("owner/model", FILES)
    hub.faults[name] = Fault(times=1000, status=503, only=None)
    with pytest.raises(InputError, match="answered with status 503; try later"):
        local_directory("hf://owner/model")


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"{}", b'{"id": "a/b", "siblings": [{}]}'])
def test_a_server_that_is_no_hub(hub, answer):
    hub.add("owner/model", FILES)
    hub.faults["revision"] = Fault(content=answer)
    with pytest.raises(InputError, match="did not list the files .* HF_ENDPOINT"):
        local_directory("hf://owner/model")


def test_a_hub_that_states_no_checksums(hub, monkeypatch):
    hub.add("owner/model", FILES)
    without_checksum = staticmethod(lambda name, content: {"path": name, "oid": "x"})
    monkeypatch.setattr(HubServer, "entry", without_checksum)
    with pytest.raises(InputError, match="did not list the files .* HF_ENDPOINT"):
        local_directory("hf://owner/model")


def test_a_connection_that_breaks_while_the_files_are_listed(hub):
    hub.add("owner/model", FILES)
    hub.faults["revision"] = Fault(drop_after=10)
    assert content(local_directory("hf://owner/model")) == FILES
    hub.add("owner/other", FILES)
    hub.faults["revision"] = Fault(times=100, drop_after=10)
    with pytest.raises(InputError, match="the connection to .* broke .* goes on where it stopped"):
        local_directory("hf://owner/other")


def test_without_a_network(hub, cache, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
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
    with pytest.raises(InputError, match="hf://owner/half@main in the cache has no weights"):
        local_directory("hf://owner/half")
    assert hub.requests == []


def test_the_token_goes_to_the_hub_alone(hub):
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


def test_a_disk_without_room_is_found_out_before_the_download(hub, monkeypatch):
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
