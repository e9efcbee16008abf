"""Training commands on two worker processes that share a run directory."""

import json
import re
import time

import numpy as np
import pytest
import safetensors.numpy

from keras_bert_impl.pretraining.corpus.preparation import prepare
from tests.tasks.helpers import examples, save_base, tokenizer
from tests.training.helpers import output_of, run_workers, start_python, start_workers

COMMAND = ("-m", "keras_bert_impl.cli.main")


def results(run):
    """Returns the scores and the weights of the saved model."""
    return (
        json.loads((run / "scores.json").read_text()),
        safetensors.numpy.load_file(run / "model" / "model.safetensors"),
    )


def files(run):
    """Returns the names of all files, without the timestamps in TensorBoard's names."""
    names = (str(path.relative_to(run)) for path in run.rglob("*"))
    return sorted(re.sub(r"tfevents\.\d+", "tfevents", name) for name in names)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return save_base(tmp_path_factory.mktemp("base"), dropout=0.0)


def finetune(base, folder):
    """Writes the tables; returns the command that trains on them."""
    texts, labels = examples(count=42)
    lines = [f"{text},{label}" for text, label in zip(texts, labels, strict=True)]
    for name, part in (("train", lines[:27]), ("dev", lines[27:])):
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *part]) + "\n")
    arguments = ["finetune", "--model", base, "--text", "text", "--label", "label"]
    arguments += ["--train", folder / "train.csv", "--dev", folder / "dev.csv"]
    return arguments + ["--batch-size=8", "--max-length=16", "--dropout=0"]


@pytest.mark.slow
def test_finetune(base, tmp_path):
    arguments = [*finetune(base, tmp_path), "--epochs=2", "--learning-rate=1e-3"]
    single_run, worker_run = tmp_path / "one", tmp_path / "two"
    output_of(start_python(*COMMAND, *arguments, "--out", single_run))
    run_workers(*COMMAND, *arguments, "--out", worker_run, "--no-resume")
    assert files(worker_run) == files(single_run)
    expected, got = (
        np.loadtxt(run / "predictions.tsv", skiprows=1, usecols=(2, 3))
        for run in (single_run, worker_run)
    )
    assert got.shape == (15, 2)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_names_a_killed_worker_and_resumes_the_run(base, tmp_path):
    # Two workers save after each epoch and, within it, after its first batch.
    settings = ["--epochs=6", "--checkpoint-minutes=1e-9"]
    arguments = [*finetune(base, tmp_path), *settings, "--out", tmp_path / "run"]
    workers = start_workers(*COMMAND, *arguments)
    try:
        while not [*(tmp_path / "run").rglob("ckpt-1-1.index")]:
            assert workers[0].poll() is workers[1].poll() is None, workers[0].stdout.read()[-3000:]
            time.sleep(0.05)
        workers[1].kill()
        output, _ = workers[0].communicate(timeout=120)
    finally:
        for worker in workers:
            worker.kill()
    assert workers[0].returncode == 1
    assert re.search(r"worker 1 \(127.0.0.1:\d+\) stopped .* the same command", output)
    run_workers(*COMMAND, *arguments)
    steps = [json.loads(line)["step"] for line in (tmp_path / "run" / "metrics.jsonl").open()]
    assert steps == sorted(set(steps)) and len(steps) == 6


@pytest.mark.slow
def test_devices_of_the_cpu(base, tmp_path):
    """Two logical CPU devices reproduce the run on one."""
    arguments = [*finetune(base, tmp_path), "--epochs=2", "--learning-rate=1e-3"]
    single_run, devices_run = tmp_path / "one", tmp_path / "two"
    output_of(start_python(*COMMAND, *arguments, "--out", single_run))
    output_of(start_python(*COMMAND, *arguments, "--out", devices_run, "--cpu-devices", 2))
    expected, got = (
        np.loadtxt(run / "predictions.tsv", skiprows=1, usecols=(2, 3))
        for run in (single_run, devices_run)
    )
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_the_best_epoch(base, tmp_path):
    """Both workers stop when the chief's scores say so, and restore the best weights."""
    # A learning rate so high that the score does not improve in every epoch.
    settings = ["--epochs=8", "--learning-rate=3e-2", "--patience=2", "--seed=4"]
    arguments = [*finetune(base, tmp_path), *settings]
    single_run, worker_run = tmp_path / "one", tmp_path / "two"
    output_of(start_python(*COMMAND, *arguments, "--out", single_run))
    run_workers(*COMMAND, *arguments, "--out", worker_run)
    scores = [
        [json.loads(line)["dev_score"] for line in (run / "metrics.jsonl").open()]
        for run in (single_run, worker_run)
    ]
    assert 2 < len(scores[1]) < 8 and scores[1].index(max(scores[1])) == len(scores[1]) - 3
    assert scores[1] == pytest.approx(scores[0])
    assert results(worker_run)[0]["accuracy"] == max(scores[1])
    assert files(worker_run) == files(single_run)
    metrics = (worker_run / "metrics.jsonl").read_bytes()
    run_workers(*COMMAND, *arguments, "--out", worker_run)  # finished: nothing is trained again
    assert (worker_run / "metrics.jsonl").read_bytes() == metrics


@pytest.mark.slow
def test_pretrain(base, tmp_path):
    texts, _ = examples(count=400)
    (tmp_path / "corpus.txt").write_text(
        "".join(f"{text}\n" + "\n" * (number % 4 == 3) for number, text in enumerate(texts))
    )
    records = tmp_path / "records"
    prepare(tmp_path / "corpus.txt", records, tokenizer(), length=32, held_out=0.1, num_workers=1)
    single_run, worker_run = tmp_path / "one", tmp_path / "two"
    arguments = ["pretrain", records, f"--model={base}", "--total-steps=6", "--report-every=2"]
    # Epsilon as in the step tests: Adam amplifies rounding by at most rate / epsilon = 10.
    arguments += ["--batch-size=8", "--learning-rate=1e-2", "--dropout=0", "--epsilon=1e-3"]
    output_of(start_python(*COMMAND, *arguments, "--out", single_run))
    run_workers(*COMMAND, *arguments, "--out", worker_run, "--no-resume")
    assert files(worker_run) == files(single_run)
    (expected, reference), (scores, weights) = results(single_run), results(worker_run)
    assert scores == pytest.approx(expected, rel=1e-6)
    for name, tensor in reference.items():
        np.testing.assert_allclose(weights[name], tensor, rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.slow
def test_sigterm_to_one_worker_ends_both_where_they_are_saved(base, tmp_path):
    texts, _ = examples(count=400)
    (tmp_path / "corpus.txt").write_text("\n\n".join(texts))
    records, run = tmp_path / "records", tmp_path / "run"
    prepare(
        tmp_path / "corpus.txt", records, tokenizer(), length=32, objective="mlm", num_workers=1
    )
    arguments = ["pretrain", records, f"--model={base}", "--batch-size=8", "--out", run]
    arguments += ["--report-every=5", "--on-spike=skip"]
    workers = start_workers(*COMMAND, *arguments, "--total-steps=100000")
    try:
        while not (run / "checkpoints" / "ckpt-2.index").exists():
            assert workers[0].poll() is workers[1].poll() is None, workers[0].stdout.read()[-3000:]
            time.sleep(0.05)
        workers[1].terminate()
        assert [worker.wait(120) for worker in workers] == [143, 143]
    finally:
        for worker in workers:
            worker.kill()
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    newest = max(int(path.stem[5:]) for path in (run / "checkpoints").glob("ckpt-*.index"))
    assert 5 * newest == steps[-1] and not (run / "model").exists()
