"""Run directories."""

import dataclasses
import subprocess
import sys

import pytest

from keras_bert_impl.errors import InputError
from keras_bert_impl.training.run_directory import RunDirectory, to_yaml


@dataclasses.dataclass
class Settings:
    rate: float = 0.5
    names: tuple = ("a", "b")


def begin(path):
    """A run that has a checkpoint."""
    run = RunDirectory(path, Settings())
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
    with pytest.raises(InputError, match="holds a run"):
        RunDirectory(tmp_path / "run", Settings(), resume=False)


def test_a_run_that_made_nothing_binds_to_no_settings(tmp_path):
    run = RunDirectory(tmp_path, Settings())
    # As far as a run comes that fails in its first step.
    run.metrics.touch()
    run.tensorboard.mkdir()
    (run.tensorboard / "events").write_text("start")
    (tmp_path / "data.json").write_text("{}")
    RunDirectory(tmp_path, Settings(rate=0.25), resume=False)
    assert (tmp_path / "recipe.yaml").read_text().startswith("rate: 0.25")
    assert not (tmp_path / "data.json").exists()
    run.metrics.write_text("{}")
    with pytest.raises(InputError, match=r"other settings \(rate was 0.25\)"):
        RunDirectory(tmp_path, Settings())


def test_another_process_is_refused(tmp_path):
    code = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print(flush=True); sys.stdin.read()"
    )
    run = RunDirectory(tmp_path, Settings())
    command = [sys.executable, "-c", code, str(run.checkpoints / ".lock")]
    del run
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(InputError, match=f"another process trains in {tmp_path}"):
            RunDirectory(tmp_path, Settings())
        other.kill()
    RunDirectory(tmp_path, Settings())


def test_a_run_whose_traceback_is_kept_can_be_called_again(tmp_path):
    interrupted = RunDirectory(tmp_path, Settings())
    RunDirectory(tmp_path, Settings())
    del interrupted


def test_a_damaged_recipe_is_named(tmp_path):
    begin(tmp_path)
    (tmp_path / "recipe.yaml").write_bytes(b"rate: [\xff")
    with pytest.raises(InputError, match="recipe.yaml is damaged"):
        RunDirectory(tmp_path, Settings())


def test_yaml_reads_back(tmp_path):
    import yaml

    assert yaml.safe_load(to_yaml(Settings(rate=1e-4))) == {"rate": 1e-4, "names": ["a", "b"]}
