"""The main job on a small scale: from docstrings to a prediction of the exported model."""

import dataclasses
import importlib.util
import json

import pytest

from examples.quickstart import corpus, job, show
from examples.quickstart.__main__ import main
from examples.quickstart.job import Job, Settings
from keras_bert_impl import InputError

SETTINGS = Settings(
    vocabulary_size=800,
    num_layers=1,
    hidden_dim=32,
    num_heads=2,
    length=64,
    batch_size=8,
    pretraining_steps=100,
    libraries=2,
    texts_per_library=60,
    finetuning_epochs=1,
)


@pytest.mark.slow
def test_runs_to_the_end_and_then_skips_all_stages(tmp_path, monkeypatch):
    few = [file for file in corpus.installed_files() if file[0] in ("numpy", "keras")]
    monkeypatch.setattr(corpus, "installed_files", lambda: few)
    messages = []
    first_job = Job(tmp_path / "run", SETTINGS, say=messages.append)
    scores = first_job.run()
    first = next(n for n, line in enumerate(messages) if "first result" in line)
    assert first < next(n for n, line in enumerate(messages) if "vocabulary" in line)
    share = scores["classification"]["tfidf_logistic_regression"]
    assert f"accuracy {share:.1%} on" in messages[first + 5]
    assert 0 < scores["masked_lm"]["loss"] < 7.0  # a uniform prediction has log(800) = 6.7
    assert set(scores["classification"]) == {
        "majority",
        "tfidf_logistic_regression",
        "untrained",
        "pretrained",
    }
    lines = "\n".join(show.score_lines(scores))
    assert f"{scores['classification']['pretrained']:.1%}" in lines
    assert len(show.fill_mask_lines(first_job, count=2)) == 4

    dev = first_job.labeled("dev")
    answer = first_job.ask(dev.texts[:3])
    assert not answer["has_imported_keras_bert_impl"]
    assert len(answer["labels"]) == 3 and set(answer["labels"]) <= {"numpy", "keras"}

    pictures = show.draw(first_job, scores)
    assert all(path.stat().st_size > 1000 for path in pictures)

    messages.clear()
    before = (tmp_path / "run" / "exported" / "saved_model.pb").stat().st_mtime_ns
    assert Job(tmp_path / "run", SETTINGS, say=messages.append).run() == scores
    assert sum("already done" in line for line in messages) == 5
    assert (tmp_path / "run" / "exported" / "saved_model.pb").stat().st_mtime_ns == before
    assert json.loads((tmp_path / "run" / "scores.json").read_text()) == scores

    changed = dataclasses.replace(SETTINGS, learning_rate=1e-3)
    with pytest.raises(InputError, match="learning_rate was 0.002 in .*run. Choose another"):
        Job(tmp_path / "run", changed, say=messages.append).run()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 3}, "hidden_dim, 128, must be a multiple of num_heads, 3"),
        ({"vocabulary_size": 100}, "vocabulary_size must be at least 300, got 100"),
        ({"length": 4}, "length must be at least 8, got 4"),
        ({"libraries": 1}, "libraries must be at least 2, got 1"),
        ({"pretraining_steps": 0}, "pretraining_steps must be at least 1, got 0"),
        (
            {"finetuning_rate": float("nan")},
            r"finetuning_rate must be a number in \(0, 1\), got nan",
        ),
        ({"mask_rate": 1.0}, r"mask_rate must be a number in \(0, 1\), got 1"),
    ],
)
def test_rejects_settings_that_would_fail_later(settings, message, tmp_path, capsys):
    with pytest.raises(InputError, match=message):
        Settings(**settings)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    with pytest.raises(SystemExit, match="2"):
        main([*options, f"--out={tmp_path}/run"])
    assert next(iter(settings)) in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_names_missing_packages_and_a_path_that_is_a_file(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit):
        main([f"--out={tmp_path}/file"])
    assert f"{tmp_path}/file" in capsys.readouterr().err
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        main([f"--out={tmp_path}/run"])
    assert "needs scikit-learn, for a baseline and matplotlib" in capsys.readouterr().err


# === Baselines ===


def test_majority_is_that_of_the_training_labels():
    assert job.majority(["a", "b", "b"], ["a", "a", "b", "c"]) == 1 / 4


def test_tfidf_learns_words():
    train = ["red apple", "red cherry", "blue sky", "blue sea"] * 2
    labels = ["red", "red", "blue", "blue"] * 2
    assert job.tfidf_predictions(train, labels, ["a blue car", "a red car"]) == [
        "blue",
        "red",
    ]
