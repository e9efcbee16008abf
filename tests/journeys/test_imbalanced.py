"""95 of 100 reviews are positive: the verdict, splits, scores, calibration, threshold and service."""

import csv
import json
import os

import numpy as np
import pytest
from sklearn import metrics as sklearn
from sklearn.calibration import calibration_curve

from tests.journeys import journey, reviews
from tests.reports import pages

CLASSES = ["negative", "positive"]


def rows(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        delimiter = "\t" if path.suffix == ".tsv" else ";"
        return list(csv.DictReader(file, delimiter=delimiter))


class Predictions:
    """True and predicted labels of `predictions.tsv`, and the probabilities `[texts, 2]`."""

    def __init__(self, folder):
        predictions = rows(folder / "predictions.tsv")
        self.true = np.array([row["true_label"] for row in predictions])
        self.label = np.array([row["label"] for row in predictions])
        self.scores = np.array([[float(row[name]) for name in CLASSES] for row in predictions])
        self.is_negative = self.true == "negative"

    def check(self, scores):
        """Asserts that scores are those that scikit-learn computes."""
        both = self.true, self.label
        assert list(scores) == ["f1/negative", "accuracy", "macro_f1"]
        f1 = sklearn.f1_score(*both, pos_label="negative")
        assert scores["f1/negative"] == pytest.approx(f1)
        assert scores["accuracy"] == pytest.approx(sklearn.accuracy_score(*both))
        assert scores["macro_f1"] == pytest.approx(sklearn.f1_score(*both, average="macro"))


def check_what_is_read(report):
    """The faults of the file that `reviews.write` makes."""
    assert (report["encoding"], report["delimiter"]) == ("cp1252", ";")
    assert list(report["skipped"].values()) == [reviews.NUM_WITHOUT_TEXT, reviews.NUM_WITHOUT_LABEL]
    texts = reviews.NUM_POSITIVE + reviews.NUM_NEGATIVE + reviews.NUM_REPEATED
    assert report["usable"] == sum(report["classes"].values()) == texts
    assert (report["repeated"], report["repeated_with_other_label"]) == (reviews.NUM_REPEATED, 0)


def check_split(folder, classes):
    """Three tenths of each class are held out, and equal texts are on one side."""
    held = rows(folder / "run" / "dev.csv")
    total, negative = round(0.3 * sum(classes.values())), round(0.3 * classes["negative"])
    labels = [row["verdict"] for row in held]
    assert [labels.count(name) for name in CLASSES] == [negative, total - negative]
    with (folder / "reviews.csv").open(encoding="cp1252", newline="") as file:
        everything = list(csv.DictReader(file, delimiter=";"))
    texts = [row["review"] for row in held]
    of_file = [row["review"] for row in everything if row["review"] in set(texts)]
    assert sorted(texts) == sorted(of_file)


def check_verdict(folder):
    sentences = json.loads((folder / "plain" / "data.json").read_text())["verdict"]["sentences"]
    assert sentences[0].startswith("'negative' is never predicted, but 3")
    assert "does not beat the baseline" in sentences[1] or "is worse than" in sentences[1]
    assert set(Predictions(folder / "plain").label) == {"positive"}


def check_best_epoch(folder, scores):
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    by_epoch = [json.loads(line)["dev_score"] for line in lines]
    assert scores["f1/negative"] == pytest.approx(max(by_epoch))
    assert scores["f1/negative"] > 0.2 > scores["majority/f1/negative"] == 0


def check_calibration(folder, report):
    """The temperature is the best one, and the page shows scikit-learn's curve."""
    predicted = Predictions(folder / "run")
    targets = ~predicted.is_negative

    def loss(temperature):
        powers = predicted.scores ** (1 / temperature)
        return sklearn.log_loss(targets, powers / powers.sum(axis=1, keepdims=True))

    assert loss(1) < min(loss(0.98), loss(1.02))
    confidences, best = predicted.scores.max(axis=1), predicted.scores.argmax(axis=1)
    curve = calibration_curve(best == targets, confidences, n_bins=10)
    table = pages.read(folder / "run" / "report.html").tables["Reliability"][1:]
    np.testing.assert_allclose([float(row[3]) for row in table], curve[0], atol=5e-5)
    np.testing.assert_allclose([float(row[2]) for row in table], curve[1], atol=5e-5)


def check_threshold(folder, report):
    """No threshold of scikit-learn's curve has a better F2 on the validation set."""
    predicted = Predictions(folder / "run")
    score, negative = predicted.scores[:, 0], report["chosen"]["negative"]
    precision, recall, _ = sklearn.precision_recall_curve(predicted.is_negative, score)
    f2 = 5 * precision * recall / np.maximum(4 * precision + recall, 1e-9)
    is_chosen = score >= negative["threshold"]
    expected = sklearn.fbeta_score(predicted.is_negative, is_chosen, beta=2)
    assert expected == pytest.approx(f2.max())
    assert (predicted.label == "negative").tolist() == is_chosen.tolist()
    assert negative["precision"] == sklearn.precision_score(predicted.is_negative, is_chosen)
    assert negative["recall"] == sklearn.recall_score(predicted.is_negative, is_chosen)


def check_against(folder, report):
    against = report.pop("against")
    Predictions(folder / "scored").check(report)
    assert (against["metric"], against["new"]) == ("f1/negative", report["f1/negative"])
    assert against["old"] == 0 < against["gain"]["low"]


def check_served(folder, answers, threshold):
    """The service decides by the threshold, as `evaluate` did in the process that trained."""
    scores = np.array([answer["scores"] for answer in answers])
    predicted = Predictions(folder / "scored")
    np.testing.assert_allclose(scores, predicted.scores[: len(scores)], atol=1e-5)
    decided = [CLASSES[int(score < threshold)] for score in scores[:, 0]]
    assert [answer["label"] for answer in answers] == decided
    assert decided != [CLASSES[number] for number in scores.argmax(axis=1)]


@pytest.mark.slow
@pytest.mark.parametrize("source", ["made", "sst2"])
def test_imbalanced(source, programs, tmp_path, model):
    if source == "sst2":
        if "GLUE" not in os.environ:
            pytest.skip("set GLUE to a folder that contains SST-2/train.tsv")
        reviews.write(tmp_path, *reviews.sst2(os.environ["GLUE"]))
    parts = journey.go("imbalanced.sh", programs, tmp_path, model)
    check_all(tmp_path, parts)


def check_all(folder, parts):
    checked, _, scores, calibrated, _, against, served = parts
    checked, calibrated = json.loads(checked), json.loads(calibrated)
    check_what_is_read(checked)
    check_split(folder, checked["classes"])
    check_verdict(folder)
    check_best_epoch(folder, json.loads(scores))
    check_calibration(folder, calibrated)
    check_threshold(folder, calibrated)
    check_against(folder, json.loads(against))
    answers = json.loads(served)["predictions"]
    assert len(answers) == reviews.NUM_ASKED
    check_served(folder, answers, calibrated["chosen"]["negative"]["threshold"])
