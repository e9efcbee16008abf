"""Keras finds the classes of this package by name in a `.keras` file."""

import copy
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_bert_impl
from keras_bert_impl import AdamW, MaskedLM, TextClassifier
from keras_bert_impl.tasks.base import task_model
from keras_bert_impl.utils import lazy
from tests.tasks import helpers

ROOT = Path(keras_bert_impl.__file__).parent
_NAMES = re.compile(r'register_keras_serializable\("([\w.]+)"\)\n(?:@.*\n)*class (\w+)')
SOURCES = {
    f"{package}>{name}": ".".join(
        ["keras_bert_impl", *path.relative_to(ROOT).with_suffix("").parts]
    )
    for path in sorted(ROOT.rglob("*.py"))
    for package, name in _NAMES.findall(path.read_text(encoding="utf-8"))
}


def run(code, *arguments):
    process = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT.parent
    )
    assert not process.returncode, process.stderr[-800:]
    return process.stdout.strip()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    model = helpers.classifier(dropout=0.0)
    model.save(path)
    return str(path), model.predict(["good film"], verbose=0)


@pytest.mark.parametrize(
    "line",
    [
        "import keras, keras_bert_impl",
        "from keras_bert_impl import Encoder; import keras",
        "from keras_bert_impl import TextClassifier; import keras",
    ],
)
def test_load_model_finds_the_classes_after_an_import(saved, line):
    path, scores = saved
    code = f"{line}, sys; m = keras.saving.load_model(sys.argv[1])\n"
    code += "print(*m.predict(['good film'], verbose=0)[0])"
    received = [float(word) for word in run(code, path).split()]
    assert received == pytest.approx(scores[0].tolist(), abs=1e-6)


def test_without_an_import_the_message_is_short_and_names_it(saved):
    code = "import keras, sys; keras.saving.load_model(sys.argv[1])"
    process = subprocess.run([sys.executable, "-c", code, saved[0]], capture_output=True, text=True)
    message = process.stderr[process.stderr.index("TypeError: Could not locate class") :]
    assert (
        "import keras_bert_impl after keras, or from keras_bert_impl import TextC" in message[:600]
    )
    assert "##" not in message and len(message) < 6000


def test_every_registered_class_is_imported_when_keras_loads_it():
    table = {
        ".".join(["keras_bert_impl", *entry.split(">")[:-1]]) + f">{entry.rpartition('>')[2]}"
        for names in lazy.REGISTERED.values()
        for entry in names.split()
    }
    assert table == SOURCES.keys() and len(table) > 50
    code = """
import keras, keras_bert_impl
registered = keras.saving.get_custom_objects()
unloaded = {key: value for key, value in registered.items() if hasattr(value, "from_config")}
print(len(unloaded), "tensorflow_text" in __import__("sys").modules)
for key, value in unloaded.items():
    try:
        value.from_config({})
    except Exception as error:
        assert not isinstance(error, (ImportError, AttributeError, RecursionError)), (key, error)
    assert isinstance(registered[key], type), key
"""
    assert run(code) == f"{len(table)} False"


MODELS = {
    "classifier": helpers.classifier,
    "masked_lm": lambda: MaskedLM(helpers.encoder(), helpers.tokenizer(), mask_unit="word"),
    "roberta": lambda: TextClassifier(
        helpers.encoder(architecture="roberta", num_segments=1), helpers.tokenizer(), num_classes=2
    ),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("is_old", [False, True])
def test_the_tokenizer_of_a_file_is_that_of_the_model(kind, is_old, tmp_path, monkeypatch):
    model, path = MODELS[kind](), tmp_path / "model.keras"
    with monkeypatch.context() as patch:
        if is_old:
            patch.setattr(task_model, "is_writing_file", lambda: False)
        model.save(path)
    with zipfile.ZipFile(path) as archive:
        assert ("awful" in archive.read("config.json").decode()) == is_old
    loaded = keras.saving.load_model(path)
    config = keras.saving.serialize_keras_object(model)
    copies = loaded, copy.deepcopy(model), keras.saving.deserialize_keras_object(config)
    for tokenizer in (duplicate.tokenizer for duplicate in copies):
        assert type(tokenizer) is type(model.tokenizer)
        assert tokenizer.fingerprint == model.tokenizer.fingerprint
        assert tokenizer.segment_of_second == model.tokenizer.segment_of_second
    if kind == "masked_lm":  # its masks depend on the tokenizer, too
        loaded.compile(AdamW(1e-3))
        loaded.fit(["good film a bad plot"] * 4, verbose=0)
    else:
        pairs = [("good film", "bad film a the")] * 2
        scores = model.predict(pairs, verbose=0)
        np.testing.assert_allclose(loaded.predict(pairs, verbose=0), scores, atol=1e-6)


def test_other_names_stay_unknown():
    for name in ("keras_bert_impl>Nothing", "keras_bert_impl>.*", "other>TextClassifier", "relu"):
        assert keras.saving.get_registered_object(name) is None
