"""`finetune_glue` and `keras-bert finetune --task glue`."""

import csv
import json
import shutil

import numpy as np
import pytest

from keras_bert_impl import finetune_glue, load_tuned
from keras_bert_impl.cli.main import main
from keras_bert_impl.data.tables.published import TASKS, read_glue
from keras_bert_impl.finetuning import glue, write_glue_tests
from keras_bert_impl.finetuning.glue import SETTINGS
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import read_yaml
from tests.tasks.helpers import examples, save_base


def table(path, columns, rows):
    """Writes a file of the benchmark with the given values in its columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(columns), *("\t".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


PAIR = ("index", "sentence1", "sentence2")
NLI = ("entailment", "neutral", "contradiction")


def pairs(count):
    """Rows of an index and two texts."""
    texts, _ = examples(24)
    return list(zip(range(count), texts, texts[::-1]))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A GLUE folder with MRPC and STS-B, a WNLI without a training set, and an empty RTE."""
    root = tmp_path_factory.mktemp("glue")
    header = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    rows = [(int("g" in first), number, 0, first, second) for number, first, second in pairs(24)]
    table(root / "MRPC/train.tsv", header, rows)
    table(root / "MRPC/dev.tsv", header, rows[::2])
    tests = [(number, *row[1:]) for number, row in enumerate(rows[:7])]
    table(root / "MRPC/test.tsv", ("index", *header[1:]), tests)
    rows = [(*pair, len(pair[1]) % 6) for pair in pairs(24)]
    table(root / "STS-B/train.tsv", (*PAIR, "score"), rows)
    table(root / "STS-B/dev.tsv", (*PAIR, "score"), rows[::2])
    table(root / "STS-B/test.tsv", PAIR, pairs(5))
    table(root / "WNLI/dev.tsv", (*PAIR, "label"), [(*pair, 0) for pair in pairs(4)])
    (root / "RTE").mkdir()
    return root


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """Returns (directory, scores, messages) of a benchmark with two seeds."""
    out = tmp_path_factory.mktemp("out")
    save_base(out / "base")
    messages = []
    seeds = {"seed": [1, 2]}
    options = {"say": messages.append, "epochs": 1, "verbose": 0}
    scores = finetune_glue(out / "base", data, out / "glue", seeds, **options)
    return out, scores, messages


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def predictions(path):
    """Returns the predictions in a file for the server, whose rows are numbered from 0."""
    with open(path, newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    assert [row["index"] for row in rows] == [str(number) for number in range(len(rows))]
    return [row["prediction"] for row in rows]


def test_tasks_without_data_are_skipped_with_a_message(finished):
    _, scores, messages = finished
    assert list(scores["tasks"]) == ["mrpc", "stsb"]
    assert scores["skipped"] == ["cola", "sst2", "qqp", "mnli", "qnli", "rte", "wnli"]
    assert sum(line.startswith("skipped ") for line in messages) == 7


def test_scores_of_runs_are_averaged_as_by_the_benchmark(finished):
    out, scores, _ = finished
    averages = []
    for seed in (1, 2):
        mrpc, stsb = (
            read(out / f"glue/{task}/runs/seed={seed}/scores.json") for task in ("mrpc", "stsb")
        )
        by_task = [
            (mrpc["accuracy"] + mrpc["f1"]) / 2,
            (stsb["pearson"] + stsb["spearman"]) / 2,
        ]
        averages.append(sum(by_task) / 2)
        received = [summary["runs"][f"runs/seed={seed}"] for summary in scores["tasks"].values()]
        assert received == pytest.approx(by_task)
        tfidf = (mrpc["tfidf/accuracy"] + mrpc["tfidf/f1"]) / 2
        assert scores["tasks"]["mrpc"]["baselines"]["tfidf"] == pytest.approx(tfidf)
    assert scores["average"]["mean"] == pytest.approx(np.mean(averages))
    assert scores["average"]["std"] == pytest.approx(np.std(averages, ddof=1))
    assert read(out / "glue/scores.json") == scores


# Two systems of the public leaderboard with the scores of all tasks, in percent.
LEADERBOARD = {
    "BERT-large": (80.5, 60.5, 94.9, (85.4, 89.3), (87.6, 86.5), (89.3, 72.1), (86.7, 85.9), 92.7, 70.1, 65.1),
    "MT-DNN": (81.7, 58.9, 94.6, (86.4, 90.1), (89.5, 88.8), (89.6, 72.7), (86.5, 85.8), 93.1, 79.1, 65.1),
}  # fmt: skip


@pytest.mark.parametrize("system", LEADERBOARD)
def test_published_scores_of_all_nine_tasks_have_the_published_average(
    system, tmp_path, monkeypatch
):
    published, *scores = LEADERBOARD[system]
    for task in TASKS.values():
        named = task.text, task.pair, task.label, task.id
        columns = task.columns or [column for column in named if column]
        label = "1.0" if task.labels is None else next(iter(task.labels))
        row = [label if column == task.label else f"a {column}" for column in columns]
        for split in ("train", "dev", "dev_matched"):
            header = columns if task.columns is None else row
            table(tmp_path / task.folder / f"{split}.tsv", header, [row])

    def trained(model, train, dev, directory, **settings):
        name = directory.name
        values = scores[list(SETTINGS).index(name)]
        names = {"mnli": ("accuracy", "mismatched/accuracy")}.get(name, train.metrics)
        run = dict(zip(names, values if isinstance(values, tuple) else (values,)))
        groups = [{"runs": {"runs/seed=1": run}, "scores": dict.fromkeys(run)}]
        return {"groups": groups, "best": "runs/seed=1"}

    monkeypatch.setattr(glue, "checked_runs", lambda *arguments: None)  # one label per task
    monkeypatch.setattr(glue, "finetune_set", trained)
    monkeypatch.setattr(glue, "write_glue_page", lambda *arguments: None)
    summary = finetune_glue("base", tmp_path, tmp_path / "out")
    assert summary["skipped"] == [] and list(summary["tasks"]) == list(SETTINGS)
    assert summary["average"]["mean"] == pytest.approx(published, abs=0.05)


def test_tasks_have_their_own_settings_unless_given(finished):
    out, *_ = finished
    recipe = read_yaml(out / "glue/mrpc/runs/seed=2/recipe.yaml")
    assert recipe["epochs"] == 1 and recipe["learning_rate"] == SETTINGS["mrpc"]["learning_rate"]


def test_test_predictions_have_the_published_labels_and_range(finished, data):
    out, *_ = finished
    names = {"0": "not_equivalent", "1": "equivalent"}
    answers = load_tuned(out / "glue/mrpc").classify(read_glue("mrpc", data, "test").texts)
    assert [names[value] for value in predictions(out / "glue/test/MRPC.tsv")] == answers
    values = load_tuned(out / "glue/stsb").predict(read_glue("stsb", data, "test").texts)
    scores = [float(value) for value in predictions(out / "glue/test/STS-B.tsv")]
    assert scores == pytest.approx(np.clip(values[:, 0], 0, 5), abs=5.1e-4)


@pytest.mark.parametrize("task", SETTINGS)
def test_answers_become_what_the_server_takes(task, tmp_path):
    """Each class is written as in the published training set, with the index of the test set."""
    spec = TASKS[task]
    number = "id" if task == "qqp" else "index"
    header = [number, spec.text, *filter(None, [spec.pair])]
    table(tmp_path / "test.tsv", header, [(7, *header[1:])])
    assert glue.is_glue_test(task, tmp_path / "test.tsv")
    table(tmp_path / "dev.tsv", [*header, spec.label], [(7, *header[1:], 0)])
    assert not glue.is_glue_test(task, tmp_path / "dev.tsv")
    values = spec.labels or {"0.000": -1.0, "2.500": 2.5, "5.000": 6.0}
    key = "values" if spec.labels is None else "label"
    rows = [
        ({number: "7", "text": ""}, {key: [v] if key == "values" else v}, [])
        for v in values.values()
    ]
    written = glue.as_submitted(task, rows)
    assert [row for row, _, _ in written] == [{"index": "7"}] * len(values)
    assert [answer for _, answer, _ in written] == [{"prediction": value} for value in values]


def test_predict_writes_the_same_file_for_a_test_set(finished, data, tmp_path):
    """Only with `.tsv` files; the other files have the names of the labels."""
    out, *_ = finished
    command = ["predict", f"--input={data}/MRPC/test.tsv", f"--model={out}/glue/mrpc"]
    for columns in ([], ["--text=#1 String", "--pair=#2 String"]):
        assert main([*command, *columns, f"--out={tmp_path}/new.tsv"]) == 0
        assert (tmp_path / "new.tsv").read_bytes() == (out / "glue/test/MRPC.tsv").read_bytes()
    for name, options in [("new.csv", []), ("ids.tsv", ["--id=index"])]:
        assert main([*command, *options, f"--out={tmp_path}/{name}"]) == 0
        assert "equivalent" in (tmp_path / name).read_text()
    command[1] = f"--input={data}/STS-B/test.tsv"  # has other columns than MRPC
    assert main([*command, f"--out={tmp_path}/none.tsv"]) == 2


def test_the_command_writes_the_test_set_of_one_task(finished, data, tmp_path, capsys):
    out, *_ = finished
    table(tmp_path / "STS-B/test.tsv", PAIR, [(3 * number, *texts) for number, *texts in pairs(4)])
    for name in ("train.tsv", "dev.tsv"):
        shutil.copy(data / "STS-B" / name, tmp_path / "STS-B")
    command = ["finetune", "--task=stsb", f"--data={tmp_path}", f"--model={out}/base"]
    command += ["--epochs=1", f"--out={tmp_path}/run"]
    assert main(command) == 0
    written = tmp_path / "run/test/STS-B.tsv"
    assert "predicting" in capsys.readouterr().err
    rows = [line.split("\t") for line in written.read_text().splitlines()]
    assert rows[0] == ["index", "prediction"] and [row[0] for row in rows[1:]] == list("0369")
    assert all(0 <= float(row[1]) <= 5 for row in rows[1:])
    before = written.stat().st_mtime_ns
    assert main(command) == 0 and written.stat().st_mtime_ns == before
    with pytest.raises(InputError, match="the model was not fine-tuned on mrpc: it predicts"):
        write_glue_tests("mrpc", tmp_path / "run", data)
    with pytest.raises(InputError, match="task must be"):
        write_glue_tests("mrcp", tmp_path / "run", data)
    (path,) = write_glue_tests("stsb", tmp_path / "run", tmp_path, tmp_path / "own/files")
    assert path.read_bytes() == written.read_bytes()


def test_the_page_has_the_scores(finished):
    out, scores, _ = finished
    html = (out / "glue/report.html").read_text(encoding="utf-8")
    for spread in (scores["average"], scores["tasks"]["stsb"]["score"]):
        assert f"{spread['mean']:.4f}" in html and f"{spread['std']:.4f}" in html
    assert "does not include tasks without data: cola, sst2, qqp, mnli, qnli, rte, wnli" in html


def test_report_writes_the_page_again_or_compares_benchmarks(finished, tmp_path, capsys):
    out, scores, _ = finished
    html = (out / "glue/report.html").read_text(encoding="utf-8")
    (out / "glue/report.html").unlink()
    assert main(["report", f"{out}/glue"]) == 0
    assert (out / "glue/report.html").read_text(encoding="utf-8") == html
    better = json.loads(json.dumps(scores))
    better["tasks"]["mrpc"]["score"]["mean"] += 0.125
    del better["tasks"]["stsb"]
    (tmp_path / "better").mkdir()
    (tmp_path / "better/scores.json").write_text(json.dumps(better))
    compare = ["report", f"{out}/glue", f"{tmp_path}/better", f"--out={tmp_path}/both.html"]
    assert main(compare) == 0
    html = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert html.count("+0.1250") == 2 and "stsb" not in html  # MRPC, and the average
    assert main([*compare[:2], f"{out}/base"]) == 2
    assert "base contains no scores of `finetune --task glue`" in capsys.readouterr().err
    assert main([*compare, "--pictures=p"]) == 2


@pytest.mark.slow
def test_the_command_adds_a_seed_to_finished_runs(finished, data, capsys):
    out, scores, _ = finished
    before = {path: path.stat().st_mtime_ns for path in out.glob("glue/*/runs/*/scores.json")}
    command = ["finetune", "--task=glue", f"--data={data}", f"--model={out}/base"]
    command += [f"--out={out}/glue", "--epochs=1", "--seeds=1,2,3", "--json"]
    assert main(command) == 0
    again = json.loads(capsys.readouterr().out)
    assert len(before) == 4 and all(path.stat().st_mtime_ns == at for path, at in before.items())
    for name, summary in again["tasks"].items():
        old = scores["tasks"][name]["runs"]
        assert {path: summary["runs"][path] for path in old} == old and len(summary["runs"]) == 3


@pytest.mark.slow
def test_mnli_is_the_mean_of_two_sets_and_predicts_the_diagnostic_set(finished, tmp_path):
    out, *_ = finished
    for split, step in [("train", 1), ("dev_matched", 1), ("dev_mismatched", 2)]:
        rows = [(*pair, NLI[pair[0] * step % 3]) for pair in pairs(9)]
        table(tmp_path / f"MNLI/{split}.tsv", (*PAIR, "gold_label"), rows)
    table(tmp_path / "MNLI/test_matched.tsv", PAIR, pairs(3))
    table(tmp_path / "MNLI/test_mismatched.tsv", PAIR, pairs(4))
    table(tmp_path / "diagnostic/diagnostic.tsv", PAIR, pairs(6))
    rows = [(first, second, NLI[number % 3]) for number, first, second in pairs(6)]
    table(tmp_path / "diagnostic/diagnostic-full.tsv", ("Premise", "Hypothesis", "Label"), rows)
    scores = finetune_glue(out / "base", tmp_path, tmp_path / "out", epochs=1, verbose=0)
    run = read(tmp_path / "out/mnli/runs/seed=1/scores.json")
    mean = (run["accuracy"] + run["mismatched/accuracy"]) / 2
    assert scores["average"]["mean"] == pytest.approx(mean) and scores["average"]["std"] is None
    metrics = scores["tasks"]["mnli"]["metrics"]
    assert metrics["diagnostic/matthews"]["mean"] == run["diagnostic/matthews"]
    model = load_tuned(tmp_path / "out/mnli")
    for file, split in [("MNLI-m", "test_matched"), ("MNLI-mm", "test_mismatched"), ("AX", "test")]:
        task = "diagnostic" if file == "AX" else "mnli"
        answers = model.classify(read_glue(task, tmp_path, split).texts)
        assert predictions(tmp_path / f"out/test/{file}.tsv") == answers


def test_options_of_the_command_that_do_not_fit(data, tmp_path, capsys):
    command = ["finetune", "--task=glue", "--model=base", f"--out={tmp_path}/out"]
    for options, expected in [
        ([], "requires --data"),
        ([f"--data={data}", "--folds=2"], "leave out --"),
        ([f"--data={data}", f"--adapt={data}"], "leave out --adapt"),
        ([f"--data={data}", "--text=a"], "--text is not supported"),
    ]:
        assert main([*command, *options]) == 2
        assert expected in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_setting_that_does_not_fit_one_task_raises_before_the_first_run(finished, data, tmp_path):
    """MRPC has classes, but STS-B, which follows, has numbers."""
    with pytest.raises(InputError, match="class_weight requires one label per text"):
        finetune_glue(finished[0] / "base", data, tmp_path / "out", class_weight="balanced")
    assert not (tmp_path / "out").exists()


def test_data_and_metrics_that_do_not_fit(data, tmp_path):
    with pytest.raises(InputError, match="contains no GLUE task"):
        finetune_glue("base", data / "MRPC", tmp_path / "out")
    with pytest.raises(InputError, match="leave out metric"):
        finetune_glue("base", data, tmp_path / "out", metric="f1")
    with pytest.raises(InputError, match="seed has values in the grid and a fixed value"):
        finetune_glue("base", data, tmp_path / "out", {"seed": [1]}, seed=2)
