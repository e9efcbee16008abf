"""The main job on a small scale: from docstrings to a prediction of the exported model."""

import dataclasses
import json

import pytest

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.quickstart import corpus, show
from keras_bert_impl.quickstart.main_job import MainJob
from keras_bert_impl.quickstart.settings import QuickstartSettings

SETTINGS = QuickstartSettings(
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
    said = []
    job = MainJob(tmp_path / "run", SETTINGS, say=said.append)
    scores = job.run()
    first = next(n for n, line in enumerate(said) if "first result" in line)
    assert first < next(n for n, line in enumerate(said) if "vocabulary" in line)
    share = scores["classification"]["tfidf_logistic_regression"]
    assert f"accuracy {share:.1%} on" in said[first + 5]
    assert 0 < scores["masked_lm"]["loss"] < 7.0  # a uniform prediction has log(800) = 6.7
    assert set(scores["classification"]) == {
        "majority",
        "tfidf_logistic_regression",
        "untrained",
        "pretrained",
    }
    lines = "\n".join(show.score_lines(scores))
    assert f"{scores['classification']['pretrained']:.1%}" in lines
    assert len(show.fill_mask_lines(job, count=2)) == 4

    dev = job.labeled("dev")
    answer = job.ask(dev.texts[:3])
    assert not answer["has_imported_keras_bert_impl"]
    assert len(answer["labels"]) == 3 and set(answer["labels"]) <= {"numpy", "keras"}

    pictures = show.draw(job, scores)
    assert all(path.stat().st_size > 1000 for path in pictures)

    said.clear()
    before = (tmp_path / "run" / "exported" / "saved_model.pb").stat().st_mtime_ns
    assert MainJob(tmp_path / "run", SETTINGS, say=said.append).run() == scores
    assert sum("already done" in line for line in said) == 5
    assert (tmp_path / "run" / "exported" / "saved_model.pb").stat().st_mtime_ns == before
    assert json.loads((tmp_path / "run" / "scores.json").read_text()) == scores

    other = dataclasses.replace(SETTINGS, learning_rate=1e-3)
    with pytest.raises(InputError, match="learning_rate was 0.002"):
        MainJob(tmp_path / "run", other, say=said.append).run()
