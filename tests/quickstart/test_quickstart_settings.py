"""Settings that the quickstart checks before it starts."""

import importlib.util
import subprocess
import sys

import pytest

from keras_bert_impl.cli.main import main
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.quickstart.settings import QuickstartSettings, check_installed


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 3}, "hidden_dim must be a multiple of num_heads"),
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
        check_installed()
    assert main(["quickstart", "--out", str(tmp_path / "run")]) == 2
    assert "pip install 'keras-bert-impl[metrics,plots]'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_check_imports_no_tensorflow():
    code = (
        "import sys; from keras_bert_impl.quickstart.settings import check_installed\n"
        "check_installed(); assert 'tensorflow' not in sys.modules and 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
