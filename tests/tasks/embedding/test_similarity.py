"""Similarity of pairs: scores, and `keras-bert finetune --task similarity` and `predict`."""

import csv
import json

import numpy as np
import pytest
import scipy.stats

from keras_bert_impl import TextEmbedder
from keras_bert_impl.cli.main import main
from keras_bert_impl.tasks import (
    Examples,
    SimilarityExamples,
    load_embedder,
    load_tuned,
    read_table,
    sts_scores,
)
from keras_bert_impl.tasks.embedding.task import Similarity
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import examples, save_base

TEXTS, _ = examples(count=16)
PAIRS = list(zip(TEXTS, TEXTS[::-1]))
SCORES = np.random.default_rng(0).integers(0, 21, 16) / 4  # 0 to 5, as in STS-B


def write_table(path):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["one", "other", "score"])
        writer.writerows([*pair, score] for pair, score in zip(PAIRS, SCORES))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("similarity")
    save_base(folder / "base")
    write_table(folder / "pairs.csv")
    settings = [
        "--epochs=1",
        "--loss=cosent",
        "--pooling=cls",
        "--max-length=8",
        "--long-texts=mean",
    ]
    assert finetune(folder, "run", *settings) == 0
    return folder


def finetune(folder, out, *options):
    table = ["--train", str(folder / "pairs.csv"), "--dev", str(folder / "pairs.csv")]
    columns = ["--text", "one", "--pair", "other", "--label", "score"]
    return main(
        ["finetune", "--model", str(folder / "base"), "--task", "similarity", *table, *columns]
        + ["--out", str(folder / out), *options]
    )


@pytest.mark.slow
def test_saved_run_has_the_same_scores(folder):
    model = load_tuned(folder / "run")
    assert isinstance(model, TextEmbedder)
    assert (model.loss_name, model.pooling, model.max_length) == ("cosent", "cls", 8)
    assert model.long_texts.way == "mean"
    data = read_table(folder / "pairs.csv", "one", "other", "score", numeric=True)
    cosines = model.similarities(data.texts)
    scores = json.loads((folder / "run" / "scores.json").read_text())
    # The same sums as in scipy, in another order.
    assert scores["pearson"] == pytest.approx(scipy.stats.pearsonr(SCORES, cosines)[0], abs=1e-12)
    assert scores["spearman"] == pytest.approx(scipy.stats.spearmanr(SCORES, cosines)[0], abs=1e-12)
    assert sts_scores(model, data) == scores
    lines = (folder / "run" / "predictions.tsv").read_text().splitlines()
    assert lines[0] == "index\tcosine\ttrue_label\tline\ttext\tpair"
    np.testing.assert_array_equal(
        np.array([line.split("\t")[1] for line in lines[1:]], "float32"), cosines
    )


@pytest.mark.slow
def test_predicts_similarities_of_pairs(folder, capsys):
    table = [str(folder / "pairs.csv"), "--text", "one", "--pair", "other"]
    assert main(["predict", "--model", str(folder / "run"), "--input", *table]) == 0
    printed = [float(line) for line in capsys.readouterr().out.splitlines()]
    expected = load_embedder(folder / "run").similarities(PAIRS)
    np.testing.assert_allclose(printed, expected, atol=5.1e-5)  # printed with four digits


@pytest.mark.parametrize(
    "labels, expected",
    [
        ([0.0, 2.5, 5.0], [0, 0.5, 1]),
        ([1.0, 3.0, 5.0], [0, 0.5, 1]),
        ([-1.0, 0.0, 0.5], [-1, 0, 0.5]),  # already cosines
        ([0.0, 1.0, 1.0], [0, 1, 1]),
    ],
)
def test_scales_labels_to_cosines(labels, expected):
    pairs = SimilarityExamples.of(Examples(PAIRS[:3], labels))
    _, y = Similarity(pairs, pairs).inputs(pairs)
    np.testing.assert_array_equal(y, np.array(expected, "float32"))


def test_rejects_invalid_input(folder, capsys):
    with pytest.raises(InputError, match="similarity examples must be pairs of texts"):
        SimilarityExamples.of(Examples(TEXTS, SCORES.tolist()))
    with pytest.raises(InputError, match="labels of similarity examples must be numbers"):
        SimilarityExamples.of(Examples(PAIRS, ["near"] * 16))
    with pytest.raises(InputError, match="all pairs have the label 3.0"):
        same = SimilarityExamples.of(Examples(PAIRS, [3.0] * 16))
        Similarity(same, same)
    assert finetune(folder, "other", "--loss=triplet") == 2
    assert "loss must be cosine or cosent for these examples" in capsys.readouterr().err
    assert finetune(folder, "other", "--crf") == 2
    assert "crf is not a setting of TextEmbedder" in capsys.readouterr().err
    assert not (folder / "other").exists()
