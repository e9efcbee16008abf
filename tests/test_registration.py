"""Keras finds the classes of this package by name after `import keras_bert_impl` alone."""

import re
import subprocess
import sys
from pathlib import Path

import keras
import pytest

import keras_bert_impl
from keras_bert_impl import TextClassifier, lazy
from tests.tasks import helpers

ROOT = Path(keras_bert_impl.__file__).parent
_NAMES = re.compile(r'register_keras_serializable\("([\w.]+)"\)\n(?:@.*\n)*class (\w+)')
REGISTERED = [
    (f"{package}>{name}", path)
    for path in sorted(ROOT.rglob("*.py"))
    for package, name in _NAMES.findall(path.read_text(encoding="utf-8"))
]


def run(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT.parent
    )
    assert not done.returncode, done.stderr[-800:]
    return done.stdout.strip()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    model = helpers.classifier(dropout=0.0)
    model.save(path)
    return str(path), model.predict(["good film"], verbose=0)


@pytest.mark.parametrize("line", ["import keras, keras_bert_impl", "import keras_bert_impl, keras"])
def test_load_model_needs_the_package_alone(saved, line):
    path, scores = saved
    code = f"{line}, sys; m = keras.saving.load_model(sys.argv[1])\n"
    code += "print(*m.predict(['good film'], verbose=0)[0])"
    found = [float(word) for word in run(code, path).split()]
    assert found == pytest.approx(scores[0].tolist(), abs=1e-6)


def test_the_import_loads_neither_keras_nor_tensorflow():
    code = "import keras_bert_impl, sys; print({'keras', 'tensorflow'} & set(sys.modules))"
    assert run(code) == "set()"


@pytest.mark.parametrize(("name", "path"), REGISTERED, ids=[name for name, _ in REGISTERED])
def test_every_registered_class_has_its_module(name, path):
    module = lazy._module_of(name)
    assert module == ".".join(["keras_bert_impl", *path.relative_to(ROOT).with_suffix("").parts])


def test_other_names_stay_unknown():
    assert len(REGISTERED) > 50
    assert keras.saving.get_registered_object("keras_bert_impl>TextClassifier") is TextClassifier
    for name in ("keras_bert_impl>Nothing", "keras_bert_impl>.*", "other>TextClassifier", "relu"):
        assert keras.saving.get_registered_object(name) is None
