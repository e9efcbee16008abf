"""Anchors and their positives: scores, and `keras-bert finetune --task similarity`."""

import csv
import json

import numpy as np
import pytest
import sklearn.metrics

from keras_bert_impl.cli.main import main
from keras_bert_impl.tasks import AnchorExamples, Examples, anchor_scores
from keras_bert_impl.tasks.embedding.task import Anchors
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import examples, save_base


class Embedder:
    """Looks up the vectors of texts in a dict."""

    def __init__(self, vectors):
        self.vectors = vectors

    def predict(self, texts, verbose=0):
        return np.array([[self.vectors[text] for text in row] for row in texts], "float32")


def random_vectors(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 3)).astype("float32")


def test_scores_equal_scikit_learn():
    names = [f"{kind}{row}" for kind in "apn" for row in range(9)]
    vectors = dict(zip(names, random_vectors(27)))
    vectors |= {f"p{i}": vectors[f"p{i}"] + vectors[f"a{i}"] for i in range(9)}
    rows = [(f"a{i}", f"p{i}", f"n{i}") for i in range(9)]
    scores = anchor_scores(Embedder(vectors), AnchorExamples(rows))
    anchors, candidates = ([vectors[name] for name in part] for part in (names[:9], names[9:]))
    cosines = sklearn.metrics.pairwise.cosine_similarity(anchors, candidates)
    # With one positive, the average precision is 1 / rank.
    mrr = sklearn.metrics.label_ranking_average_precision_score(np.eye(9, 18), cosines)
    recall = sklearn.metrics.top_k_accuracy_score(range(9), cosines, k=1, labels=range(18))
    nearer = cosines[range(9), range(9)] > cosines[range(9), range(9, 18)]
    assert scores == pytest.approx({"accuracy": nearer.mean(), "mrr": mrr, "recall_at_1": recall})
    assert 0 < recall < mrr < 1  # otherwise the comparison is trivial
    pairs = anchor_scores(Embedder(vectors), AnchorExamples([row[:2] for row in rows]))
    assert set(pairs) == {"mrr", "recall_at_1"} and pairs["mrr"] >= scores["mrr"]


@pytest.mark.parametrize("noise", [0.0, 1e-8])
def test_collapsed_vectors_score_lowest(noise):
    names = [f"{kind}{row}" for kind in "apn" for row in range(9)]
    vectors = np.float32(1) + noise * random_vectors(27)
    rows = [(f"a{i}", f"p{i}", f"n{i}") for i in range(9)]
    scores = anchor_scores(Embedder(dict(zip(names, vectors))), AnchorExamples(rows))
    # All 18 candidates are equally near: scikit-learn ranks each of them last.
    mrr = sklearn.metrics.label_ranking_average_precision_score(np.eye(9, 18), np.ones((9, 18)))
    assert scores == {"accuracy": 0.0, "mrr": pytest.approx(mrr), "recall_at_1": 0.0}
    assert mrr == pytest.approx(1 / 18)


def test_equal_cosines_rank_as_in_scikit_learn():
    draw = np.random.default_rng(0).integers(-1, 2, size=(40, 2)) + [0.5, 0.5]  # nine directions
    names = [f"{kind}{row}" for kind in "ap" for row in range(20)]
    rows = [(f"a{i}", f"p{i}") for i in range(20)]
    scores = anchor_scores(Embedder(dict(zip(names, draw))), AnchorExamples(rows))
    cosines = sklearn.metrics.pairwise.cosine_similarity(draw[:20], draw[20:]).round(6)
    mrr = sklearn.metrics.label_ranking_average_precision_score(np.eye(20), cosines)
    assert scores["mrr"] == pytest.approx(mrr)


@pytest.mark.parametrize("broken", ["a3", "p3", "n3"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_nan_vectors_have_nan_scores(broken, number):
    names = [f"{kind}{row}" for kind in "apn" for row in range(9)]
    vectors = dict(zip(names, random_vectors(27)))
    vectors[broken] = np.array([1, number, 1], "float32")
    rows = [(f"a{i}", f"p{i}", f"n{i}") for i in range(9)]
    scores = anchor_scores(Embedder(vectors), AnchorExamples(rows))
    assert list(scores) == ["accuracy", "mrr", "recall_at_1"]
    assert np.isnan(list(scores.values())).all()


def test_duplicate_positives_are_one_candidate():
    vectors = dict(zip("abpq", random_vectors(4)))
    vectors["q"] = -vectors["p"]
    vectors["a"] = vectors["b"] = vectors["p"]
    rows = [("a", "p"), ("b", "p"), ("a", "q")]
    assert anchor_scores(Embedder(vectors), AnchorExamples(rows))["mrr"] == pytest.approx(5 / 6)


def test_rejects_invalid_anchors():
    with pytest.raises(InputError, match="anchor examples must be tuples of texts"):
        AnchorExamples.of(Examples(["a"]))
    with pytest.raises(InputError, match="anchor examples must not have labels"):
        AnchorExamples.of(Examples([("a", "b")], [1.0]))
    two, three = (AnchorExamples([tuple("abc"[:n])], source=f"set {n}") for n in (2, 3))
    with pytest.raises(InputError, match="set 2 has 2 texts per example, but set 3 has 3"):
        Anchors(two, three)


@pytest.fixture
def command(tmp_path):
    save_base(tmp_path / "base")
    texts, _ = examples(count=24)
    with open(tmp_path / "threes.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "answer", "other"])
        writer.writerows(zip(texts[:8], texts[8:16], texts[16:]))
    table = tmp_path / "threes.csv"
    files = ["--model", tmp_path / "base", "--train", table, "--dev", table, "--out"]
    columns = ["--task", "similarity", "--text", "question", "--pair", "answer"]
    return [*columns, *map(str, [*files, tmp_path / "run"])]


@pytest.mark.slow
def test_command_trains_on_triplets(command, tmp_path, capsys):
    settings = ["--loss=triplet", "--epochs=1", "--max-length=16"]
    negative = ["--negative", "other"]
    assert main(["finetune", *command, *negative, "--json", *settings]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert list(scores) == ["accuracy", "mrr", "recall_at_1"]
    rows = [line.split("\t") for line in (tmp_path / "run" / "predictions.tsv").open()]
    assert rows[0] == ["index", "positive", "negative", "rank\n"] and len(rows) == 9
    nearer = np.mean([float(row[1]) > float(row[2]) for row in rows[1:]])
    assert scores["accuracy"] == nearer
    assert scores["mrr"] == pytest.approx(np.mean([1 / int(row[3]) for row in rows[1:]]))
    at = command.index("--train")
    evaluated = ["evaluate", *command[:6], "--model", str(tmp_path / "run"), *command[at + 2 : -2]]
    assert main([*evaluated, *negative, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == scores


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--loss=triplet"], "loss must be multiple_negatives for these examples"),
        (
            ["--negative", "other", "--loss=cosent"],
            "loss must be multiple_negatives or triplet for",
        ),
    ],
)
def test_rejects_unsuitable_losses(command, tmp_path, capsys, arguments, message):
    assert main(["finetune", *command, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
