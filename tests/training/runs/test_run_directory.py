"""Run directories: settings, resuming, and other files in them."""

import dataclasses
import json
import subprocess
import sys

import keras
import pytest

from keras_bert_impl.training.runs.run_directory import (
    RunDirectory,
    environment,
    remove_checkpoints,
    to_yaml,
)
from keras_bert_impl.utils.errors import InputError


@dataclasses.dataclass
class Settings:
    rate: float = 0.5
    names: tuple = ("a", "b")


DATA = {
    "records": {"source": "a", "length": 128, "sha256": "0" * 64},
    "model": {"source": "b", "sha256": "1" * 64},
}


def begin(path, made_of=None):
    """A run that has a checkpoint."""
    run = RunDirectory(path, Settings(), made_of=made_of)
    (run.checkpoints / "ckpt-1.index").write_text("saved")
    return run


def test_settings_are_kept_and_compared(tmp_path):
    begin(tmp_path / "run")
    assert (tmp_path / "run" / "recipe.yaml").read_text() == "rate: 0.5\nnames:\n- a\n- b\n"
    RunDirectory(tmp_path / "run", Settings())
    with pytest.raises(InputError, match=r"other settings \(rate was 0.5\)"):
        RunDirectory(tmp_path / "run", Settings(rate=0.25))
    RunDirectory(tmp_path / "run", Settings(rate=0.25), may_change=["rate"])
    assert (tmp_path / "run" / "recipe.yaml").read_text().startswith("rate: 0.25")
    RunDirectory(tmp_path / "run", Settings(), may_change=["rate"])
    with pytest.raises(InputError, match="contains a run"):
        RunDirectory(tmp_path / "run", Settings(), resume=False)


def test_run_without_output_accepts_other_settings(tmp_path):
    run = RunDirectory(tmp_path, Settings())
    # The files of a run that failed in its first step.
    run.metrics.touch()
    run.tensorboard.mkdir()
    (run.tensorboard / "events").write_text("start")
    RunDirectory(tmp_path, Settings(rate=0.25), resume=False)
    assert (tmp_path / "recipe.yaml").read_text().startswith("rate: 0.25")
    run.metrics.write_text("{}")
    with pytest.raises(InputError, match=r"other settings \(rate was 0.25\)"):
        RunDirectory(tmp_path, Settings())


def test_other_files_in_the_directory_are_not_a_run(tmp_path):
    # `finetune --adapt` writes its adaptation there before the run starts.
    manifest = tmp_path / "adapt" / "records" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{}")
    RunDirectory(tmp_path, Settings(), resume=False)
    assert (tmp_path / "recipe.yaml").is_file()


def test_rejects_another_process(tmp_path):
    code = (
        "import filelock, sys; lock = filelock.FileLock(sys.argv[1]); lock.acquire()\n"
        "print(flush=True); sys.stdin.read()"
    )
    RunDirectory(tmp_path, Settings())
    command = [sys.executable, "-c", code, str(tmp_path / "checkpoints" / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        with pytest.raises(InputError, match=f"another process is training in {tmp_path}"):
            RunDirectory(tmp_path, Settings())
        process.kill()
    RunDirectory(tmp_path, Settings())


def test_failed_run_can_be_repeated_with_its_traceback_alive(tmp_path):
    interrupted = RunDirectory(tmp_path, Settings())
    RunDirectory(tmp_path, Settings())
    del interrupted


def test_failed_run_without_output_allows_another(tmp_path):
    run = RunDirectory(tmp_path, Settings(), made_of=DATA)
    # The files of a run that failed in its first step.
    run.metrics.touch()
    run.tensorboard.mkdir()
    (run.tensorboard / "events").write_text("start")
    (tmp_path / ".recipe.yaml.00000000.aside").mkdir()
    (tmp_path / ".recipe.yaml.00000000.aside" / "recipe.yaml").write_text("killed")
    (run.checkpoints / "thesis.tex").write_text("mine")
    RunDirectory(tmp_path, Settings(rate=0.25), resume=False, made_of={})
    assert (tmp_path / "recipe.yaml").read_text().startswith("rate: 0.25")
    data = json.loads((tmp_path / "data.json").read_text())
    assert data == {"environment": environment(), "changed_settings": {"rate": 0.25}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"records": {"length": 64}}, "on other records than a .length was 128 and is 64"),
        ({"records": {"sha256": "2" * 64}}, "on other records than a .sha256 was '000"),
        ({"model": {"sha256": "2" * 64}}, "on other model than b"),
        (
            {"teacher": {"source": "c", "sha256": "3" * 64}},
            "on other teacher than c .sha256 was None",
        ),
    ],
)
def test_rejects_other_data_on_resume(tmp_path, change, message):
    begin(tmp_path, DATA)
    moved = {name: content | {"source": "elsewhere"} for name, content in DATA.items()}
    RunDirectory(tmp_path, Settings(), made_of=moved)
    RunDirectory(tmp_path, Settings(), made_of=DATA)
    now = DATA | {name: DATA.get(name, {}) | content for name, content in change.items()}
    with pytest.raises(InputError, match=message):
        RunDirectory(tmp_path, Settings(), made_of=now)
    RunDirectory(tmp_path, Settings(), made_of=DATA)


@pytest.mark.parametrize("name", ["recipe.yaml", "data.json"])
def test_rejects_a_run_without_its_description(tmp_path, name):
    begin(tmp_path, DATA)
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match=f"{name} is missing. Restore {name}, or choose another"):
        RunDirectory(tmp_path, Settings(rate=0.25 if name == "recipe.yaml" else 0.5), made_of=DATA)


def test_a_run_of_another_backend_is_resumed_with_its_backend(tmp_path, monkeypatch):
    begin(tmp_path, DATA)
    backend = keras.backend.backend()
    monkeypatch.setattr(keras.backend, "backend", lambda: "numpy")
    for _ in range(2):  # The message of the first call does not become the state of the run.
        with pytest.raises(InputError, match=f"begun with .* set KERAS_BACKEND={backend}"):
            RunDirectory(tmp_path, Settings(), made_of=DATA)
    (tmp_path / "model").mkdir()
    (tmp_path / "scores.json").write_text("{}")
    RunDirectory(tmp_path, Settings(), made_of=DATA)  # A finished run is only read.
    monkeypatch.undo()
    RunDirectory(tmp_path, Settings(), made_of=DATA)
    assert json.loads((tmp_path / "data.json").read_text())["environment"] == environment()


def test_yaml_reads_back(tmp_path):
    import yaml

    assert yaml.safe_load(to_yaml(Settings(rate=1e-4))) == {"rate": 1e-4, "names": ["a", "b"]}


def test_removes_checkpoints_by_name_only(tmp_path):
    """The folder may be a link to another disk, with other files and other runs."""
    disk = tmp_path / "disk"
    names = (
        *("ckpt-1.index", "ckpt-1.data-00000-of-00002", "ckpt-2_temp/part-00000", "checkpoint"),
        *(
            "checkpoint.tmp0a1b",
            "intermediate/ckpt-3.index",
            "intermediate/ckpt-3.data-00000-of-00001",
        ),
    )
    mine = (
        *("thesis/thesis.tex", "data.csv", "ckpt-best.h5", "ckpt-1.index.bak", "checkpoints.txt"),
        *("other/ckpt-1.index", "ckpt-7/notes", "checkpoint.txt"),
    )
    for name in (*names, *mine):
        (disk / name).parent.mkdir(parents=True, exist_ok=True)
        (disk / name).write_text("x")
    (disk / "ckpt-4_temp").symlink_to(disk / "thesis")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoints").symlink_to(disk)
    remove_checkpoints(tmp_path / "run")
    remaining = {str(path.relative_to(disk)) for path in disk.rglob("*") if not path.is_dir()}
    assert remaining == set(mine)
    assert not (disk / "intermediate").exists()
    assert (tmp_path / "run" / "checkpoints").is_symlink()
