"""Sets of runs over seeds and grids: ranking, resuming, and the copy of the best run."""

import json
import math
import signal
import statistics

import pytest
import safetensors.numpy
import yaml

from keras_bert_impl.cli.main import main
from keras_bert_impl.finetuning import finetune as run_set
from keras_bert_impl.finetuning.finetune import finetune
from keras_bert_impl.runs import inputs
from keras_bert_impl.runs.inputs import made_of
from keras_bert_impl.runs.settings import PAPER_GRID
from keras_bert_impl.tasks import Examples, FinetuneSettings, evaluate, finetune_set, load_tuned
from keras_bert_impl.training.runs.reports import DivergedError
from keras_bert_impl.training.runs.run_directory import RunDirectory
from keras_bert_impl.utils.errors import InputError
from tests.killed import assert_old_or_new
from tests.tasks.helpers import examples, finetune_command, run_script, save_base

TRAIN, DEV = (Examples(*examples(count=16, seed=seed), source=f"set {seed}") for seed in (0, 1))


@pytest.fixture
def runs(monkeypatch):
    """Replaces real runs: records settings, returns scores by (learning rate, seed)."""
    finished = []

    def fake(train, dev, output_directory, model, resume, **arguments):
        of_runs = {"more_dev", "callbacks", "strategy", "verbose", "keep_checkpoints", "read_with"}
        settings = {name: value for name, value in arguments.items() if name not in of_runs}
        settings = FinetuneSettings(model=model, **settings)
        read = made_of(settings, train, dev)
        run = RunDirectory(output_directory, settings, resume, made_of=read)
        finished.append((settings.learning_rate, settings.seed))
        run.model.mkdir()
        (run.model / f"seed{settings.seed}").touch()
        score = fake.scores.get(finished[-1], settings.learning_rate)
        if isinstance(score, DivergedError):
            raise score
        run.write_scores({"f1": score, "accuracy": 1.0} | {f"f1/T{settings.seed}": 0.5})

    fake.scores, fake.done = {}, finished
    monkeypatch.setattr(run_set, "finetune", fake)
    monkeypatch.setattr(inputs, "_compute_checksums", lambda path: {"sha256": "of its content"})
    # A collection is slow after other tests, and there is nothing to collect here.
    monkeypatch.setattr(run_set.gc, "collect", lambda: 0)
    return fake


def tune(out, grid, **settings):
    return finetune_set("base", TRAIN, DEV, out, grid, **settings)


def test_summary_has_means_spreads_and_the_best_run(runs, tmp_path):
    runs.scores = {(0.1, 1): 0.5, (0.1, 2): 0.75, (0.1, 3): 1.0, (0.2, 1): 0.8}
    runs.scores |= {(0.2, 2): 0.9, (0.2, 3): 0.85}
    summary = tune(tmp_path, {"seed": [1, 2, 3], "learning_rate": [0.1, 0.2]}, epochs=4)
    assert runs.done == [(0.1, 1), (0.1, 2), (0.1, 3), (0.2, 1), (0.2, 2), (0.2, 3)]
    assert summary == json.loads((tmp_path / "scores.json").read_text())
    first, second = summary["groups"]
    # The highest single score, 1.0, is in the group with the lower mean.
    assert first["settings"] == {"learning_rate": 0.2} and summary["metric"] == "f1"
    expected = {"mean": 0.85, "std": 0.05, "min": 0.8, "max": 0.9}
    assert first["scores"]["f1"] == pytest.approx(expected, rel=1e-12)
    assert second["scores"]["f1"]["std"] == statistics.stdev([0.5, 0.75, 1.0]) == 0.25
    assert set(first["scores"]) == {"f1", "accuracy"}  # without types that only one run has
    assert summary["best"] == "runs/learning_rate=0.2,seed=2"
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["seed2"]
    recipe = yaml.safe_load((tmp_path / "recipe.yaml").read_text())
    assert (recipe["seed"], recipe["learning_rate"], recipe["epochs"]) == (2, 0.2, 4)


def test_runs_with_nan_rank_last(runs, tmp_path):
    nan = math.nan
    runs.scores = {(0.1, 1): nan, (0.1, 2): nan, (0.2, 1): 0.3, (0.2, 2): nan}
    runs.scores |= {(0.3, 1): 0.1, (0.3, 2): 0.2}
    summary = tune(tmp_path, {"seed": [1, 2], "learning_rate": [0.1, 0.2, 0.3]})
    rates = [group["settings"]["learning_rate"] for group in summary["groups"]]
    assert rates == [0.3, 0.2, 0.1] and summary["best"] == "runs/learning_rate=0.3,seed=2"
    spread = summary["groups"][1]["scores"]["f1"]
    assert all(math.isnan(value) for value in spread.values())  # min and max included


def test_a_run_that_diverges_ranks_last(runs, tmp_path, caplog):
    runs.scores = {(0.1, 1): DivergedError("epoch 1: not finite"), (0.2, 1): 0.3}
    summary = tune(tmp_path, {"learning_rate": [0.1, 0.2]})
    assert summary["best"] == "runs/learning_rate=0.2" and "epoch 1: not finite" in caplog.text
    assert math.isnan(summary["groups"][1]["runs"]["runs/learning_rate=0.1"]["f1"])
    with pytest.raises(DivergedError):
        tune(tmp_path / "other", {"learning_rate": [0.1]})


def test_a_kill_never_leaves_the_best_model_with_scores_of_another(runs, tmp_path):
    tune(tmp_path / "set", {"seed": [1]})
    runs.scores = {(3e-5, 2): 0.9}
    names = "model", "recipe.yaml", "data.json", "scores.json"

    def write():
        tune(tmp_path / "set", {"seed": [1, 2]})

    assert_old_or_new(tmp_path / "set", tmp_path / "states", write, names)


def test_keeps_finished_runs_when_a_grid_grows(runs, tmp_path):
    tune(tmp_path, {"seed": [1, 2]})
    (tmp_path / "runs" / "seed=2" / "scores.json").unlink()  # as after an interruption
    (tmp_path / "runs" / "seed=2" / "model" / "seed2").unlink()
    (tmp_path / "runs" / "seed=2" / "model").rmdir()
    leftover = tmp_path / "runs" / "seed=1" / "checkpoints" / "ckpt-3.index"
    leftover.touch()  # by a process that was killed while it removed them
    runs.done.clear()
    runs.scores = {(3e-5, 3): 0.5}
    summary = tune(tmp_path, {"seed": [1, 2, 3]})
    assert not leftover.exists() and (tmp_path / "data.json").exists()
    assert runs.done == [(3e-5, 2), (3e-5, 3)]
    assert summary["best"] == "runs/seed=3"
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["seed3"]
    assert summary["groups"][0]["settings"] == {} and len(summary["groups"][0]["runs"]) == 3


def test_run_with_constant_predictions_is_not_the_best(runs, tmp_path):
    runs.scores = {(0.1, 1): math.nan, (0.2, 1): -0.5}
    summary = tune(tmp_path, {"learning_rate": [0.1, 0.2]})
    assert summary["best"] == "runs/learning_rate=0.2"
    assert summary["groups"][0]["scores"]["f1"]["std"] is None  # a single run


def test_paper_grid_has_18_combinations():
    combined = run_set.combinations(PAPER_GRID | {"seed": [1, 2]}, {"model": "base"})
    assert len(combined) == 36
    assert "runs/batch_size=16,learning_rate=5e-05,epochs=2,seed=1" in combined
    # 2 and 4 epochs have different schedules, so they are different runs.
    assert {settings.epochs for _, settings in combined.values()} == {2, 3, 4}


@pytest.mark.parametrize(
    "grid, settings, message",
    [
        ({}, {}, "grid is empty"),
        ({"epoch": [1]}, {}, "unknown setting 'epoch'"),
        ({"epochs": 3}, {}, "epochs needs a list of values"),
        ({"epochs": []}, {}, "epochs needs a list of values"),
        ({"epochs": [2, 0]}, {}, "epochs must be a positive integer"),
        ({"epochs": [2, 2]}, {}, "two runs have the same name, runs/epochs=2"),
        ({"epochs": [2]}, {"epochs": 3}, "epochs has values in the grid and a fixed value"),
        ({"crf": [False, True]}, {}, "crf is not a setting of TextClassifier"),
        ({"metric": ["accuracy", "f2"]}, {}, "metric must be one of accuracy, macro_f1"),
    ],
)
def test_rejects_invalid_grids_before_the_first_run(runs, tmp_path, grid, settings, message):
    with pytest.raises(InputError, match=message):
        tune(tmp_path / "out", grid, **settings)
    assert not runs.done and not (tmp_path / "out").exists()


def test_rejects_a_directory_of_other_settings_or_texts(runs, tmp_path):
    tune(tmp_path, {"seed": [1]})
    with pytest.raises(
        InputError, match="seed=1 contains a finished run with other settings .epochs"
    ):
        tune(tmp_path, {"seed": [0, 1]}, epochs=4)
    with pytest.raises(InputError, match="contains a run on other train texts"):
        finetune_set("base", DEV, DEV, tmp_path, {"seed": [0, 1]})
    with pytest.raises(InputError, match="contains a run. Resume this run"):
        tune(tmp_path, {"seed": [0, 1]}, resume=False)
    with pytest.raises(InputError, match="contains a set of runs"):
        finetune("base", TRAIN, DEV, tmp_path)
    (tmp_path / "one" / "checkpoints").mkdir(parents=True)
    with pytest.raises(InputError, match="contains a single run"):
        tune(tmp_path / "one", {"seed": [1]})
    assert runs.done == [(3e-5, 1)]


def test_rejects_several_workers(runs, tmp_path, monkeypatch):
    workers = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(workers))
    with pytest.raises(InputError, match="a set of runs supports one worker, not 2"):
        tune(tmp_path, {"seed": [1]})


# === The command ===


@pytest.fixture
def command(tmp_path):
    return finetune_command("bert-base-uncased", tmp_path)


def test_runs_seeds_and_a_sweep_from_a_file(runs, command, tmp_path, capsys):
    (tmp_path / "grid.yaml").write_text("learning_rate: [1e-4, 0.2]\nepochs: [2]\n")
    runs.scores = {(0.2, 1): 0.25, (0.2, 2): 0.75}
    assert main([*command, "--seeds", "1,2", "--sweep", str(tmp_path / "grid.yaml")]) == 0
    assert runs.done == [(1e-4, 1), (1e-4, 2), (0.2, 1), (0.2, 2)]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["f1", "mean", "std", "min", "max"]
    expected = ["learning_rate=0.2,epochs=2", "0.5000", "0.3536", "0.2500", "0.7500"]
    assert lines[1].split() == expected
    assert lines[-1].endswith("runs/learning_rate=0.2,epochs=2,seed=2")


def test_seeds_alone_print_every_metric(runs, command, capsys):
    assert main([*command, "--seeds", "1,2", "--epochs=1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["metric", "f1", "accuracy"]
    assert main([*command, "--seeds", "1,2", "--epochs=1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metric"] == "f1" and len(runs.done) == 2


def test_sweep_without_a_file_is_the_paper_grid(runs, command):
    assert main([*command, "--sweep"]) == 0
    assert len(runs.done) == 18


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--seeds", "1,x"], "'1,x' is not a list of whole numbers"),
        (["--seeds", "1,1"], "two runs have the same name, runs/seed=1"),
        (
            ["--seeds", "1,2", "--seed=3"],
            "--seed 3: --sweep or --seeds also sets seed",
        ),
        (["--learning-rate=1e-4", "--sweep"], "also sets learning_rate"),
        (["--sweep", "grid"], "--sweep grid: pass a YAML file."),
        (["--sweep", "gone.yaml"], "cannot read gone.yaml"),
        (["--sweep", "{0}/bad.yaml"], "bad.yaml: epochs must be a positive integer, got 'many'"),
        (["--sweep", "{0}/flat.yaml"], "flat.yaml must contain a line `key: [value, ...]`"),
        (["--sweep", "{0}/seeds.yaml", "--seeds", "1,2"], "both contain seeds"),
    ],
)
def test_command_rejects_invalid_options(runs, command, tmp_path, capsys, arguments, message):
    (tmp_path / "bad.yaml").write_text("epochs: [2, many]\n")
    (tmp_path / "flat.yaml").write_text("epochs: 2\n")
    (tmp_path / "seeds.yaml").write_text("seed: [1, 2]\n")
    assert main([*command, *(argument.format(tmp_path) for argument in arguments)]) == 2
    assert message in capsys.readouterr().err.strip().splitlines()[-1]
    assert not runs.done and not (tmp_path / "out").exists()


# === Real runs ===


@pytest.mark.slow
def test_killed_set_gives_the_same_result(tmp_path):
    base = save_base(tmp_path / "base")

    def start(out, *killed_in):
        return run_script("tests/tasks/set_and_be_killed.py", base, out, *killed_in)

    whole = start(tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr[-3000:]
    # Killed in the second epoch of the second seed.
    assert start(tmp_path / "killed", "2").returncode == -signal.SIGKILL
    killed = tmp_path / "killed"
    assert not (killed / "scores.json").exists() and not (killed / "model").exists()
    before = (killed / "runs" / "seed=1" / "metrics.jsonl").read_bytes()  # includes timestamps
    resumed = start(killed)
    assert resumed.returncode == 0, resumed.stderr[-3000:]
    assert (killed / "runs" / "seed=1" / "metrics.jsonl").read_bytes() == before
    paths = [tmp_path / name / "scores.json" for name in ("whole", "killed")]
    summaries = [json.loads(path.read_text()) for path in paths]
    assert summaries[0] == summaries[1]
    for folder in ("runs/seed=2/model", "model"):
        models = [
            safetensors.numpy.load_file(tmp_path / name / folder / "model.safetensors")
            for name in ("whole", "killed")
        ]
        assert all((models[0][name] == models[1][name]).all() for name in models[0])
    # A set's directory also works as a run directory for prediction and evaluation.
    best = summaries[0]["groups"][0]["runs"][summaries[0]["best"]]
    of_model = {name: score for name, score in best.items() if "/" not in name}
    assert evaluate(tmp_path / "whole", DEV) == of_model
    assert load_tuned(tmp_path / "whole").labels == ["negative", "positive"]
