"""The cards of exported networks: their lines of Python load the files."""

import re

import pytest

from keras_bert_impl.serving.formats import NAMES, exporter
from tests.tasks import helpers

PACKAGES = {"onnx": "onnxruntime", "litert": "ai_edge_litert", "openvino": "openvino"}


@pytest.mark.parametrize("file_format", NAMES)
def test_its_code_loads_the_files(file_format, tmp_path, monkeypatch, capsys):
    pytest.importorskip(PACKAGES[file_format])
    exporter(file_format)(helpers.classifier(), tmp_path / "served")
    monkeypatch.chdir(tmp_path / "served")
    code = re.search("```python\n(.*?)```", (tmp_path / "served" / "README.md").read_text(), re.S)
    exec(code[1], {})
    assert {"input_ids", "attention_mask", "logits"} <= set(
        re.findall(r"\w+", capsys.readouterr().out)
    )
