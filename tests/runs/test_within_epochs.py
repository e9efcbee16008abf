"""Checkpoints within epochs: an interrupted run equals an uninterrupted one."""

import json

import keras
import numpy as np
import pytest

from keras_bert_impl.tasks import Examples, finetune
from tests.tasks.helpers import examples

TRAIN, DEV = (Examples(*examples(count=24, seed=seed)) for seed in (0, 1))
SETTINGS = {"epochs": 2, "batch_size": 4, "learning_rate": 1e-3, "max_length": 16}
STEPS = 6  # per epoch
AT_ONCE = 1e-9  # minutes
LOGGED = ("step", "loss", "accuracy", "val_loss", "gradient_norm", "highest_loss", "learning_rate")


class Stop(keras.callbacks.Callback):
    """Counts steps by epoch; interrupts training before the next step."""

    def __init__(self, after=None):
        super().__init__()
        self.after, self.steps = after, {}

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        self.steps[self.epoch] = batch + 1
        if int(self.model.optimizer.iterations.numpy()) == self.after:
            raise KeyboardInterrupt


def run(base, out, after=None, minutes=AT_ONCE, strategy="one_device", **settings):
    """Returns the trained model, the reports and the steps of each epoch."""
    stop = Stop(after)
    settings = {**SETTINGS, "checkpoint_minutes": minutes, **settings}
    model = finetune(
        base,
        TRAIN,
        DEV,
        out,
        strategy,
        callbacks=[stop],
        verbose=0,
        keep_checkpoints=True,
        **settings,
    )
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return model, [{name: line[name] for name in LOGGED} for line in lines], stop.steps


@pytest.fixture(scope="module")
def whole(base, tmp_path_factory):
    return run(base, tmp_path_factory.mktemp("whole") / "run")


@pytest.mark.parametrize("after", [2, STEPS + 4])
def test_a_run_stopped_within_an_epoch_resumes_there(base, tmp_path, whole, after):
    with pytest.raises(KeyboardInterrupt):
        run(base, tmp_path, after)
    assert (tmp_path / "checkpoints" / f"ckpt-{after // STEPS}-{after % STEPS}.index").exists()
    model, reports, steps = run(base, tmp_path)
    for mine, theirs in zip(model.get_weights(), whole[0].get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert reports == whole[1]
    assert steps[after // STEPS] == STEPS - after % STEPS
    assert sum(steps.values()) == 2 * STEPS - after


def test_the_interval_may_change_and_is_ten_minutes(base, tmp_path, whole):
    with pytest.raises(KeyboardInterrupt):
        run(base, tmp_path, STEPS + 2, minutes=10.0)
    names = {path.name for path in (tmp_path / "checkpoints").glob("*.index")}
    assert names == {"ckpt-1.index"}
    model, reports, steps = run(base, tmp_path, minutes=AT_ONCE)
    assert reports == whole[1] and steps == {1: STEPS}


def test_a_callback_may_stop_the_rest_of_an_epoch(base, tmp_path):
    class StopsTraining(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = True

    with pytest.raises(KeyboardInterrupt):
        run(base, tmp_path, 2)
    out = {"checkpoint_minutes": AT_ONCE, "verbose": 0, **SETTINGS}
    finetune(base, TRAIN, DEV, tmp_path, "one_device", callbacks=[StopsTraining()], **out)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 1


def test_keep_best_within_the_first_epochs(base, tmp_path):
    best = {"keep_best": True, "epochs": 3}
    expected, reports, _ = run(base, tmp_path / "whole", **best)
    with pytest.raises(KeyboardInterrupt):
        run(base, tmp_path / "cut", 3 * STEPS - 2, **best)
    model, *_ = run(base, tmp_path / "cut", **best)
    for mine, theirs in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.slow  # each step saves the variables of 4 replicas
def test_on_several_replicas(base, tmp_path):
    expected, reports, _ = run(base, tmp_path / "whole", strategy="mirrored")
    with pytest.raises(KeyboardInterrupt):
        run(base, tmp_path / "cut", STEPS + 3, strategy="mirrored")
    model, again, steps = run(base, tmp_path / "cut", strategy="mirrored")
    assert steps == {1: 3}
    for mine, theirs in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert again == reports
