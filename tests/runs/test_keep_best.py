"""Keeping the best epoch, and early stopping."""

import dataclasses
import json

import keras
import numpy as np
import pytest

from keras_bert_impl.tasks import Examples, FinetuneSettings, finetune, load_tuned
from keras_bert_impl.tasks.text_classification.task import TextClassification
from keras_bert_impl.training.strategy import number_of_chief
from keras_bert_impl.utils.errors import InputError
from tests.helpers import mirrored
from tests.tasks.helpers import examples

TRAIN, DEV = (Examples(*examples(count=16, seed=seed)) for seed in (0, 1))
STEPS = 2  # per epoch
SCORES = [0.5, 0.9, 0.6, 0.9, 0.7, 1.0]


def test_patience_keeps_the_best_epoch():
    assert FinetuneSettings(model="base", patience=2).keep_best
    with pytest.raises(InputError, match="patience must be a positive integer"):
        FinetuneSettings(model="base", patience=0)


class Interrupt(keras.callbacks.Callback):
    """Records the weights of each epoch; interrupts training in the middle of a given one."""

    def __init__(self, epoch=None):
        super().__init__()
        self.epoch = epoch
        self.weights = {}

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations) == (self.epoch or -1) * STEPS - 1:
            raise KeyboardInterrupt

    def on_epoch_end(self, epoch, logs=None):
        self.weights[epoch + 1] = self.model.get_weights()


@pytest.fixture
def tune(base, tmp_path, monkeypatch):
    """Returns a function that runs with `SCORES` until patience runs out."""
    real = TextClassification.finish

    def finish(kind, model, dev, directory=None):
        if directory is not None:
            return real(kind, model, dev, directory)
        return {"accuracy": SCORES[int(model.optimizer.iterations) // STEPS - 1]}

    monkeypatch.setattr(TextClassification, "finish", finish)

    def run(name, *callbacks):
        settings = {"epochs": 8, "batch_size": 8, "learning_rate": 1e-3, "max_length": 16}
        out = tmp_path / name
        return finetune(
            base,
            TRAIN,
            DEV,
            out,
            patience=3,
            callbacks=callbacks,
            keep_checkpoints=True,
            verbose=0,
            **settings,
        )

    return run


@pytest.mark.slow  # tests/training/runs/test_best_epoch.py covers this without a run
def test_interrupted_run_keeps_the_same_epoch(tune, tmp_path):
    whole = Interrupt()
    tuned = tune("whole", whole)
    # The second epoch ties with the fourth as the best; the better sixth is never reached.
    assert sorted(whole.weights) == [1, 2, 3, 4, 5]
    with pytest.raises(KeyboardInterrupt):
        tune("interrupted", Interrupt(epoch=5))
    resumed = Interrupt()
    again = tune("interrupted", resumed)
    assert sorted(resumed.weights) == [5]
    assert not any((a != b).any() for a, b in zip(again.get_weights(), whole.weights[2]))
    assert any((a != b).any() for a, b in zip(again.get_weights(), whole.weights[5]))
    for run in ("whole", "interrupted"):
        lines = [json.loads(line) for line in (tmp_path / run / "metrics.jsonl").open()]
        assert [line["dev_score"] for line in lines] == SCORES[:5]
        # The best one and the newest three.
        checkpoints = sorted(path.stem for path in (tmp_path / run / "checkpoints").glob("*.index"))
        assert checkpoints == ["ckpt-2", "ckpt-3", "ckpt-4", "ckpt-5"]
        np.testing.assert_array_equal(
            load_tuned(tmp_path / run).predict(DEV.texts, verbose=0),
            tuned.predict(DEV.texts, verbose=0),
        )
    nothing = Interrupt()
    tune("interrupted", nothing)
    assert not nothing.weights  # already finished
    for name in ("metrics.jsonl", "scores.json"):
        (tmp_path / "whole" / name).unlink()
    with pytest.raises(InputError, match="has the scores of 0 epochs, but 5 are finished"):
        tune("whole")


@pytest.mark.on_tensorflow  # on JAX, other random numbers make the last epoch the best
def test_the_lowest_error_is_the_best(base, tmp_path, capsys):
    train, dev = (
        dataclasses.replace(data, labels=[len(text) / 10 for text in data.texts])
        for data in (TRAIN, DEV)
    )
    settings = {"epochs": 3, "batch_size": 8, "learning_rate": 1.0, "max_length": 16}
    metric = "mean_squared_error"
    finetune(base, train, dev, tmp_path, "one_device", metric=metric, keep_best=True, **settings)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").open()]
    errors = [line["dev_score"] for line in lines]
    assert errors == pytest.approx([line["val_loss"] for line in lines], rel=1e-5)
    assert errors.index(min(errors)) == 1
    score = json.loads((tmp_path / "scores.json").read_text())[metric]
    assert score == pytest.approx(min(errors), rel=1e-5)
    assert f"{metric} {errors[0]:.4f}" in capsys.readouterr().err


@pytest.mark.slow
def test_only_the_chief_of_several_workers_scores(base, tmp_path, monkeypatch):
    """Simulates a second worker; `tests/cli/test_workers.py` runs two real ones."""
    monkeypatch.setattr("keras_bert_impl.runs.phases.num_workers", lambda: 2)
    settings = {"epochs": 2, "batch_size": 8, "learning_rate": 1e-2, "max_length": 16}
    out = tmp_path / "run"
    finetune(base, TRAIN, DEV, out, "one_device", keep_best=True, verbose=0, **settings)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").open()]
    scores = [line["dev_score"] for line in lines]
    assert scores == pytest.approx([line["val_accuracy"] for line in lines])
    assert json.loads((out / "scores.json").read_text())["accuracy"] == max(scores)


def test_number_of_the_first_replica_is_sent_to_all():
    for replicas in (1, 2):
        assert number_of_chief(mirrored(replicas), 0.1) == 0.1  # bit for bit
