"""Datasets of strangers: no door imports the module that a file names."""

import json
import sys

import pytest

from keras_bert_impl.cli.main import main
from keras_bert_impl.pretraining import read_documents
from keras_bert_impl.tasks import read_tfds
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.tfds import open_dataset


def text(module):
    return {"pythonClassName": f"{module}.Text", "text": {}}


def features(inner):
    return {
        "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
        "featuresDict": {"features": {"text": inner}},
    }


LEGACY = {"type": "evil_module.Text", "content": {}}
FILES = {
    "nested": features(text("evil_module")),
    "outermost": text("evil_module"),
    "legacy": LEGACY,
    "no string": features({"pythonClassName": ["evil_module.Text"]}),
}


@pytest.fixture(params=FILES)
def evil(request, tmp_path, monkeypatch):
    """A `data_dir` with a prepared dataset; sees to it that nothing of it runs."""
    folder = tmp_path / "data" / "evil" / "1.0.0"
    folder.mkdir(parents=True)
    (tmp_path / "evil_module.py").write_text("open('RAN', 'w').close()\n")
    split = {"name": "train", "numBytes": "10", "shardLengths": ["1"]}
    split["filepathTemplate"] = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
    info = {"name": "evil", "version": "1.0.0", "fileFormat": "tfrecord", "splits": [split]}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    (folder / "features.json").write_text(json.dumps(FILES[request.param]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    assert "evil_module" not in sys.modules
    assert not (tmp_path / "RAN").exists()


DOORS = {
    "name": lambda data: read_tfds("evil", "train", "text", data_dir=data),
    "version": lambda data: read_tfds("evil:1.0.0", "train", "text", data_dir=data),
    "argument in the name": lambda data: read_tfds(f"evil/data_dir={data}", "train", "text"),
    "directory": lambda data: read_tfds(data / "evil" / "1.0.0", "train", "text"),
    "corpus": lambda data: list(read_documents(f"tfds://evil:train?data_dir={data}")),
    "corpus, version": lambda data: list(
        read_documents(f"tfds://evil:1.0.0:train?data_dir={data}")
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_no_door_imports_a_module_that_a_file_names(evil, door):
    with pytest.raises(InputError):
        DOORS[door](evil.parents[1])


def test_the_command_of_a_corpus_does_not_either(evil, capsys):
    data = evil.parents[1]
    assert main(["vocab", f"tfds://evil:train?data_dir={data}", "--size", "50", "--out", "v"]) == 2
    assert "evil" in capsys.readouterr().err


def test_names_the_class(tmp_path):
    (tmp_path / "dataset_info.json").write_text('{"name": "evil", "version": "1.0.0"}')
    (tmp_path / "features.json").write_text(json.dumps(text("antigravity")))
    with pytest.raises(InputError, match="'antigravity.Text' in features.json is not part of"):
        open_dataset(tmp_path, "train")


@pytest.mark.parametrize("content", ["", "[]", "{}", "[" * 100_000, '{"pythonClassName": 1}'])
@pytest.mark.parametrize("file", ["features.json", "dataset_info.json"])
def test_damaged_files_are_bad_input(tmp_path, file, content):
    (tmp_path / "dataset_info.json").write_text('{"name": "evil", "version": "1.0.0"}')
    (tmp_path / "features.json").write_text(json.dumps(features(text("tensorflow_datasets.x"))))
    (tmp_path / file).write_text(content)
    with pytest.raises(InputError):
        open_dataset(tmp_path, "train")
