"""tools/serving/matrix.py: every task in every format answers as `predict`."""

import numpy as np
import pytest

from tests.serving.fuzz import load_tool

# float32 sums of some hundred terms in another order, and a softmax behind them.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def matrix():
    return load_tool("matrix")


def test_a_case_in_the_c_api(matrix):
    """By the whole way: texts of all lengths, batches of all sizes, another process."""
    found = matrix.differences(["TextClassifier, regression"], ["C API"])
    assert 0 < found["TextClassifier, regression"]["C API"] <= TOLERANCE


@pytest.mark.slow
def test_all_cases_in_all_formats(matrix):
    for cells in matrix.differences().values():
        assert cells["SavedModel"] is not None and cells["C API"] is not None
        assert all(cell is None or cell <= TOLERANCE for cell in cells.values())


def test_the_table_has_blanks_and_replaces_the_one_before(matrix, tmp_path):
    found = {"one": {"A": 2.4e-7, "B": None}, "other": {"A": 0.0, "B": float("inf")}}
    table = matrix.as_table(found)
    assert table.splitlines()[2:] == ["| one | 2e-07 |  |", "| other | 0e+00 | inf |"]
    path = tmp_path / "page.md"
    path.write_text("# Page\n\n<!-- matrix: begin -->\nold\n<!-- matrix: end -->\n\nBehind.\n")
    matrix.write_between(path, table)
    assert table in path.read_text() and "old" not in path.read_text()
    assert path.read_text().startswith("# Page\n") and path.read_text().endswith("\nBehind.\n")


def test_texts_have_the_lengths_that_are_said():
    models = load_tool("matrix_models")
    features = models.tokenizer()(models.texts())
    lengths = np.sum(features["padding_mask"], axis=1) - 2  # [CLS] and [SEP]
    assert lengths.tolist()[:56] == np.repeat(models.LENGTHS, 8).tolist()
    assert models.LENGTHS[0] == 1 and models.LENGTHS[-1] + 2 == models.POSITIONS == 512
