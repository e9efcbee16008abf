import ast
import importlib.util
from pathlib import Path

import pytest

from keras_bert_impl import EncoderConfig
from keras_bert_impl.checkpoints import hub
from keras_bert_impl.checkpoints.hub import downloads, local_directory
from keras_bert_impl.checkpoints.hub.presets import PRESETS
from keras_bert_impl.checkpoints.published import MODELS
from keras_bert_impl.utils.errors import InputError


@pytest.fixture(autouse=True)
def asked(monkeypatch):
    """Records what would have been downloaded."""
    requests = []
    for name in ("from_hugging_face", "from_kaggle"):
        monkeypatch.setattr(downloads, name, lambda *arguments: requests.append(arguments))
    return requests


def test_directories_are_returned_as_they_are(tmp_path, monkeypatch, asked):
    (tmp_path / "model").mkdir()
    (tmp_path / "bert-base-uncased").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert local_directory(tmp_path / "model") == tmp_path / "model"
    assert local_directory(str(tmp_path / "model")) == tmp_path / "model"
    assert local_directory("~/model") == tmp_path / "model"
    assert local_directory("./model") == Path("model")
    assert local_directory("model") == Path("model")
    # A local path takes precedence over a remote model of the same name.
    assert local_directory("bert-base-uncased") == Path("bert-base-uncased")
    assert asked == []


def test_a_run_directory_stands_for_its_model(tmp_path, monkeypatch, asked):
    (tmp_path / "run" / "model").mkdir(parents=True)
    assert local_directory(tmp_path / "run") == tmp_path / "run"  # not a model yet
    (tmp_path / "run" / "model" / "config.json").write_text("{}")
    assert local_directory(tmp_path / "run") == tmp_path / "run" / "model"
    monkeypatch.chdir(tmp_path)
    assert local_directory("run") == Path("run/model")
    (tmp_path / "run" / "config.json").write_text("{}")  # a model that has a folder of that name
    assert local_directory("run") == Path("run")
    assert asked == []


@pytest.mark.parametrize(
    "path", ["./nothing", "/nothing", "~/nothing", Path("nothing"), Path("bert-base-uncased")]
)
def test_directories_that_do_not_exist(path, tmp_path, monkeypatch, asked):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InputError, match=f"{str(path).lstrip('~')}' does not exist"):
        local_directory(path)
    assert asked == []


def test_an_existing_directory_precedes_a_repository(tmp_path, monkeypatch, asked):
    (tmp_path / "runs" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert local_directory("runs/model") == Path("runs/model")
    assert asked == []


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_published_model_has_two_names(model, asked):
    for name in (model.hub, model.hub.partition("/")[2], f"hf://{model.hub}"):
        local_directory(name)
        assert asked.pop() == (model.hub, "main")
    assert EncoderConfig.named(model.hub) == EncoderConfig(**model.fields)


def test_rejects_a_file(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    for path in (tmp_path / "config.json", str(tmp_path / "config.json")):
        with pytest.raises(InputError, match="is a file; pass the directory that contains it"):
            local_directory(path)


def test_rejects_a_revision_of_a_directory(tmp_path):
    with pytest.raises(InputError, match="is a directory. Omit revision"):
        local_directory(tmp_path, revision="main")


@pytest.mark.parametrize(
    ("name", "revision", "arguments"),
    [
        ("hf://google/electra-small-generator", None, ("google/electra-small-generator", "main")),
        ("hf://a/b@v1.0", None, ("a/b", "v1.0")),
        ("hf://a/b", "refs/pr/1", ("a/b", "refs/pr/1")),
        ("hf://a/b@main", "main", ("a/b", "main")),
        ("hf://A_1/b.c-d", None, ("A_1/b.c-d", "main")),
        ("bert-base-uncased", None, ("google-bert/bert-base-uncased", "main")),
        ("roberta-base", "v2", ("FacebookAI/roberta-base", "v2")),
        ("kaggle://keras/bert/keras/bert_base_zh", None, ("keras/bert/keras/bert_base_zh", None)),
        ("kaggle://a/b/c/d/12", None, ("a/b/c/d", "12")),
        ("google-bert/bert-base-uncased", None, ("google-bert/bert-base-uncased", "main")),
        ("a/b", None, ("a/b", "main")),
        ("a/b@v1.0", None, ("a/b", "v1.0")),
        ("bert_tiny_en_uncased", None, ("keras/bert/keras/bert_tiny_en_uncased", "3")),
    ],
)
def test_names(name, revision, arguments, asked):
    local_directory(name, revision)
    assert asked == [arguments]


@pytest.mark.parametrize(
    "name",
    [
        "hf://",
        "hf://bert-base-uncased",
        "hf://a/b/c",
        "hf://../b",
        "hf://a/..",
        "hf://a/b..c",
        "hf://a/b--c",
        "hf://a/.b",
        "hf://a/b\\c",
        "hf://a/b c",
        "hf://a/b\0",
        "hf://a/b\n",
        "hf://a/b?x=1",
        "hf://a/b%2e%2e",
        "hf:///etc/passwd",
        f"hf://a/{'b' * 97}",
        "hf://user@host/b",
        "hf://a/é",
    ],
)
def test_hostile_repositories(name, asked):
    with pytest.raises(InputError, match="must have the form hf://owner/name"):
        local_directory(name)
    assert asked == []


@pytest.mark.parametrize(
    "revision",
    [
        *("", "..", "../main", "a/../b", "/main", "main/", "a//b", "-x", ".x", "a b", "a\\b"),
        *("a\n", "a@b", "v" * 201, 7),
    ],
)
def test_hostile_revisions(revision, asked):
    with pytest.raises(InputError, match="revision must be a branch, tag or commit"):
        local_directory("hf://a/b", revision)
    with pytest.raises(InputError):
        local_directory(f"hf://a/b@{revision}" if isinstance(revision, str) else "hf://a/b@")
    assert asked == []


def test_two_revisions():
    with pytest.raises(InputError, match="and revision='v2' name different revisions"):
        local_directory("hf://a/b@v1", "v2")


@pytest.mark.parametrize(
    "name",
    [
        "kaggle://",
        "kaggle://keras/bert",
        "kaggle://keras/bert/keras",
        "kaggle://keras/bert/keras/x/newest",
        "kaggle://keras/bert/keras/x/0",
        "kaggle://keras/bert/keras/x/1/2",
        "kaggle://keras/bert/keras/..",
        "kaggle://../../../x",
        "kaggle://a/b/c/d\\e",
        "kaggle:///a/b/c",
        "kaggle://a/b/c/d\n",
    ],
)
def test_hostile_handles(name, asked):
    with pytest.raises(InputError, match="must have the form kaggle://owner/model"):
        local_directory(name)
    assert asked == []


def test_rejects_a_revision_of_a_kaggle_handle():
    with pytest.raises(InputError, match="'kaggle://a/b/c/d/2'"):
        local_directory("kaggle://a/b/c/d", revision="2")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bert-base-uncase", "named 'bert-base-uncase'. Did you mean 'bert-base-uncased'"),
        ("bert_tiny_en", "'bert_tiny_en_uncased'"),
        ("deberta-v3-base", "type 'deberta-v3' are not supported. Take 'roberta-base'"),
        (
            "all-mpnet-base-v2",
            "type 'mpnet' are not supported. Take 'roberta-base', or 'all-MiniLM",
        ),
        ("a/b/c", "Pass a directory, owner/name"),
        ("https://hub/x", "Pass a directory, owner/name"),
        ("s3://bucket/model", "Pass a directory"),
        ("x" * 5000, "Pass a directory"),
        ("a\0b", "Pass a directory"),
        ("", "must be a str"),
        (None, "must be a str"),
        (7, "must be a str"),
        (b"model", "must be a str"),
    ],
)
def test_unknown_names(name, message, asked):
    with pytest.raises(InputError, match=message):
        local_directory(name)
    assert asked == []


def test_presets_equal_keras_hub():
    # Parsed, not imported: importing takes longer than all other tests here.
    spec = importlib.util.find_spec("keras_hub")
    if spec is None:
        pytest.skip("KerasHub is not installed")
    models = Path(spec.origin).parent / "src" / "models"
    handles = {}
    for model in {handle.split("/")[1] for handle in PRESETS.values()}:
        tree = ast.parse((models / model / f"{model}_presets.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Dict):
                entries = dict(zip((getattr(k, "value", None) for k in node.keys), node.values))
                if "kaggle_handle" in entries:
                    handle = entries["kaggle_handle"].value.removeprefix("kaggle://")
                    handles[handle.split("/")[3]] = handle
    assert len(PRESETS) == 27
    assert {name: handles[name] for name in PRESETS} == PRESETS


def test_the_public_name_is_documented():
    assert "hf://owner/name[@revision]" in hub.local_directory.__doc__


def test_writes_nothing_into_a_directory_that_claims_an_interrupted_replacement(tmp_path):
    model = tmp_path / "model"
    (model / ".replacing").mkdir(parents=True)
    (model / ".replacing" / ".owner").write_text(".model.0123abcd")
    (model / ".replacing" / "weights").write_text("new")
    (model / ".model.0123abcd.writing").symlink_to(tmp_path / "created")
    (model / "config.json").write_text("old")
    before = sorted(tmp_path.rglob("*"))
    local_directory(model)
    assert sorted(tmp_path.rglob("*")) == before
    assert (model / "config.json").read_text() == "old"
