"""Settings that the quickstart checks before it starts."""

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

from keras_bert_impl.cli.main import main
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.quickstart.settings import QuickstartSettings, check_ready
from keras_bert_impl.version import install_command


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 3}, "hidden_dim must be a multiple of num_heads"),
        ({"vocabulary_size": 100}, "vocabulary_size must be an integer, at least 300, got 100"),
        ({"length": 4}, "length must be an integer, at least 8, got 4"),
        ({"libraries": 1}, "libraries must be an integer, at least 2, got 1"),
        ({"pretraining_steps": 0}, "pretraining_steps must be a positive integer, got 0"),
        ({"finetuning_rate": float("nan")}, "finetuning_rate must be a positive number, got nan"),
        ({"mask_rate": 1}, r"mask_rate must be a number in \(0, 1\), got 1"),
    ],
)
def test_rejects_settings_that_would_fail_later(settings, message):
    with pytest.raises(InputError, match=message):
        QuickstartSettings(**settings)
    QuickstartSettings(pretraining_steps=60)  # any number of steps is valid


def test_missing_packages_are_named_before_any_work(tmp_path, monkeypatch, capsys):
    find_spec = importlib.util.find_spec
    gone = ("sklearn", "matplotlib")
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in gone else find_spec(name)
    )
    with pytest.raises(InputError, match="scikit-learn, for a baseline and matplotlib, for pict"):
        check_ready(tmp_path)
    assert main(["quickstart", "--out", str(tmp_path / "run")]) == 2
    assert install_command("metrics,plots") in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file is a file; choose another folder with --out"):
        check_ready(tmp_path / "file" / "run")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="is not writable"):
        check_ready(tmp_path / "run")


def test_a_full_disk_is_refused(tmp_path, monkeypatch):
    check_ready(tmp_path / "a" / "run")
    usage = shutil.disk_usage(tmp_path)._replace(free=100 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(InputError, match="has 100 MB of free space, but the quickstart needs 200"):
        check_ready(tmp_path / "a" / "run")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    "arguments", [["--learning-rate=-1"], ["--out", "/dev/null/run"], ["length=1"]]
)
def test_bad_arguments_are_refused_before_tensorflow_is_imported(arguments):
    code = (
        "import sys; from keras_bert_impl.cli.main import main\n"
        "assert main(['quickstart', *sys.argv[1:]]) == 2 and 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)
