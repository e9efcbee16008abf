import json
import shutil
import signal

import numpy as np
import pytest
import safetensors.numpy

from keras_bert_impl.tasks import Examples, TaggedExamples, evaluate, finetune, load_tuned
from keras_bert_impl.utils.errors import InputError
from tests.runs.scores import without_baselines
from tests.tasks.helpers import examples, run_script

TRAIN, DEV = (Examples(*examples(count=24, seed=seed), source=f"set {seed}") for seed in (0, 1))
SETTINGS = {"epochs": 2, "batch_size": 8, "learning_rate": 1e-3, "max_length": 16}


@pytest.fixture(scope="module")
def run(base, tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs") / "run"
    finetune(base, TRAIN, DEV, directory, verbose=0, **SETTINGS)
    return directory


def saved_weights(run):
    return safetensors.numpy.load_file(run / "model" / "model.safetensors")


def test_run_directory_has_all_files(run):
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics] == [3, 6]
    assert {"loss", "accuracy", "val_loss", "val_accuracy"} <= set(metrics[0])
    assert not list((run / "checkpoints").glob("ckpt*"))
    data = json.loads((run / "data.json").read_text())
    assert data["summary"]["train_rows"] == 24
    assert data["train"]["examples"] == 24 and data["dev"]["sha256"] == DEV.fingerprint


def test_scores_and_predictions_match_the_saved_model(run):
    model = load_tuned(run)
    scores = model.predict(DEV.texts, verbose=0)
    accuracy = np.mean([a == b for a, b in zip(model.classify(DEV.texts), DEV.labels)])
    assert json.loads((run / "scores.json").read_text())["accuracy"] == accuracy
    assert evaluate(run, DEV) == without_baselines(json.loads((run / "scores.json").read_text()))
    rows = [line.split("\t") for line in (run / "predictions.tsv").read_text().splitlines()]
    assert rows[0] == ["index", "label", "negative", "positive", "true_label", "text"]
    assert [row[1] for row in rows[1:]] == model.classify(DEV.texts)
    np.testing.assert_array_equal(np.array([row[2:4] for row in rows[1:]], "float32"), scores)
    assert [row[5] for row in rows[1:]] == list(DEV.texts)


@pytest.mark.slow  # tests/training compares steps across replicas and workers
def test_four_replicas_give_the_model_of_one_device(base, tmp_path):
    settings = SETTINGS | {"dropout": 0.0, "batch_size": 10}  # the last batch has 4 texts
    single = finetune(base, TRAIN, DEV, tmp_path / "one", verbose=0, **settings)
    four = finetune(base, TRAIN, DEV, tmp_path / "four", "mirrored", verbose=0, **settings)
    assert four.distribute_strategy.num_replicas_in_sync == 4
    np.testing.assert_allclose(
        four.predict(DEV.texts, verbose=0), single.predict(DEV.texts, verbose=0), rtol=0, atol=1e-5
    )
    logs = [
        [json.loads(line) for line in (tmp_path / run / "metrics.jsonl").read_text().splitlines()]
        for run in ("one", "four")
    ]
    for a, b in zip(*logs, strict=True):
        for name in ("step", "loss", "accuracy", "val_loss", "val_accuracy", "learning_rate"):
            assert b[name] == pytest.approx(a[name], rel=1e-5), name


def test_finished_run_is_not_trained_again(run, base, capsys):
    before = saved_weights(run)
    files = sorted(run.rglob("*"))
    leftover = run / "checkpoints" / "ckpt-2.data-00000-of-00001"
    leftover.write_text("by a process that was killed while it removed the checkpoints")
    again = finetune(base, TRAIN, DEV, run, **SETTINGS)
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"{run} is already finished")
    assert again.classify(DEV.texts) == load_tuned(run).classify(DEV.texts)
    assert sorted(run.rglob("*")) == files
    for name, tensor in saved_weights(run).items():
        np.testing.assert_array_equal(tensor, before[name])


def test_rejects_resuming_with_another_model_at_the_same_path(base, run, tmp_path):
    copy, model = tmp_path / "run", tmp_path / "model"
    shutil.copytree(run, copy)
    shutil.copytree(base, model)
    recipe = (copy / "recipe.yaml").read_text()
    (copy / "recipe.yaml").write_text(recipe.replace(str(base), str(model)))
    tensors = safetensors.numpy.load_file(model / "model.safetensors")
    tensors[min(tensors)] = tensors[min(tensors)] + 1
    safetensors.numpy.save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=f"on other model than {model} .sha256 was"):
        finetune(model, TRAIN, DEV, copy, verbose=0, **SETTINGS)


@pytest.mark.slow
def test_killed_run_gives_the_same_result(base, tmp_path):
    def start(out, *epoch):
        return run_script("tests/tasks/run_and_be_killed.py", base, out, *epoch)

    whole = start(tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr[-3000:]
    assert start(tmp_path / "killed", "2").returncode == -signal.SIGKILL
    assert not (tmp_path / "killed" / "model").exists()
    assert (tmp_path / "killed" / "checkpoints" / "ckpt-2-2.index").exists()
    resumed = start(tmp_path / "killed")
    assert resumed.returncode == 0, resumed.stderr[-3000:]
    expected = saved_weights(tmp_path / "whole")
    for name, tensor in saved_weights(tmp_path / "killed").items():
        np.testing.assert_array_equal(tensor, expected[name])
    predictions = [(tmp_path / run / "predictions.tsv").read_text() for run in ("whole", "killed")]
    assert predictions[0] == predictions[1]
    steps = [json.loads(line)["step"] for line in (tmp_path / "killed" / "metrics.jsonl").open()]
    assert steps == [3, 6, 9, 12]


@pytest.mark.slow
def test_run_that_is_killed_while_it_removes_checkpoints_is_finished(base, tmp_path):
    def start(*moment):
        return run_script("tests/tasks/run_and_be_killed.py", base, tmp_path / "run", *moment)

    assert start("checkpoints").returncode == -signal.SIGKILL
    leftovers = {path.name for path in (tmp_path / "run" / "checkpoints").glob("ckpt-*")}
    assert leftovers and "ckpt-4.index" not in leftovers
    before = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert start().returncode == 0
    assert not list((tmp_path / "run" / "checkpoints").glob("ckpt-*"))
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == before  # nothing was trained


@pytest.mark.slow
def test_finetunes_a_regression(base, tmp_path):
    sets = [
        Examples(data.texts, [float(len(text.split())) for text in data.texts])
        for data in (TRAIN, DEV)
    ]
    finetune(base, *sets, tmp_path / "run", verbose=0, **SETTINGS)
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    names = {"pearson", "spearman", "mean_squared_error"}
    assert set(scores) == names | {f"tfidf/{name}" for name in names}
    assert load_tuned(tmp_path / "run").problem_type == "regression"


@pytest.mark.parametrize(
    "train, dev, settings, message",
    [
        (TRAIN, DEV, {"epochs": 3}, "finished run with other settings.*To train further, start a"),
        (DEV, DEV, {}, "other train texts than set 1"),
    ],
)
def test_rejects_another_run_in_the_same_directory(run, base, train, dev, settings, message):
    with pytest.raises(InputError, match=message):
        finetune(base, train, dev, run, verbose=0, **SETTINGS | settings)


@pytest.mark.parametrize(
    "train, dev, message",
    [
        (Examples(["a"], None, source="a.tsv"), DEV, "a.tsv has no labeled texts"),
        (Examples(["a", "b"], ["x", "x"], source="a.tsv"), DEV, "all texts have the label 'x'"),
        (
            TaggedExamples([["a", "b"]], [["O", "O"]], ["O"], source="a.txt"),
            TaggedExamples([["a", "b"]], [["O", "O"]], ["O"]),
            "a.txt: all words have the label 'O'",
        ),
        (
            TRAIN,
            Examples(["a"], ["odd"], source="dev.csv", lines=[2]),
            "dev.csv, line 2: label 'odd' is not one of 'negative', 'positive'",
        ),
    ],
)
def test_rejects_invalid_labels_before_writing_anything(base, tmp_path, train, dev, message):
    with pytest.raises(InputError, match=message):
        finetune(base, train, dev, tmp_path / "run", verbose=0)
    assert not (tmp_path / "run").exists()


def test_a_tagger_that_predicts_only_entities_is_scored(base, tmp_path):
    train = TaggedExamples([["good", "film"], ["bad", "plot"]] * 4, [["PER", "PER"], ["O", "LOC"]] * 4,
                           ["LOC", "O", "PER"])  # fmt: skip
    dev = TaggedExamples([["good", "film"]] * 2, [["PER", "PER"]] * 2, ["PER"])
    finetune(base, train, dev, tmp_path, verbose=0, epochs=1, max_length=16)
    assert "f1" in json.loads((tmp_path / "scores.json").read_text())
    # The default of taggers with a small encoder.
    assert "learning_rate: 0.0003" in (tmp_path / "recipe.yaml").read_text()
