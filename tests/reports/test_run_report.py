"""The page of a run: sections, numbers, damaged files, and hostile texts."""

import dataclasses
import json
import logging
import re
import shutil

import keras
import numpy as np
import pytest
from sklearn import metrics as sklearn

from keras_bert_impl import InputError, evaluate, load_tuned, write_report
from keras_bert_impl.data.scores.metrics import METRICS
from keras_bert_impl.data.tables.splits import same_text
from keras_bert_impl.reports import run_report, write_comparison
from keras_bert_impl.reports.sections import scores
from keras_bert_impl.reports.sections.scores import score_name
from tests.docs.blocks import check_command, commands
from tests.reports import pages
from tests.reports.conftest import LABELS
from tests.runs.scores import without_baselines


@pytest.fixture(scope="module")
def page(run, dev, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    path = write_report(run, load_tuned(run), dev, folder / "report.html", folder / "pictures")
    return pages.read(path)


@pytest.fixture
def copy(run, tmp_path):
    """A copy of the run without its model."""
    shutil.copytree(run, tmp_path / "copy", ignore=shutil.ignore_patterns("model", "checkpoints"))
    return tmp_path / "copy"


def predicted(run):
    lines = (run / "predictions.tsv").read_text().splitlines()[1:]
    return np.array([[float(cell) for cell in line.split("\t")[2:4]] for line in lines])


def test_sections_and_their_order(page):
    titles = "Verdict, Scores, Learning curves, Classes, Confusion, Reliability, Thresholds, Worst errors, "
    assert [title for title in page.sections if title] == [*titles.split(", ")[:-1], "Data",
                                                          "Settings", "Use it"]  # fmt: skip


def test_scores_are_those_of_the_run(page, run):
    scores = without_baselines(json.loads((run / "scores.json").read_text()))
    rows = {name: (float(value), bounds) for name, value, bounds in page.tables["Scores"][1:]}
    assert list(rows) == ["accuracy", "macro F1"] == [score_name(name) for name in scores]
    for name, value in scores.items():
        printed, bounds = rows[score_name(name)]
        assert printed == pytest.approx(value, abs=5e-5)
        if name == "macro_f1":
            assert bounds == "–"  # fewer than 50 examples
            continue
        low, high = map(float, bounds.split(" to "))
        assert low <= printed <= high and high - low > 0.01


def test_the_verdict_names_the_baselines_and_their_scores(page, run):
    scores = json.loads((run / "scores.json").read_text())
    (_, *metrics), *rows = page.tables["Verdict"]
    assert [name for name, *_ in rows] == ["model", "majority", "tfidf"]
    printed = {
        f"{name}/{metric}".removeprefix("model/"): float(value)
        for name, *values in rows
        for metric, value in zip(metrics, values, strict=True)
    }
    assert printed == {score_name(n): pytest.approx(v, abs=5e-5) for n, v in scores.items()}
    assert re.search(r"\(p [=<] [\d.]+, n = 37\)", page.sections["Verdict"])


def test_a_calibrated_run_with_a_metric(run, dev, tmp_path):
    """The threshold, the curve of the metric, and each wrong text once."""
    model = load_tuned(run)
    model.thresholds = {"good": 0.875}
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "predictions.tsv").unlink()
    metrics = [{"step": 2 * n, "loss": 0.1, "dev_score": n / 4} for n in (1, 2)]
    lines = "".join(json.dumps(line) + "\n" for line in metrics)
    (tmp_path / "run" / "metrics.jsonl").write_text(lines)
    (tmp_path / "run" / "scores.json").write_text('{"f1/good_one": 0.5}')
    twice = dataclasses.replace(dev, texts=dev.texts * 2, labels=dev.labels * 2, lines=None)
    page = pages.read(write_report(tmp_path / "run", model, twice))
    assert (
        "at least the threshold, 0.8750 in this model (vertical line)."
        in page.sections["Thresholds"]
    )
    assert "threshold of good" in page.sections["Thresholds"]
    curves = page.sections["Learning curves"]
    assert "F1 of good_one" in curves and "Dev score" not in curves
    decisions = model.decide(model.predict(twice.texts, verbose=0))
    wrong = [t for t, c, y in zip(twice.texts, decisions, twice.labels) if model.labels[c] != y]
    assert f"{len(wrong)} of {len(twice)} examples are wrong." in page.sections["Worst errors"]
    assert page.html.count("<dt>true</dt>") == min(20, len(set(map(same_text, wrong))))


def test_scores_of_100_percent_do_not_look_certain():
    labels = np.zeros(14)
    rows = [scores.score_of(n, METRICS[n], labels, labels) for n in ("accuracy", "macro_f1")]
    page = pages.Page(f"<h2>Scores</h2>{scores.scores_html(rows, '14 examples')}")
    assert page.tables["Scores"][1:] == [
        ["accuracy", "1.0000", "0.785 to 1.000"],
        ["macro F1", "1.0000", "–"],
    ]
    assert "Wilson score intervals (accuracy)" in page.sections["Scores"]
    assert "fewer than 50 examples or equal resamples" in page.sections["Scores"]


def test_only_settings_that_were_changed_are_shown(page):
    settings = dict(page.tables["Settings"][1:])
    assert settings.keys() == {"learning_rate", "model", "epochs", "batch_size", "max_length"}
    assert settings["learning_rate"] == "0.03" and settings["model"] == "base"


def test_no_folder_of_this_machine_is_on_the_page(page, run):
    assert str(run.parent) not in page.html
    assert str(run.parent) not in (run / "model" / "README.md").read_text(encoding="utf-8")


def test_classes_are_those_of_scikit_learn(page, run, dev):
    classes = predicted(run).argmax(axis=1)
    true = dev.class_numbers(LABELS)
    expected = np.transpose(sklearn.precision_recall_fscore_support(true, classes, zero_division=0))
    rows = page.tables["Classes"][1:]
    assert [row[0] for row in rows] == LABELS
    numbers = [[float(cell) for cell in row[1:]] for row in rows]
    np.testing.assert_allclose(numbers, expected, atol=5e-5)
    counts = [[int(cell) for cell in row[1:]] for row in page.tables["Confusion"][1:]]
    np.testing.assert_array_equal(counts, sklearn.confusion_matrix(true, classes))


def test_errors_are_listed_by_their_loss(page, run, dev):
    scores, true = predicted(run), dev.class_numbers(LABELS)
    of_truth = scores[np.arange(len(true)), true]
    wrong = np.flatnonzero(scores.argmax(axis=1) != true)
    assert f"{len(wrong)} of {len(true)} examples are wrong" in page.sections["Worst errors"]
    shares = re.findall(r"true.*? \(([\d.]+)%\)", page.sections["Worst errors"])
    expected = np.sort(of_truth[wrong])[:20] * 100
    np.testing.assert_allclose([float(share) for share in shares], expected, atol=0.051)


def test_lines_to_use_the_model_are_accepted(page):
    use = page.sections["Use it"].replace(" \\\n", "")
    calls = [words for line in use.split("\n") for words in commands(line)]
    assert [words[0] for words in calls] == ["predict", "export", "serve", "finetune"]
    for words in calls:
        if words[0] == "finetune":
            words += ["--text", "a", "--label", "b"]
        check_command(words)


def test_nothing_in_a_text_becomes_an_element(page):
    assert page.tags.count("script") == 1 and "img" not in page.tags and page.tags.count("h1") == 1
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "10,000 characters" in page.sections["Worst errors"] or "x" * 50 not in str(
        page.sections
    )


def test_the_page_needs_no_network(page):
    values = [
        value or "" for _, name, value in page.attributes if name in ("src", "href", "srcset")
    ]
    assert values and all(value.startswith("#") for value in values)


def test_structure_for_assistive_technology(page):
    headings = [tag for tag in page.tags if tag in ("h1", "h2", "h3")]
    assert headings[0] == "h1" and headings.count("h1") == 1
    assert page.tags.count("svg") == sum(
        tag == "svg" and name == "aria-label" and bool(value)
        for tag, name, value in page.attributes
    )
    scopes = [value for tag, name, value in page.attributes if tag == "th" and name == "scope"]
    assert len(scopes) == page.tags.count("th")
    assert ("html", "lang", "en") in page.attributes


def test_pictures_are_written_as_svg_and_png(run, dev, tmp_path):
    write_report(run, examples=dev, path=tmp_path / "r.html", pictures=tmp_path / "pictures")
    names = {path.name for path in (tmp_path / "pictures").iterdir()}
    for name in ("confusion", "reliability", "thresholds", "curve-loss"):
        assert {f"{name}.svg", f"{name}.png"} <= names


def test_without_examples_the_files_are_enough(copy):
    page = pages.read(write_report(copy))
    assert list(page.sections)[1:] == [
        "Verdict", "Scores", "Learning curves", "Data", "Settings"
    ]  # fmt: skip
    assert (copy / "report.html").exists()


def test_data_that_the_run_describes(copy):
    data = json.loads((copy / "data.json").read_text())
    data["summary"] |= {
        "train_rows": 1234,
        "train_labels": {"<b>": 1000, "good": 234},
        "lengths": {"50": 12, "95": 80},
        "truncated": 0.125,
        "warnings": ["too <few>"],
    }
    (copy / "data.json").write_text(json.dumps(data))
    text = pages.read(write_report(copy)).sections["Data"]
    for part in ("1,234", "12.5%", "50% up to 12, 95% up to 80", "<b>", "Warning: too <few>"):
        assert part in text


def test_the_command_that_repeats_a_run_has_its_columns(run, copy):
    shutil.copytree(run / "model", copy / "model")
    data = json.loads((copy / "data.json").read_text())
    options = {"train": "/data/a b.csv", "text": "review", "regression": True, "seed": 3}
    data["changed_settings"] = {
        "model": "/models/base",
        "lora_projections": ["query", "key"],
        "class_weight": {"bad & <b>": 2.0},
        "clip_norm": None,
        "crf": True,
    }
    (copy / "data.json").write_text(json.dumps(data | {"read_with": options}))
    text = pages.read(write_report(copy)).sections["Use it"]
    again = text[text.index("keras-bert finetune") :].replace(" \\\n   ", "")
    assert again.split("\n")[0] == (
        "keras-bert finetune --model base --train 'a b.csv' --text review --regression "
        "--out copy-again --lora-projections '[query,key]' "
        """--class-weight '{"bad & <b>": 2.0}' --clip-norm null --crf"""
    )
    assert max(map(len, text.split("\n"))) <= 80
    assert "Add the text and label columns" not in text


@pytest.mark.parametrize("name", ["recipe.yaml", "data.json", "metrics.jsonl", "scores.json"])
@pytest.mark.parametrize("content", [b"\x00\xff", b"[1, 2", b"null", b""])
def test_a_damaged_file_is_named_on_the_page(copy, name, content):
    (copy / name).write_bytes(content)
    page = pages.read(write_report(copy))
    if name != "metrics.jsonl":  # lines that are damaged are dropped
        assert f"Restore {name}, or choose" in page.sections["Unreadable files"]


def test_data_of_unexpected_types(copy):
    summary = {"train_labels": {"a": "many"}, "lengths": [1], "dev_rows": None, "warnings": "few"}
    odd = {"train": {"source": 5}, "dev": 3, "summary": summary}
    (copy / "data.json").write_text(json.dumps(odd))
    (copy / "scores.json").write_text(json.dumps({"f1": float("nan")}))
    page = pages.read(write_report(copy))
    assert page.tables["Scores"][1:] == [["F1", "nan"]]
    assert page.tables["Data"][1:] == [["training", "5", ""]]


def test_what_is_no_run(tmp_path, copy, dev):
    with pytest.raises(InputError, match="is not a directory"):
        write_report(tmp_path / "missing")
    with pytest.raises(InputError, match="is not a run directory"):
        write_report(tmp_path)
    before = (copy / "report.html").read_text(encoding="utf-8")  # of the run itself
    few = type(dev)(dev.texts[:3], dev.labels[:3], source="few.csv")
    with pytest.raises(InputError, match="not for the examples of few.csv, and .* has no model"):
        write_report(copy, examples=few)
    assert (copy / "report.html").read_text(encoding="utf-8") == before


def _changed(dev, rows=None, **columns):
    return dataclasses.replace(dev.select(rows or range(len(dev))), source="other.csv", **columns)


@pytest.mark.parametrize(
    "change",
    [
        lambda dev: dict(rows=range(len(dev))[::-1]),
        lambda dev: dict(rows=range(12)),
        lambda dev: dict(rows=[0, 0, *range(2, len(dev))]),
        lambda dev: dict(texts=[f"{text} dull" for text in dev.texts]),
        lambda dev: dict(labels=dev.labels[::-1]),
        # The prediction file contains only the first 1,000 characters of this text.
        lambda dev: dict(texts=[text[:9_000] for text in dev.texts]),
    ],
)
def test_other_examples_are_predicted_by_the_model(run, dev, tmp_path, change):
    examples = _changed(dev, **change(dev))
    page = pages.read(write_report(run, examples=examples, path=tmp_path / "r.html"))
    expected = evaluate(run, examples)
    assert page.tables["Scores"][1][1] == f"{expected['accuracy']:.4f}"
    page = pages.read(write_comparison([run, run], tmp_path / "c.html", examples))
    assert page.tables["On the same examples"][1][2] == f"{expected['accuracy']:.4f}"


def test_a_run_without_a_fingerprint_is_matched_by_its_rows(copy, dev, tmp_path):
    (copy / "data.json").unlink()
    write_report(copy, examples=dev, path=tmp_path / "r.html")
    with pytest.raises(InputError, match="has no model"):
        write_report(copy, examples=_changed(dev, labels=dev.labels[::-1]))


# === Several runs ===


def test_comparison(run, copy, dev, tmp_path):
    text = (copy / "recipe.yaml").read_text()
    (copy / "recipe.yaml").write_text(text.replace("epochs: 2", "epochs: 3"))
    for folder, count, backend in ((run, 32, None), (copy, 33, "other")):
        data = json.loads((folder / "data.json").read_text())
        data["train"] = {"source": "/a/b.csv", "examples": count, "sha256": "0123456789"}
        data["environment"] |= {"backend": backend} if backend else {}
        (folder / "data.json").write_text(json.dumps(data))
    lines = (copy / "predictions.tsv").read_text().splitlines()
    better = [lines[0]]
    for line, label in zip(lines[1:], dev.class_numbers(LABELS), strict=True):
        number, _, _, _, *described = line.split("\t")
        cells = [number, LABELS[label], str(1 - label), str(label)]
        better.append("\t".join([*cells, *described]))
    (copy / "predictions.tsv").write_text("\n".join(better) + "\n")
    page = pages.read(write_comparison([run, copy], tmp_path / "c.html", dev))
    assert page.tables["Settings that differ"] == [
        ["setting", "run", "copy"],
        ["epochs", "2", "3"],
        ["backend", keras.backend.backend(), "other"],
        ["train (content)", *(f"b.csv, {n} examples, sha256 01234567" for n in (32, 33))],
    ]
    rows = [row for row in page.tables["On the same examples"] if row[0] == "accuracy"]
    right = np.mean(predicted(run).argmax(axis=1) == dev.class_numbers(LABELS))
    assert rows[0][2] == f"{right:.4f}" and rows[1][2:4] == ["1.0000", "0.906 to 1.000"]
    assert rows[1][4] == f"{1 - right:.4f}" and rows[1][6] == "<0.001"
    assert "Learning curves" in page.sections


def test_a_run_compared_with_itself(run, dev, tmp_path):
    page = pages.read(write_comparison([run, run], tmp_path / "c.html", dev))
    assert page.tables["Scores"][0][1:] == ["1: run", "2: run"]
    assert page.tables["On the same examples"][2][4:] == ["0.0000", "–", "1.000"]
    assert "All settings are the same." in page.sections["Settings"]


def test_what_cannot_be_compared(run, copy, dev, tmp_path):
    with pytest.raises(InputError, match="at least two"):
        write_comparison([run], tmp_path / "c.html")
    with pytest.raises(InputError, match="at least two"):
        write_comparison(run, tmp_path / "c.html")
    (copy / "predictions.tsv").unlink()
    with pytest.raises(InputError, match="neither predictions for <dev>.csv nor a model"):
        write_comparison([run, copy], tmp_path / "c.html", dev)
    with pytest.raises(InputError, match="examples of class list"):
        write_comparison([run, copy], tmp_path / "c.html", ["a"])


# === What a finished run writes about itself ===


def test_a_run_has_a_report_and_a_card_with_its_scores(run):
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "<h2" in page and "Confusion" in page
    card = (run / "model" / "README.md").read_text(encoding="utf-8")
    assert "accuracy" in card


def test_an_error_is_a_warning(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        run_report.describe_run(tmp_path / "missing")
    assert "has no complete report: InputError" in caplog.text
