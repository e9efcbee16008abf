"""The way from a call to the first matrix product is short, so that it can be read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "count_spine.py"
MOST_FILES = {"from_pretrained": 47, "fit": 42, "export": 45}
MOST_FRAMES_OF_FIT = 14


@pytest.fixture(scope="module")
def counts():
    ended = subprocess.run(
        [sys.executable, str(PROGRAM)], capture_output=True, text=True, check=True
    )
    return json.loads(ended.stdout)


@pytest.mark.parametrize("way", MOST_FILES)
def test_a_call_enters_few_files(counts, way):
    pytest.importorskip("tensorflow_text")  # without it the tokenizer has more steps of its own
    files = counts[way]["files"]
    print(way, len(files), *files, sep="\n")
    assert 0 < len(files) <= MOST_FILES[way]


def test_few_frames_lie_above_the_first_matrix_product_of_fit(counts):
    frames = counts["fit"]["frames"]
    print(len(frames), *frames, sep="\n")
    assert frames[0].endswith("RawTextTrainer.fit")
    assert frames[-1].endswith("Dense.call")
    assert len(frames) <= MOST_FRAMES_OF_FIT
