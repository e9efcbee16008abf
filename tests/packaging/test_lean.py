"""requirements/serve.txt is enough for `keras-bert serve` and for a tokenizer."""

import configparser
import re
import sys
from pathlib import Path

import pytest

from tests.packaging import environment
from tests.tasks import helpers

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = (ROOT / "requirements" / "serve.txt").read_text(encoding="utf-8")
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")
# Fails to import what the package requires besides requirements/serve.txt and TensorFlow's own.
BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
BLOCKED = {%r}
sys.meta_path.insert(0, Block())
"""
MODULES = {"importlib_resources", "keras_nlp", "keras_hub", "tensorflow_datasets", "safetensors"}
MODULES |= {"huggingface_hub", "kagglehub", "tokenizers", "sentencepiece", "pyarrow", "isal"}
# Optional ones, which TensorFlow, Keras or Starlette would import if they are there.
MODULES |= {"jax", "matplotlib", "scipy", "sklearn", "pandas", "torch", "transformers", "IPython"}


def entries(text):
    """Returns the requirements of a list, without comments."""
    return {line.strip() for line in text.splitlines() if line.strip() and line.strip()[0] != "#"}


def blocked_code(code):
    return BLOCK.replace("%r", ", ".join(map(repr, sorted(MODULES)))) + code


def test_the_ranges_are_those_of_the_package():
    extras = SETUP["options.extras_require"]["serve"]
    package_ranges = entries(SETUP["options"]["install_requires"]) | entries(extras)
    assert entries(REQUIREMENTS) <= package_ranges
    assert entries(extras) <= entries(REQUIREMENTS)


def test_every_other_dependency_is_blocked():
    blocked = entries(SETUP["options"]["install_requires"]) - entries(REQUIREMENTS)
    names = {re.split("[<>=;]", line)[0].replace("-", "_").lower() for line in blocked}
    by_tensorflow = {"keras", "h5py", "numpy", "ml_dtypes", "requests", "rich", "packaging"}
    assert names - by_tensorflow <= MODULES


@pytest.mark.slow
def test_a_tokenizer_needs_no_more(tmp_path):
    helpers.tokenizer().save_pretrained(tmp_path)
    code = "from keras_bert_impl import Tokenizer\n"
    code += "ids = Tokenizer.from_pretrained(sys.argv[1])(['good film'])['token_ids']\n"
    code += "import json, numpy; print(json.dumps(numpy.asarray(ids).tolist()))"
    assert helpers.run_python(blocked_code(code), tmp_path) == [[2, 5, 7, 3]]


@pytest.mark.slow
def test_a_server_needs_no_more(tmp_path):
    helpers.classifier().export(tmp_path / "reviews" / "1")
    code = "from keras_bert_impl.cli.main import main; main(sys.argv[1:])"
    command = sys.executable, "-c", blocked_code(code), "serve", tmp_path / "reviews"
    assert environment.ask(command, "good film", ROOT)["label"] in ("negative", "positive")
