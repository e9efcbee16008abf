"""Downloads from a hub: which files are fetched, and that they match what the hub declares."""

import json
from pathlib import Path

import pytest

from keras_bert_impl import TextClassifier
from keras_bert_impl.checkpoints.hub import local_directory
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.hub.hub_models import FILES, WEIGHTS, content
from tests.tasks.helpers import save_base

# Other files that repositories contain and this package never reads.
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


def blobs(cache):
    return {path.name for path in (cache / "models--owner--model" / "blobs").iterdir()}


def test_downloads_only_the_files_of_a_model(hub, cache):
    commit = hub.add("owner/model", FILES | OTHERS)
    directory = local_directory("hf://owner/model")
    assert content(directory) == FILES
    assert directory == cache / "models--owner--model" / "snapshots" / commit
    assert hub.sent["model.safetensors"] == len(WEIGHTS)


@pytest.mark.parametrize("name", ["tf_model.h5", "flax_model.msgpack"])
@pytest.mark.parametrize("is_sharded", [False, True])
def test_downloads_tensorflow_and_flax_weights_if_there_are_no_others(hub, name, is_sharded):
    stem, suffix = name.split(".")
    shard = f"{stem}-00001-of-00001.{suffix}"
    index = json.dumps({"weight_map": {"a": shard}}).encode()
    weights = {f"{name}.index.json": index, shard: WEIGHTS} if is_sharded else {name: WEIGHTS}
    files = {name: data for name, data in FILES.items() if data is not WEIGHTS} | weights
    hub.add("owner/model", files | {"onnx/model.onnx": b"unread"})
    assert content(local_directory("hf://owner/model")) == files


def test_downloads_sentence_transformers_modules(hub):
    modules = [{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"}]
    files = FILES | {
        "modules.json": json.dumps(modules).encode(),
        "sentence_bert_config.json": b"{}",
        "1_Pooling/config.json": b"{}",
    }
    hub.add("owner/model", files | OTHERS)
    assert content(local_directory("hf://owner/model")) == files


def test_old_models_of_sentences_have_the_encoder_in_a_folder(hub):
    modules = [{"path": "0_Transformer"}, {"path": "1_Pooling"}, {"path": "2_Dense"}]
    files = {f"0_Transformer/{name}": content for name, content in FILES.items()} | {
        "modules.json": json.dumps(modules).encode(),
        "0_Transformer/sentence_roberta_config.json": b"{}",
        "1_Pooling/config.json": b"{}",
        "2_Dense/config.json": b"{}",
        "2_Dense/pytorch_model.bin": b"weights",
    }
    version = {"config.json": b'{"__version__": "0.3.8"}'}  # version of the library
    hub.add("owner/model", files | OTHERS | version)
    directory = local_directory("hf://owner/model")
    contents = [path for path in directory.rglob("*") if path.is_file()]
    contents = {str(path.relative_to(directory)): path.read_bytes() for path in contents}
    assert {name: contents[name] for name in files} == files and set(contents) <= {*files, *version}


@pytest.mark.parametrize("folder", ["../other", "/etc"])
def test_rejects_modules_outside_the_repository(hub, folder):
    hub.add("owner/model", FILES | {"modules.json": json.dumps([{"path": folder}]).encode()})
    with pytest.raises(InputError, match="modules.json lists .*, which is not a plain name"):
        local_directory("hf://owner/model")


def test_the_server_is_one_that_the_library_itself_can_use(hub):
    from huggingface_hub import snapshot_download

    hub.add("owner/model", FILES)
    assert content(Path(snapshot_download("owner/model"))) == FILES


def test_second_load_requests_only_the_branch(hub):
    commit = hub.add("owner/model", FILES)
    first = local_directory("hf://owner/model")
    hub.requests.clear()
    assert local_directory("hf://owner/model") == first
    assert local_directory(f"hf://owner/model@{commit}") == first
    assert local_directory("hf://owner/model", revision=commit) == first
    assert [(r.method, r.name) for r in hub.requests] == [("GET", "revision")] * 3


def test_pinned_commit_stays_when_the_branch_moves(hub):
    old = hub.add("owner/model", FILES)
    local_directory("hf://owner/model")
    new = hub.add("owner/model", FILES | {"vocab.txt": b"new\n"})
    before = hub.sent["model.safetensors"]
    assert local_directory("hf://owner/model").name == new
    # The weights are unchanged and not sent again.
    assert hub.sent["model.safetensors"] == before
    assert content(local_directory(f"hf://owner/model@{old}")) == FILES


def test_branches_and_tags_with_slashes(hub):
    hub.add("owner/model", FILES | {"vocab.txt": b"other\n"}, branch="refs/pr/1")
    hub.add("owner/model", FILES)
    directory = local_directory("hf://owner/model@refs/pr/1")
    assert (directory / "vocab.txt").read_bytes() == b"other\n"


def test_rejects_another_commit_than_the_pinned_one(hub):
    pin = "0" * 40
    hub.branches["owner/model", pin] = hub.add("owner/model", FILES)
    with pytest.raises(InputError, match="responded with commit"):
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
def test_rejects_hostile_names_in_an_index(hub, cache, shard):
    files = {"config.json": b"{}", "model.safetensors.index.json": index("a.safetensors", shard)}
    hub.add("owner/model", {"a.safetensors": WEIGHTS, str(shard): b"bad"} | files)
    with pytest.raises(InputError, match="model.safetensors.index.json lists"):
        local_directory("hf://owner/model")
    assert hub.asked("GET", "a.safetensors") == []
    assert len(blobs(cache)) == 2


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"vocab.txt": b""}, "no config.json"),
        ({"config.json": b"{"}, "config.json, line 1, is not valid JSON"),
        ({"config.json": b"[]"}, "one JSON object"),
        ({"config.json": b"[" * 100_000}, "config.json is nested too deeply"),
        ({"config.json": b" " * (2**22 + 1)}, "larger than 4 MiB"),
        ({"config.json": b"{}", "model.onnx": b""}, "no supported weights"),
        ({"config.json": b"{}", "model.safetensors.index.json": b"{}"}, "weight_map"),
        (
            {"config.json": b"{}", "model.safetensors.index.json": index("a.safetensors")},
            "no a.safetensors",
        ),
    ],
)
def test_rejects_repositories_without_a_model(hub, files, message):
    hub.add("owner/model", files)
    with pytest.raises(InputError, match=message):
        local_directory("hf://owner/model")


def test_owner_and_name_is_a_repository(hub, tmp_path, monkeypatch):
    hub.add("owner/model", FILES)
    monkeypatch.chdir(tmp_path)
    assert content(local_directory("owner/model")) == FILES
    with pytest.raises(InputError, match="There is no directory 'run/model', and .*no repository"):
        local_directory("run/model")
    (tmp_path / "run" / "model").mkdir(parents=True)
    assert local_directory("run/model") == Path("run/model")


@pytest.mark.parametrize(
    ("config", "family"),
    [
        ({"model_type": "mpnet"}, "'mpnet'.*Take 'roberta-base', or 'all-MiniLM-L6-v2'"),
        ({"registered_name": "keras_hub>DebertaV3Backbone"}, "'deberta-v3'.*Take 'roberta-base'"),
    ],
)
def test_a_family_that_is_not_supported_is_named_before_its_weights(hub, config, family):
    files = FILES | PRESET | {"config.json": json.dumps(config).encode()}
    hub.add("owner/model", files)
    with pytest.raises(InputError, match=family):
        local_directory("owner/model")
    requested_names = {request.name for request in hub.requests if request.method == "GET"}
    assert requested_names == {"revision", "config.json"}


def test_warnings_name_the_model_as_the_user_did(hub, tmp_path, caplog):
    base = save_base(tmp_path / "base")
    hub.add("owner/model", {path.name: path.read_bytes() for path in base.iterdir()})
    TextClassifier.from_pretrained("owner/model", num_classes=2)
    assert "owner/model: newly initialized; train before use: classifier/dense" in caplog.text
