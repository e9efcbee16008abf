"""The first run of the pre-training tutorial works as written."""

import json
from pathlib import Path

import pytest

from keras_bert_impl.cli import main as cli
from tests.docs import blocks

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "pretraining-tutorial.md"


@pytest.mark.slow
def test_the_first_run(tmp_path, monkeypatch):
    section = PAGE.read_text(encoding="utf-8").split("\n## ")[1]
    assert section.startswith("A first run")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    for _, source in blocks.blocks(section, "python"):
        exec(source, {})
    for _, source in blocks.blocks(section, "bash"):
        for words in blocks.commands(source):
            assert cli.main(words) == 0
    # Always predicting the most frequent token gives 0.08.
    scores = json.loads((tmp_path / "pretrained" / "scores.json").read_text())
    assert scores["masked_lm_accuracy"] > 0.11
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert scores["accuracy"] > 0.8
