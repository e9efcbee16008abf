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


def test_settings_are_kept_and_compared(tmp_path):
    RunDirectory(tmp_path / "run", Settings())
    assert (tmp_path / "run" / "recipe.yaml").read_text() == "rate: 0.5\nnames:\n- a\n- b\n"
    RunDirectory(tmp_path / "run", Settings())
    with pytest.raises(InputError, match=r"other settings \(rate was 0.5\)"):
        RunDirectory(tmp_path / "run", Settings(rate=0.25))
    RunDirectory(tmp_path / "run", Settings(rate=0.25), may_change=["rate"])
    assert (tmp_path / "run" / "recipe.yaml").read_text().startswith("rate: 0.25")
    RunDirectory(tmp_path / "run", Settings(), may_change=["rate"])
    with pytest.raises(InputError, match="holds a run"):
        RunDirectory(tmp_path / "run", Settings(), resume=False)


def test_another_process_is_refused(tmp_path):
    code = (
        "import filelock, sys; lock = filelock.FileLock(sys.argv[1]); lock.acquire()\n"
        "print(flush=True); sys.stdin.read()"
    )
    RunDirectory(tmp_path, Settings())
    command = [sys.executable, "-c", code, str(tmp_path / "checkpoints" / ".lock")]
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
    RunDirectory(tmp_path, Settings())
    (tmp_path / "recipe.yaml").write_bytes(b"rate: [\xff")
    with pytest.raises(InputError, match="recipe.yaml is damaged"):
        RunDirectory(tmp_path, Settings())


def test_yaml_reads_back(tmp_path):
    import yaml

    assert yaml.safe_load(to_yaml(Settings(rate=1e-4))) == {"rate": 1e-4, "names": ["a", "b"]}
