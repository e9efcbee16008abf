"""What is seen of a training run: lines of at most six numbers, and a bar on a terminal."""

import re
import sys

import keras
import numpy as np

from keras_bert_impl.training.runs.reports import TrainingProgress, numbers
from tests.utils.test_progress import Terminal

LOGS = {
    "loss": 0.51234,
    "accuracy": 0.75,
    "gradient_norm": 1.0,
    "highest_loss": 2.0,
    "val_loss": 0.625,
    "val_accuracy": 0.875,
    "learning_rate": 2.5e-5,
    "tokens_per_second": 12345.6,
    "input_wait": 0.01,
    "seconds_left": 75.2,
}
LINE = [
    "loss 0.5123",
    "val_loss 0.6250",
    "val_accuracy 0.8750",
    "learning rate 2.5e-05",
    "12,346 tokens/s",
    "0:01:15 left",
]


def test_six_numbers():
    assert numbers(LOGS) == LINE
    assert "dev_score 0.5000" in numbers({**LOGS, "dev_score": 0.5})
    without = {name: value for name, value in LOGS.items() if not name.startswith("val")}
    assert numbers(without)[:2] == ["loss 0.5123", "accuracy 0.7500"]


class Log(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        logs |= LOGS


def fit(verbose, **how):
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((6, 1))
    progress = TrainingProgress(4, lambda reports: 3 * reports, verbose=verbose, **how)
    with progress:
        for end in (2, 3):  # as after an interruption, and in two phases
            model.fit(
                *(x, x),
                batch_size=2,
                initial_epoch=end - 1,
                epochs=end,
                callbacks=[Log(), progress],
                verbose=0,
            )


def test_a_line_for_each_report_in_a_pipe(capsys):
    line = ", ".join(LINE)
    for verbose in (1, 2, "auto"):
        fit(verbose, unit="epoch", done=1)
        out, err = capsys.readouterr()
        assert out == ""
        start = "resuming after step 1 of 12, in epoch 1 of 4\n"
        assert err == f"{start}epoch 2 of 4: {line}\nepoch 3 of 4: {line}\n"
    for step, epoch in ((3, 2), (5, 2), (11, 4), (12, 4)):
        with TrainingProgress(4, lambda epochs: 3 * epochs, step, "epoch"):
            assert capsys.readouterr().err.endswith(f"step {step} of 12, in epoch {epoch} of 4\n")
    fit(0, done=1)
    assert capsys.readouterr() == ("", "")


def test_a_long_epoch_prints_the_time_left_in_a_pipe(monkeypatch, capsys):
    seconds = iter(range(0, 1000, 4))
    monkeypatch.setattr("time.monotonic", lambda: next(seconds))
    progress = TrainingProgress(2, lambda epoch: 20 * epoch, unit="epoch", metric="macro_f1")
    progress.on_epoch_begin(0)
    for batch in range(20):
        progress.on_train_batch_end(batch)
    progress.on_epoch_end(0, {"loss": 0.5, "dev_score": 0.25})
    first, *_, last = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"epoch 1 of 2: \d+ of 40 steps, .*, 0:\d\d:\d\d left", first)
    assert last == "epoch 1 of 2: loss 0.5000, macro_f1 0.2500"


def test_a_bar_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", Terminal())
    fit(1, done=1)
    text = re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", sys.stderr.getvalue())
    assert "report 2 of 4: loss 0.5123" in text
    assert re.search("report 3 of 4 ━+.* 9 of 12 steps", text)
    monkeypatch.setattr(sys, "stderr", Terminal())
    fit(2)
    assert sys.stderr.getvalue().count("\n") == 2 and "━" not in sys.stderr.getvalue()
