"""tools/serving/matrix.py: every task in every format gives the answers of `predict`."""

import importlib
import sys

import numpy as np
import pytest

from tests.serving.fuzz import TOOLS

# float32 sums of some hundred terms in another order, followed by a softmax.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def matrix():
    """The module in tools/serving, which is not a package; it imports its neighbors lazily."""
    sys.path.insert(0, str(TOOLS))
    yield importlib.import_module("matrix")
    sys.path.remove(str(TOOLS))


def test_a_network_in_another_runtime(matrix, monkeypatch):
    """Uses texts of all lengths in one batch; the smaller batches take seconds."""
    monkeypatch.setattr(importlib.import_module("matrix_models"), "BATCH_SIZES", (64,))
    name = "NextSentencePredictor"
    differences = matrix.differences([name], ["ONNX Runtime"])
    assert 0 < differences[name]["ONNX Runtime"] <= TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("name", ["TextClassifier, pairs", "TokenClassifier, CRF"])
def test_some_cases_in_all_formats(matrix, name):
    """A part of docs/measurements/formats.md; all of it takes eight minutes of CPU time."""
    cells = matrix.differences([name])[name]
    assert list(cells) == list(matrix.FORMATS)
    assert all(0 < cell <= TOLERANCE for cell in cells.values())


def test_the_table_has_blanks_and_replaces_the_one_before(matrix, tmp_path):
    differences = {"one": {"A": 2.4e-7, "B": None}, "other": {"A": 0.0, "B": float("inf")}}
    table = matrix.as_table(differences)
    assert table.splitlines()[2:] == ["| one | 2e-07 |  |", "| other | 0e+00 | inf |"]
    path = tmp_path / "page.md"
    path.write_text("# Page\n\n<!-- matrix: begin -->\nold\n<!-- matrix: end -->\n\nBehind.\n")
    matrix.write_between(path, table)
    assert table in path.read_text() and "old" not in path.read_text()
    assert path.read_text().startswith("# Page\n") and path.read_text().endswith("\nBehind.\n")


def test_texts_have_the_lengths_that_are_said(matrix):
    models = importlib.import_module("matrix_models")
    features = models.tokenizer()(models.texts())
    lengths = np.sum(features["padding_mask"], axis=1) - 2  # [CLS] and [SEP]
    assert lengths.tolist()[:56] == np.repeat(models.LENGTHS, 8).tolist()
    assert models.LENGTHS[0] == 1 and models.LENGTHS[-1] + 2 == models.POSITIONS == 512
