"""The example `learning_curve`."""

import csv
import json

import numpy as np
import pytest
import scipy.stats

from examples.experiments import learning_curve as example
from examples.experiments.learning_curve import draw_examples, learning_curve, main
from keras_bert_impl import InputError
from keras_bert_impl.data.tables.examples import Examples
from keras_bert_impl.utils.io.reading import read_yaml
from tests.tasks.helpers import examples, save_base

NUMBERED = [f"{text} {number}" for number, text in enumerate(examples(60)[0])]
TRAIN = Examples(NUMBERED, examples(60)[1], source="train.csv")
DEV = Examples(*examples(40, seed=9), source="dev.csv")


@pytest.fixture
def runs(monkeypatch):
    """The fine-tuning runs, in order. Their score is (examples + seed) / 100."""
    calls = []

    def finetune(train, dev, output_directory, **options):
        calls.append({"train": train, "dev": dev} | options)
        output_directory.mkdir(parents=True)
        score = (len(train) + options["seed"]) / 100
        scores = {"accuracy": score, "tfidf/accuracy": score / 2}
        (output_directory / "scores.json").write_text(json.dumps(scores))

    monkeypatch.setattr(example, "finetune", finetune)
    monkeypatch.setattr(example.gc, "collect", lambda: None)  # slow
    return calls


def test_points_are_means_with_the_t_interval_of_scipy(runs, tmp_path):
    messages = []
    report = learning_curve(
        "base", TRAIN, DEV, tmp_path, [2, 4], {"full": 1e-4, "head": None}, say=messages.append
    )
    assert report["metric"] == "accuracy" and list(report["curves"]) == ["full", "head", "tfidf"]
    for name, factor in (("full", 1), ("head", 1), ("tfidf", 0.5)):
        for point, size in zip(report["curves"][name], (2, 4), strict=True):
            scores = [(2 * size + seed) / 100 * factor for seed in (1, 2, 3)]
            low, high = scipy.stats.t.interval(0.95, 2, np.mean(scores), scipy.stats.sem(scores))
            assert (point["size"], point["examples"], point["scores"]) == (size, 2 * size, scores)
            expected = [np.mean(scores), low, high]
            np.testing.assert_allclose([point[k] for k in ("value", "low", "high")], expected, 1e-5)
    assert json.loads((tmp_path / "scores.json").read_text()) == report
    assert len(runs) == len(messages) == 12
    assert messages[0] == f"run 1 of 12: {tmp_path}/runs/size=2,tuning=full,seed=1"
    rates = {(run["tuning"], run.get("learning_rate")) for run in runs}
    assert rates == {("full", 1e-4), ("head", None)}
    assert {(run["min_steps"], run["metric"]) for run in runs} == {(200, None)}


def test_methods_share_nested_training_sets_and_the_validation_set(runs, tmp_path):
    learning_curve("base", TRAIN, DEV, tmp_path, [2, 4], ["full", "head"], [1, 2])
    texts = {}
    for run in runs:
        assert run["dev"].texts == DEV.texts
        size = len(run["train"]) // 2
        assert run["train"].label_counts()[1] == {"negative": size, "positive": size}
        texts.setdefault((size, run["seed"]), []).append(run["train"].texts)
    assert all(first == second for first, second in texts.values())
    assert all(set(texts[2, seed][0]) < set(texts[4, seed][0]) for seed in (1, 2))
    assert texts[4, 1] != texts[4, 2]


def test_an_interrupted_experiment_resumes_and_keeps_finished_runs(runs, tmp_path, monkeypatch):
    whole = learning_curve("base", TRAIN, DEV, tmp_path / "whole", [2, 4], ["full"], [1, 2])
    fake, runs[:] = example.finetune, []

    def killed(**options):
        if len(runs) == 3:
            raise KeyboardInterrupt
        fake(**options)

    monkeypatch.setattr(example, "finetune", killed)
    with pytest.raises(KeyboardInterrupt):
        learning_curve("base", TRAIN, DEV, tmp_path / "killed", [2, 4], ["full"], [1, 2])
    part = json.loads((tmp_path / "killed/scores.json").read_text())  # of the finished size
    assert part["curves"]["full"] == whole["curves"]["full"][:1]
    monkeypatch.setattr(example, "finetune", fake)
    again = learning_curve("base", TRAIN, DEV, tmp_path / "killed", [2, 4], ["full"], [1, 2])
    assert again == whole and len(runs) == 4


def test_metric_and_label_names_are_those_of_the_whole_training_set(runs, tmp_path):
    uneven = Examples([f"text {n}" for n in range(60)], ["a"] * 56 + ["b"] * 4)
    learning_curve("base", uneven, uneven, tmp_path, [2], ["full"], [1])
    assert runs[0]["metric"] == "macro_f1" and runs[0]["train"].label_names == ["a", "b"]


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"sizes": [4, 4]}, r"sizes must be different values. Received: \[4, 4"),
        (
            {"sizes": [60, 90]},
            "the size 60 already uses all examples of .*. Leave out the size 90.",
        ),
        ({"seeds": [1, 1]}, "seeds must be different"),
        ({"tuning": []}, "tuning methods must be different values"),
        ({"tuning": ["half"]}, "tuning must be"),
        ({"tuning": ["head", "full"], "adapter_size": 8}, "adapter_size cannot be combined"),
    ],
)
def test_invalid_arguments_start_no_run(runs, tmp_path, changed, message):
    with pytest.raises(InputError, match=message):
        learning_curve("base", TRAIN, DEV, tmp_path / "out", **changed)
    assert not runs and not (tmp_path / "out").exists()


def test_examples_without_one_class_per_text_are_counted_in_total():
    labels = [[name] * (n % 3) for n, name in enumerate("abcdef")]
    data = Examples([f"text {n}" for n in range(6)], labels, ["a", "b", "c", "d", "e", "f"])
    assert len(draw_examples(data, 4)) == 4 and len(draw_examples(data, 40)) == 6
    assert set(draw_examples(data, 2).texts) < set(draw_examples(data, 4).texts)


def write_table(path, data):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *zip(data.texts, data.labels)])


def test_the_command_trains_and_draws_the_curves(tmp_path, capsys):
    save_base(tmp_path / "base")
    write_table(tmp_path / "train.csv", TRAIN)
    write_table(tmp_path / "dev.csv", DEV)
    command = [f"--model={tmp_path}/base", f"--train={tmp_path}/train.csv"]
    command += [f"--dev={tmp_path}/dev.csv", "--text=text", "--label=label", "--seeds=1,2"]
    command += ["--sizes=4", f"--out={tmp_path}/out", "--tune=full:0.01", "--min-steps=10"]
    main([*command, "--verbose=0"])
    report = json.loads((tmp_path / "out/scores.json").read_text())
    capsys.readouterr()
    assert list(report["curves"]) == ["full", "majority", "tfidf"]
    run = tmp_path / "out/runs/size=4,tuning=full,seed=2"
    scores = json.loads((run / "scores.json").read_text())
    assert report["curves"]["full"][0]["scores"][1] == scores["accuracy"]
    assert report["curves"]["tfidf"][0]["scores"][1] == scores["tfidf/accuracy"]
    recipe = read_yaml(run / "recipe.yaml")
    assert (recipe["learning_rate"], recipe["min_steps"]) == (0.01, 10)
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert max(steps) == 12  # 3 epochs of 4 steps of 32 texts: 8 texts, 16 times
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "<polyline" in page and f"{report['curves']['full'][0]['value']:.4f}" in page
    before = (run / "scores.json").stat().st_mtime_ns
    main(command)
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["size", "examples", "full", "majority", "tfidf"]
    point = report["curves"]["full"][0]
    assert f"{point['value']:.4f} [{point['low']:.4f}, {point['high']:.4f}]" in out[1]
    assert (run / "scores.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--sizes=8,x"], "invalid numbers value: '8,x'"),
        (["--tune=full,half"], "tuning must be"),
        (["--tune=full:fast"], "invalid rates value: 'full:fast'"),
        (["--tuning=lora"], "leave out --tuning"),
        (["--seed=4"], "leave out seed: the experiment sets it for each run."),
        (["--adapter-size=4"], "adapter_size cannot be combined with tuning=full"),
        (["--epoch=4"], "`finetune` has no setting 'epoch'"),
        (["--task=tags"], "--task tags: choose tagging, squad, choice"),
        (["--train=gone.csv"], "gone.csv"),
        (["--epochs"], "settings have the form --key value. Received: --epochs"),
    ],
)
def test_the_command_rejects_invalid_options(tmp_path, capsys, arguments, message):
    save_base(tmp_path / "base")
    write_table(tmp_path / "data.csv", DEV)
    command = [f"--model={tmp_path}/base", f"--out={tmp_path}/out", "--text=text", "--label=label"]
    command += [f"--train={tmp_path}/data.csv", f"--dev={tmp_path}/data.csv"]
    with pytest.raises(SystemExit, match="2"):
        main([*command, *arguments])
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()
