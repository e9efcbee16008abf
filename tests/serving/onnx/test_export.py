"""ONNX exports: accompanying files, checks before writing, and rejected models."""

import collections

import numpy as np
import onnx
import pytest

from keras_bert_impl.cli.main import main
from keras_bert_impl.serving import onnx as onnx_export
from keras_bert_impl.serving.network.proof import answered_by
from keras_bert_impl.serving.onnx import Session, export_onnx, write_graph
from keras_bert_impl.tokenizers import Tokenizer
from tests.serving.network_models import export_command, models
from tests.tasks import helpers

TEXTS = ["a good film", "what a dull plot", "bad", "the plot is awful"]
CHOICES = [("a film", ["is bad", "is very good", "good"]), ("the", ["plot", "joy"])]


@pytest.fixture(scope="module")
def made():
    return models("bert", ("classifier", "tags", "answers", "choice", "vectors", "encoder"))


def operators(directory):
    graph = onnx.load(directory / "model.onnx").graph
    return collections.Counter(node.op_type for node in graph.node)


def test_directory_serves_without_the_model(made, tmp_path):
    model = made["classifier"]
    report = export_onnx(model, tmp_path / "served")
    assert report.difference <= 1e-5 and report.before is None
    assert sorted(file.name for file in (tmp_path / "served").iterdir()) == [
        "README.md",
        "config.json",
        "model.onnx",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    ]
    features = Tokenizer.from_pretrained(tmp_path / "served")(TEXTS)
    logits = Session(tmp_path / "served/model.onnx", model.config)(features)["logits"]
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(scores, model.predict(TEXTS, verbose=0), atol=1e-5)


def test_half_precision_has_half_the_weights(made, tmp_path):
    sizes = {}
    for precision in ("fp32", "fp16"):
        report = export_onnx(made["encoder"], tmp_path / precision, precision)
        weights = onnx.load(tmp_path / precision / "model.onnx").graph.initializer
        sizes[precision] = sum(len(tensor.raw_data) for tensor in weights)
    assert 1e-6 < report.difference < 5e-3  # 11 bits
    assert sizes["fp16"] < 0.51 * sizes["fp32"]


def test_dynamic_quantization_uses_the_fused_blocks(made, tmp_path):
    report = export_onnx(made["classifier"], tmp_path / "int8", "int8")
    counts = operators(tmp_path / "int8")
    assert counts["QAttention"] == 2 and counts["QEmbedLayerNormalization"] == 1
    assert counts["MatMul"] == counts["Attention"] == 0
    assert 1e-4 < report.difference < 0.2


def test_static_quantization_takes_scales_from_texts(made, tmp_path):
    report = export_onnx(made["classifier"], tmp_path / "int8", "int8", calibration=TEXTS)
    counts = operators(tmp_path / "int8")
    # All inputs of weight matrices: six per layer, the pooler and the head.
    assert counts["QuantizeLinear"] and counts["DynamicQuantizeLinear"] == 0
    weights = onnx.load(tmp_path / "int8/model.onnx").graph.initializer
    assert sum(t.data_type == onnx.TensorProto.INT8 and len(t.dims) == 2 for t in weights) == 14
    assert 1e-4 < report.difference < 0.2


@pytest.mark.parametrize(
    "name, x",
    [
        ("classifier", TEXTS),
        pytest.param("tags", TEXTS, marks=pytest.mark.slow),
        ("answers", [("what film", "a good film is a joy " * 8), ("bad", "a dull plot")]),
        pytest.param("choice", CHOICES, marks=pytest.mark.slow),
        ("vectors", [("a film", "the plot"), ("bad", "good")]),
    ],
)
def test_predict_by_onnx_runtime_is_that_of_the_network(made, name, x):
    model = made[name]
    session = Session(write_graph(model).SerializeToString(), model.config)
    expected = model.predict(x, verbose=0)
    weights = model.get_weights()
    model.set_weights([0 * weight for weight in weights])  # so the network itself cannot answer
    try:
        with answered_by(session, model):
            received = model.predict(x, verbose=0)
    finally:
        model.set_weights(weights)

    def numbers(answers):
        if name == "answers":
            answers = [[(a.start, a.end, a.score) for a in best[:1]] for best in answers]
        return np.concatenate([np.ravel(answer) for answer in answers])

    np.testing.assert_allclose(numbers(received), numbers(expected), atol=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_weights_of_large_models_go_to_a_second_file(tmp_path, monkeypatch, precision):
    monkeypatch.setattr(onnx_export, "_LARGE", 1000)
    model = helpers.encoder(hidden_dim=64, intermediate_dim=64)
    report = export_onnx(model, tmp_path / "served", precision)
    files = {file.name: file.stat().st_size for file in (tmp_path / "served").glob("model*")}
    assert len(files) == 2 and sum(files.values()) == report.bytes


# === The command ===


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("folder")


@pytest.fixture(scope="module")
def command(folder):
    """The arguments that export a saved classifier, without `--out`."""
    return export_command(helpers.classifier(), folder, "onnx")


def test_command_prints_the_scores(command, folder, capsys):
    gate = ["--precision", "int8", "--max-drop", "100"]
    assert main([*command, *gate, "--out", str(folder / "out")]) == 0
    message = capsys.readouterr().err
    assert "score " in message and " before and " in message
    assert (folder / "out" / "model.onnx").exists()


def test_command_reports_errors_on_one_line(command, folder, capsys):
    assert main([*command, "--max-drop", "-1", "--out", str(folder / "none")]) == 2
    lines = capsys.readouterr().err.strip().split("\n")
    assert len(lines) == 1 and "drops from" in lines[0]
    assert not (folder / "none").exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ["--precision", "int8"],
            "--precision requires --format onnx or litert or openvino or mediapipe",
        ),
        (["--standard", "--format", "openvino"], "--standard requires --format onnx"),
        (
            ["--calibrate", "a", "--format", "litert"],
            "--calibrate requires --format onnx or openvino",
        ),
        (["--ids-only", "--format", "litert"], "--ids-only requires --format saved_model"),
        (
            ["--precision", "bf16", "--format", "onnx"],
            "--precision bf16 requires --format openvino",
        ),
    ],
)
def test_rejects_arguments_that_a_format_does_not_support(arguments, message, capsys):
    assert main(["export", "--model", "run", "--out", "none", *arguments]) == 2
    assert message in capsys.readouterr().err
