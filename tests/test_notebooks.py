"""Runs the notebooks on a CPU from the first cell to the last."""

import os
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

ROOT = Path(__file__).parent.parent
SMALL = """
SOURCE = None
LIBRARIES = 3
PASSAGES = 300
VOCABULARY_SIZE = 1000
MODEL = "bert_uncased_L-2_H-128_A-2"
PRETRAINING_STEPS = 20
BATCH_SIZE = 8
FINETUNING_EPOCHS = 1
# The whole environment is too much to read here: three libraries are enough.
from keras_bert_impl.quickstart import corpus, docstrings
_all = docstrings.installed_files()
_few = [file for file in _all if file[0] in ("numpy", "keras", "safetensors", "tokenizers")]
corpus.installed_files = lambda: _few
"""


@pytest.mark.slow
def test_pretrain_and_finetune(tmp_path):
    notebook = nbformat.read(ROOT / "colab" / "01_pretrain_and_finetune.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # committed without outputs
    position = next(
        number
        for number, cell in enumerate(notebook.cells)
        if "parameters" in cell.metadata.get("tags", [])
    )
    notebook.cells.insert(position + 1, nbformat.v4.new_code_cell(SMALL))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute(env=environment)

    run = tmp_path / "pretrain-and-finetune"
    assert (run / "pretraining" / "model" / "model.safetensors").exists()
    assert (run / "learning-curves.png").stat().st_size > 1000
    printed = "".join(
        output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])
    )
    # The exported model classified three held-out texts in a separate process.
    assert printed.count("(it is ") == 3
    assert sys.version.split()[0] == notebook.metadata.language_info.version
