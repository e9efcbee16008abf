"""tools/bench/step_profile.py: the parts and operations of a step of a tiny classifier."""

from collections import Counter

import pytest

from keras_bert_impl import Encoder, WordPieceTokenizer
from keras_bert_impl.tasks import TextClassifier
from tests.helpers import TINY


@pytest.fixture(scope="module")
def bench(bench):
    return bench("step_profile")


def test_tables_of_a_tiny_model(bench, tmp_path, capsys):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(35))]
    TextClassifier(Encoder(TINY), WordPieceTokenizer(words), num_classes=2).save_pretrained(
        tmp_path
    )
    options = ["--rows", "4", "--lengths", "8", "--rounds", "1", "--dtype", "float32"]
    bench.main(["--model", str(tmp_path), *options])
    printed = capsys.readouterr().out
    assert "4 x 8, float32" in printed
    for row in (
        "whole step",
        "without dropout",
        "forward only",
        "of PyTorch",
        "MatMul",
        "ResourceApplyAdam",
    ):
        assert row in printed


def test_shares_are_of_all_operations(bench):
    lines = bench.table_of_operations(Counter(Mul=30.0, Erf=10.0), Counter(Mul=4, Erf=1), most=1)
    assert lines.splitlines()[2:] == ["| Mul | 4 | 30.0 | 75.0% |"]
