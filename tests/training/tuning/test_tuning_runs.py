"""Runs with each tuning method: saved files, resuming, and the related commands."""

import json

import keras
import numpy as np
import pytest
import safetensors.numpy

from keras_bert_impl.cli.main import main
from keras_bert_impl.tasks import Examples, finetune, load_tuned
from tests.tasks import helpers

TRAIN, DEV = (Examples(*helpers.examples(24, seed), source=f"set {seed}") for seed in (0, 1))
SETTINGS = {"epochs": 3, "batch_size": 8, "learning_rate": 1e-2, "max_length": 16, "verbose": 0}


class Stop(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if self.model.optimizer.iterations.numpy() == 5:  # in the second epoch
            raise KeyboardInterrupt


def tensors(run):
    (file,) = (run / "model").glob("*model.safetensors")
    return safetensors.numpy.load_file(file)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"tuning": "lora", "lora_dropout": 0.2},
        {"tuning": "prompt", "adapter_size": 4},
        {"tuning": "bias", "head_rate": 1e-3},
        {"unfreeze_gradually": True, "layer_decay": 0.5, "reinitialized_layers": 1},
    ],
    ids=lambda settings: settings.get("tuning", "full"),
)
def test_resumed_run_equals_the_uninterrupted_one(base, tmp_path, settings):
    settings = SETTINGS | settings
    finetune(base, TRAIN, DEV, tmp_path / "whole", **settings)
    with pytest.raises(KeyboardInterrupt):
        finetune(base, TRAIN, DEV, tmp_path / "parts", callbacks=[Stop()], **settings)
    tuned = finetune(base, TRAIN, DEV, tmp_path / "parts", **settings)
    whole, parts = tensors(tmp_path / "whole"), tensors(tmp_path / "parts")
    assert set(whole) == set(parts)
    for name in whole:
        np.testing.assert_array_equal(parts[name], whole[name], err_msg=name)
    losses = [json.loads(line)["loss"] for line in (tmp_path / "whole" / "metrics.jsonl").open()]
    assert len(losses) == 3
    # Without dropout, which moves the mean of three batches more than two epochs do.
    assert tuned.evaluate(TRAIN.texts, TRAIN.labels, verbose=0)[0] < losses[0]
    loaded = load_tuned(tmp_path / "parts")
    scores = loaded.predict(DEV.texts, verbose=0)
    np.testing.assert_array_equal(scores, tuned.predict(DEV.texts, verbose=0))
    right = np.mean([a == b for a, b in zip(loaded.classify(DEV.texts), DEV.labels)])
    assert json.loads((tmp_path / "parts" / "scores.json").read_text())["accuracy"] == right


@pytest.mark.slow
def test_commands(base, tmp_path, capsys):
    for name, data in (("train", TRAIN), ("dev", DEV)):
        rows = [f"{text},{label}\n" for text, label in zip(data.texts, data.labels)]
        (tmp_path / f"{name}.csv").write_text("review,mood\n" + "".join(rows))
    command = ["finetune", "--model", base, "--train", tmp_path / "train.csv"]
    command += ["--dev", tmp_path / "dev.csv", "--text", "review", "--label", "mood"]
    command += ["--out", tmp_path / "run", "--json", "--max-length=16", "--epochs=1"]
    command += ["--tuning=lora", "--adapter-size=2", "--lora-projections=[key, output]"]
    assert main([str(part) for part in command]) == 0
    # Two blocks: 16 and 16, and 32 and 16, times 2; the pooler; the head.
    learned = 2 * 2 * (32 + 48) + 16 * 17 + 2 * 17
    assert f"of which {learned:,} (" in capsys.readouterr().err
    assert not (tmp_path / "run" / "model" / "model.safetensors").exists()

    merged, run = tmp_path / "merged", tmp_path / "run"
    assert main(["merge", "--model", str(run), "--out", str(merged)]) == 0
    expected = load_tuned(run).predict(DEV.texts, verbose=0)
    received = load_tuned(merged).predict(DEV.texts, verbose=0)
    # The same sums in another order.
    np.testing.assert_allclose(received, expected, rtol=0, atol=1e-6)
    capsys.readouterr()
    base.rename(tmp_path / "moved")
    predict = ["predict", "--model", str(run), "--input", str(tmp_path / "dev.csv")]
    predict += ["--text", "review", "--json"]
    assert main(predict) == 2
    assert "cannot be opened" in capsys.readouterr().err
    assert main([*predict, "--base", str(tmp_path / "moved")]) == 0
    rows = [json.loads(line)["scores"] for line in capsys.readouterr().out.splitlines()]
    np.testing.assert_array_equal([list(row.values()) for row in rows], expected)
