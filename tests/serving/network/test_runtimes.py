"""LiteRT and OpenVINO files agree with Keras for any shape, or the export is refused."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from keras_bert_impl.cli.main import main
from keras_bert_impl.serving.litert import Session as LiteRTSession
from keras_bert_impl.serving.litert import export_litert
from keras_bert_impl.serving.network import proof
from keras_bert_impl.serving.openvino import Session as OpenVINOSession
from keras_bert_impl.serving.openvino import export_openvino
from keras_bert_impl.utils.errors import InputError
from tests.helpers import random_features
from tests.serving.litert.operators import check_builtin
from tests.serving.network_models import (
    ARCHITECTURES,
    FEW_HEADS,
    TEXTS_OF_DOCS,
    TOLERANCE,
    difference_from_keras,
    encoder,
    export_command,
    models,
    probabilities_of_docs,
)
from tests.tasks import helpers


class Runtime(NamedTuple):
    """A file format and its reader."""

    title: str
    export: Callable
    session: Callable
    file: str
    package: str
    check: Callable = lambda directory: None

    def open(self, model, directory):
        """Exports a model to a directory; returns a session on it."""
        self.export(model, directory)
        self.check(directory)
        return self.session(directory / self.file, getattr(model, "encoder", model).config)

    def check_agreement(self, instances, folder):
        """Checks that each model in a dict agrees with Keras."""
        differences = {
            name: difference_from_keras(self.open(model, folder / name), model)
            for name, model in instances.items()
        }
        assert {name: value for name, value in differences.items() if not value <= TOLERANCE} == {}


RUNTIMES = {
    "litert": Runtime(
        "LiteRT", export_litert, LiteRTSession, "model.tflite", "ai_edge_litert", check_builtin
    ),
    "openvino": Runtime("OpenVINO", export_openvino, OpenVINOSession, "model.xml", "openvino"),
}


@pytest.fixture(scope="module", params=RUNTIMES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def runtime(name):
    return RUNTIMES[name]


@pytest.fixture(scope="module")
def long(runtime, tmp_path_factory):
    """(an encoder with 512 positions, a session on its file)."""
    model = helpers.encoder(max_length=512)
    return model, runtime.open(model, tmp_path_factory.mktemp("long") / "served")


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("length", [1, 7, 64, 512])
def test_any_batch_and_length(long, batch, length):
    model, session = long
    # One session handles two shapes.
    for lengths in ([length, *[max(1, length // 2)] * (batch - 1)], [3, 2]):
        features = random_features(model.config, lengths)
        assert difference_from_keras(session, model, features) <= TOLERANCE


@pytest.mark.parametrize("wrong", [-1, 10_000])
def test_an_id_without_embedding_is_no_other_one(long, wrong, monkeypatch):
    model, session = long
    features = random_features(model.config, [5, 5])
    expected = session(features)["last_hidden_state"]
    features["token_ids"] = np.array(features["token_ids"])
    features["token_ids"][1, 2] = wrong
    with pytest.raises(InputError, match=rf"Received: {wrong} at \[1, 2\]"):
        session(features)
    monkeypatch.setattr(proof, "check_values", lambda *_: None)  # like a client that does not check
    try:
        outputs = session(features)["last_hidden_state"]
    except (RuntimeError, ValueError):
        return
    assert np.isnan(outputs[1]).all()
    np.testing.assert_allclose(outputs[0], expected[0], atol=TOLERANCE)


def test_modernbert_agrees_with_keras(runtime, tmp_path):
    runtime.check_agreement({"encoder": encoder("modernbert")}, tmp_path)


@pytest.mark.slow
def test_heads_of_bert_agree_with_keras(runtime, tmp_path):
    runtime.check_agreement(models("bert"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(ARCHITECTURES)[1:])
def test_heads_of_others_agree_with_keras(runtime, kind, tmp_path):
    runtime.check_agreement(models(kind, FEW_HEADS), tmp_path)


@pytest.mark.slow
def test_command_writes_what_serves_without_the_model(runtime, name, tmp_path, capsys):
    model = helpers.classifier()
    command = export_command(model, tmp_path, name)
    assert main([*command, "--out", str(tmp_path / "none"), "--max-drop", "-1"]) == 2
    lines = capsys.readouterr().err.strip().split("\n")
    assert "drops from" in lines[-1] and not (tmp_path / "none").exists()

    assert main([*command, "--out", str(tmp_path / "out"), "--max-drop", "0"]) == 0
    assert f"wrote the {runtime.title} model" in capsys.readouterr().err
    received = probabilities_of_docs(runtime.package, tmp_path / "out")
    expected = model.predict(TEXTS_OF_DOCS, verbose=0)
    np.testing.assert_allclose(received, expected, atol=TOLERANCE)
