"""The cards of exported networks: their lines of Python load the files."""

import re

import pytest

from keras_bert_impl import TextEmbedder
from keras_bert_impl.serving.graphs.formats import exporter
from keras_bert_impl.serving.network.export import model_card
from tests.tasks import helpers

PACKAGES = {"onnx": "onnxruntime", "litert": "ai_edge_litert", "openvino": "openvino"}


@pytest.mark.parametrize("file_format", PACKAGES)
def test_its_code_loads_the_files(file_format, tmp_path, monkeypatch, capsys):
    pytest.importorskip(PACKAGES[file_format])
    exporter(file_format)(helpers.classifier(), tmp_path / "served")
    monkeypatch.chdir(tmp_path / "served")
    code = re.search("```python\n(.*?)```", (tmp_path / "served" / "README.md").read_text(), re.S)
    exec(code[1], {})
    assert {"input_ids", "attention_mask", "logits"} <= set(
        re.findall(r"\w+", capsys.readouterr().out)
    )


def test_the_card_of_an_embedder_has_its_default_prompt():
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    for settings, has_prompt in (({}, False), (prompts, True)):
        model = TextEmbedder(helpers.encoder(), helpers.tokenizer(), **settings)
        card = model_card(model, "vectors", "ONNX in fp32", "", "")
        assert ('Put the prompt `"query: "` before each text' in card) is has_prompt
