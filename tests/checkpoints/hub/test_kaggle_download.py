import os
import signal
import time

import pytest

from keras_bert_impl.checkpoints.hub import local_directory
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.hub.hub_models import content
from tests.hub_server import Fault, KaggleServer, closed_port, start_client

WEIGHTS = bytes(range(256)) * 2**14  # 4 MiB: the library writes chunks of 1 MiB
PRESET = {
    "config.json": b'{"registered_name": "keras_hub>BertBackbone"}',
    "metadata.json": b"{}",
    "tokenizer.json": b"{}",
    "model.weights.h5": WEIGHTS,
    "assets/tokenizer/vocabulary.txt": b"[PAD]\n",
}
MODEL = "kaggle://keras/bert/keras/tiny"


def environment(url, cache):
    """Points kagglehub to this server: it has a `localhost` host, reached through a proxy."""
    return {
        "KAGGLE_API_ENVIRONMENT": "LOCALHOST",
        "http_proxy": url,
        "NO_PROXY": "",
        "no_proxy": "",
        "KAGGLEHUB_CACHE": str(cache),
        "KAGGLE_CONFIG_DIR": str(cache),
        "KAGGLE_API_TOKEN": "secret",
    }


@pytest.fixture
def kaggle(cache, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    # The real one walks the whole stack, which takes a second per request in a test.
    monkeypatch.setattr("kagglehub.clients.get_user_agent", lambda: "test")
    with KaggleServer() as server:
        for name, value in environment(server.url, cache).items():
            monkeypatch.setenv(name, value)
        server.models["keras/bert/tiny"] = {1: PRESET}
        yield server


def test_downloads_only_the_files_of_a_preset(kaggle, cache):
    unrelated_files = {"README.md": b"", "../../x": b"", "a.tar.gz": b""}
    kaggle.models["keras/bert/tiny"][1] = PRESET | unrelated_files
    directory = local_directory(MODEL)
    assert directory == cache / "models/keras/bert/keras/tiny/1"
    assert content(directory) == PRESET


def test_a_preset_by_its_name_has_the_version_of_keras_hub(kaggle):
    kaggle.models["keras/bert/bert_tiny_en_uncased"] = {3: PRESET, 4: {}}
    assert content(local_directory("bert_tiny_en_uncased")) == PRESET


def test_second_load_requests_only_the_version(kaggle):
    first = local_directory(MODEL)
    kaggle.requests.clear()
    assert local_directory(f"{MODEL}/1") == first
    assert kaggle.requests == []
    assert local_directory(MODEL) == first
    assert kaggle.asked("GET", "model.weights.h5") == []


def test_a_version_stays_when_there_is_a_newer_one(kaggle):
    kaggle.models["keras/bert/tiny"][2] = PRESET | {"metadata.json": b"[2]"}
    assert content(local_directory(f"{MODEL}/1")) == PRESET
    assert content(local_directory(MODEL))["metadata.json"] == b"[2]"


def test_weights_in_shards(kaggle):
    files = {name: PRESET[name] for name in ("config.json", "metadata.json")} | {
        "model.weights.json": b'{"weight_map": {"/a": ["m_0.weights.h5", "m_1.weights.h5"]}}',
        "m_0.weights.h5": b"0",
        "m_1.weights.h5": b"1",
    }
    kaggle.models["keras/bert/tiny"][1] = files
    assert content(local_directory(MODEL)) == files


@pytest.mark.parametrize("shard", ["../x.h5", "/x.h5", "a/x.h5", "task.json"])
def test_rejects_hostile_names_in_an_index(kaggle, shard):
    index = f'{{"weight_map": {{"/a": ["{shard}"]}}}}'.encode()
    files = {"config.json": PRESET["config.json"], "model.weights.json": index, shard: b"bad"}
    kaggle.models["keras/bert/tiny"][1] = files
    with pytest.raises(InputError, match="model.weights.json lists"):
        local_directory(MODEL)


def test_dropped_connection_resumes_in_the_next_call(kaggle):
    kaggle.faults["model.weights.h5"] = Fault(drop_after=3 * 2**20 + 5)
    with pytest.raises(InputError, match="kaggle://keras/bert/keras/tiny: the download failed"):
        local_directory(MODEL)
    assert content(local_directory(MODEL)) == PRESET
    ranges = [request.range for request in kaggle.asked("GET", "model.weights.h5")]
    assert ranges[0] is None and ranges[-1] == f"bytes={3 * 2**20}-"


def test_rejects_and_removes_wrong_content(kaggle):
    kaggle.faults["model.weights.h5"] = Fault(content=bytes(len(WEIGHTS)))
    with pytest.raises(InputError, match="keras/tiny: the download failed .*MD5"):
        local_directory(MODEL)
    assert content(local_directory(MODEL)) == PRESET


def test_downloads_missing_files_again(kaggle):
    (local_directory(f"{MODEL}/1") / "model.weights.h5").unlink()
    assert content(local_directory(f"{MODEL}/1")) == PRESET


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kaggle://keras/bert/keras/nothing", "Kaggle has no such model"),
        (f"{MODEL}/9", "Kaggle has no such model"),
        ("kaggle://keras/bert/nonsense/tiny", "nonsense"),
    ],
)
def test_rejects_missing_models(kaggle, name, message):
    with pytest.raises(InputError, match=message):
        local_directory(name)


def test_rejects_a_preset_without_weights(kaggle):
    kaggle.models["keras/bert/tiny"][1] = {"config.json": PRESET["config.json"]}
    with pytest.raises(InputError, match="no supported weights"):
        local_directory(MODEL)


@pytest.mark.parametrize("name", ["version", "model.weights.h5"])
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, "Accept the model's terms at https://www.kaggle.com/models/keras/bert, then log in"),
        (503, "the download failed .*503"),
    ],
)
def test_refusals(kaggle, name, status, message):
    kaggle.faults[name] = Fault(status=status, only=None)
    with pytest.raises(InputError, match=message):
        local_directory(MODEL)


def test_without_a_network(kaggle, monkeypatch):
    kaggle.models["keras/bert/tiny"][2] = PRESET
    for version in (1, 2):
        directory = local_directory(f"{MODEL}/{version}")
    with closed_port() as url:
        monkeypatch.setenv("http_proxy", url)
        assert local_directory(MODEL) == directory
        with pytest.raises(
            InputError, match="kaggle://keras/bert/keras/other: the download failed"
        ):
            local_directory("kaggle://keras/bert/keras/other")


def test_offline(kaggle, monkeypatch):
    from huggingface_hub import constants

    directory = local_directory(MODEL)
    kaggle.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert local_directory(MODEL) == directory
    assert local_directory(f"{MODEL}/1") == directory
    for name in (f"{MODEL}/2", "kaggle://keras/bert/keras/other"):
        with pytest.raises(InputError, match="not in the cache, and HF_HUB_OFFLINE is set"):
            local_directory(name)
    assert kaggle.requests == []


def test_a_full_disk(kaggle, tmp_path, monkeypatch):
    from tests.helpers import small_disk

    with small_disk(tmp_path / "small"):
        monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path / "small" / "cache"))
        with pytest.raises(InputError, match="cannot write to the cache .*KAGGLEHUB_CACHE"):
            local_directory(MODEL)


def test_kagglehub_finds_the_downloads(kaggle):
    import kagglehub

    directory = local_directory(f"{MODEL}/1")
    kaggle.requests.clear()
    for name in PRESET:
        path = kagglehub.model_download("keras/bert/keras/tiny/1", path=name)
        assert os.path.samefile(path, directory / name)
    assert kaggle.requests == []


def client(kaggle, cache):
    return start_client(f"local_directory('{MODEL}')", cache, environment(kaggle.url, cache))


def finished(process):
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


def test_killed_process_keeps_its_partial_download(kaggle, cache):
    kaggle.faults["model.weights.h5"] = Fault(drop_after=3 * 2**20 + 5, stalls=True)
    partial = cache / "models/keras/bert/keras/tiny/1/model.weights.h5"
    process = client(kaggle, cache)
    while not partial.exists() or partial.stat().st_size < 3 * 2**20:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    partial_size = partial.stat().st_size
    assert content(local_directory(MODEL)) == PRESET
    assert kaggle.asked("GET", "model.weights.h5")[-1].range == f"bytes={partial_size}-"


def test_two_processes_at_the_same_time(kaggle, cache):
    kaggle.faults["model.weights.h5"] = Fault(seconds=1.0)
    processes = [client(kaggle, cache) for _ in range(2)]
    for process in processes:
        finished(process)
    assert content(cache / "models/keras/bert/keras/tiny/1") == PRESET
    assert len(kaggle.asked("GET", "model.weights.h5")) == 1
