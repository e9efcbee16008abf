#!/usr/bin/env python
"""Updates the shared cells of the notebooks in `colab/`, and renders the notebooks for the site.

    python tools/notebooks.py                     # writes the shared cells and links of all notebooks
    python tools/notebooks.py --render [NAME...] [--model OWNER/NAME=DIRECTORY]  # runs them and writes docs/notebooks/

The shared cells have the ids `install` and `device`. The repository's address is the entry `Source`
of `project_urls` in setup.cfg. If there is an address, the notebooks install from the repository,
link to its pages and have a badge for Colab. Otherwise, the notebooks install an uploaded wheel.
"""

import argparse
import base64
import configparser
import os
import re
import tempfile
from pathlib import Path

import hub_cache
import nbclient
import nbformat

from keras_bert_impl.utils.version import __version__

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "colab"
PAGES = ROOT / "docs" / "notebooks"

INSTALL = """\
# Installs the package and what the runtime lacks. Packages that the runtime has stay as they are.
import importlib.util
import subprocess
import sys

# Until the package is on an index: run `pip wheel --no-deps .` in a checkout, and upload the wheel to /content.
PACKAGE = "keras-bert-impl[plots] @ file:///content/keras_bert_impl-VERSION-py3-none-any.whl"


def has(module):
    return importlib.util.find_spec(module) is not None


def pip(*arguments):
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *arguments], check=True)


if not has("keras_bert_impl"):
    if has("libtpu") and not has("tensorflow"):
        # Colab's TPU runtime. JAX computes on the TPU; TensorFlow reads text and exports on the CPU.
        pip("tensorflow-cpu==2.20.*", "isal>=1.7,<2", "importlib_resources>=5.10,<8")
        # TPUStrategy instead of JAX: in place of the line above, with BACKEND = "tensorflow" below,
        # pip("tensorflow-tpu==2.20.*", "libtpu==0.0.21.1", "isal>=1.7,<2", "importlib_resources>=5.10,<8")
        # These ask for a package named tensorflow, which has another name here.
        pip("--no-deps", "tensorflow-text==2.20.*", "keras-hub==0.26.*", "keras-nlp==0.26.*", PACKAGE)
    else:
        pip(PACKAGE, "pandas>=2.2,<4")
""".replace("VERSION", __version__)

DEVICE = """\
import os

BACKEND = None  # "jax" or "tensorflow"; None: JAX on a TPU, elsewhere KERAS_BACKEND or TensorFlow
usual = "jax" if has("libtpu") else os.environ.get("KERAS_BACKEND", "tensorflow")
os.environ["KERAS_BACKEND"] = BACKEND or usual  # before Keras is imported

import keras

from keras_bert_impl import get_strategy
from keras_bert_impl.training.strategy import device_names

strategy = get_strategy("auto")
devices = device_names(strategy)
print(f"Keras {keras.__version__} with the {keras.backend.backend()} backend, on {devices}")
"""


# === What the notebooks share ===


def repository() -> str | None:
    """Returns the repository's GitHub address without a final slash, or None if it is unknown."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = config["metadata"].get("project_urls", "").strip().splitlines()
    addresses = {name.strip(): url.strip() for name, _, url in (x.partition("=") for x in lines)}
    return addresses.get("Source", "").removesuffix("/") or None


def share(notebook: nbformat.NotebookNode, name: str, address: str | None) -> None:
    """Writes the shared cells and links of a notebook.

    Args:
        notebook: changed in place.
        name: name of the file, without the suffix.
        address: see `repository`.
    """
    install = INSTALL
    if address:
        package = f'PACKAGE = "keras-bert-impl[plots] @ git+{address}"'
        install = re.sub(r"# Until .*\nPACKAGE = .*", package, install)
    sources = {"install": install, "device": DEVICE}
    for cell in notebook.cells:
        if cell.id in sources:
            cell.source = sources[cell.id].rstrip()
        base = f"{address}/blob/main/docs/" if address else "../docs/"
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"(?<=\]\()(?:\.\.|https://[^)]*/main)/docs/", base, cell.source)
    title = notebook.cells[0]
    title.source = re.sub(r"\[!\[Open in Colab\].*\n\n", "", title.source)
    if address:
        path = address.removeprefix("https://github.com/")
        badge = "https://colab.research.google.com/assets/colab-badge.svg"
        target = f"https://colab.research.google.com/github/{path}/blob/main/colab/{name}.ipynb"
        title.source = f"[![Open in Colab]({badge})]({target})\n\n{title.source}"


def paths(names: list[str] | None = None) -> list[Path]:
    """Returns the notebooks with these names, or all notebooks if there are no names."""
    notebooks = sorted(NOTEBOOKS.glob("*.ipynb"))
    return [path for path in notebooks if not names or path.stem in names]


# === Run and render ===


def execute(
    path: Path, directory: Path, models: dict[str, str], backend: str = "tensorflow"
) -> nbformat.NotebookNode:
    """Runs a notebook in a separate process.

    Args:
        path: path of the notebook.
        directory: the working directory of its cells.
        models: dict from repository names (`owner/name`) to directories, for the cache of the hub.
            If it is not empty, the network is not used.
        backend: backend of Keras.

    Returns:
        The notebook, including its outputs.
    """
    notebook = nbformat.read(path, as_version=4)
    python_path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {"PYTHONPATH": python_path, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    resources = {"metadata": {"path": str(directory)}}
    client = nbclient.NotebookClient(
        notebook, timeout=900, kernel_name="python3", resources=resources
    )
    with tempfile.TemporaryDirectory() as cache:
        if models:
            environment |= hub_cache.fill(Path(cache), models)
        client.execute(env=os.environ | environment)
    return notebook


def render(path: Path, models: dict[str, str]) -> None:
    """Runs a notebook and writes it with its outputs to `docs/notebooks/`."""
    with tempfile.TemporaryDirectory() as directory:
        ran = execute(path, Path(directory), models)
    for picture in PAGES.glob(f"{path.stem}-*.png"):
        picture.unlink()
    sources = [cell.source for cell in nbformat.read(path, as_version=4).cells]
    parts = []
    for cell, source in zip(ran.cells, sources, strict=True):
        if cell.cell_type == "markdown":
            parts.append(_convert_text(source))
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell.outputs:
            parts += output_of_page(output, path.stem)
    title, _, body = "\n\n".join(parts).partition("\n\n")
    note = f"*Outputs of `colab/{path.name}` on two cores of a CPU, with `QUICK`.*"
    (PAGES / f"{path.stem}.md").write_text(f"{title}\n\n{note}\n\n{body}\n", encoding="utf-8")


def _convert_text(source):
    """Returns the Markdown of a cell with links for `docs/notebooks/` and without the badge."""
    source = re.sub(r"\[!\[Open in Colab\].*\n\n", "", source)
    source = re.sub(r"(?<=\]\()(?:\.\.|https://[^)]*/main)/docs/", "../", source)
    return re.sub(r"`(\d\d_\w+)`", r"[`\1`](\1.md)", source)


def output_of_page(output: nbformat.NotebookNode, name: str) -> list[str]:
    """Converts the output of a cell to Markdown. Pictures become files.

    Args:
        output: output of a cell.
        name: name of the notebook.
    """
    if output.output_type == "stream":
        lines = output.text.rstrip().split("\n") if output.name == "stdout" else []
        text = "\n".join(line for line in lines if ":tensorflow:" not in line)
        return [f"```text\n{text}\n```"] if text else []
    data = output.data
    if "image/png" in data:
        number = len(list(PAGES.glob(f"{name}-*.png"))) + 1
        picture = PAGES / f"{name}-{number}.png"
        picture.write_bytes(base64.b64decode(data["image/png"]))
        return [f"![Output of the cell above]({picture.name})"]
    if "text/html" in data:
        html = re.sub(r"<style.*?</style>|</?div>|\n\s*", "", data["text/html"], flags=re.DOTALL)
        return [re.sub(r"(<(?:table|tr|th)\b) [^>]*", r"\1", html)]
    return [f"```text\n{data['text/plain']}\n```"]


def main() -> None:
    """Writes the shared cells; with `--render` runs notebooks and writes their pages."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="notebooks to render; default: all")
    parser.add_argument("--render", action="store_true", help="run notebooks and write their pages")
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="OWNER/NAME=DIRECTORY",
        help="directory to use instead of a download; the network is then not used",
    )
    arguments = parser.parse_args()
    for path in paths():
        notebook = nbformat.read(path, as_version=4)
        share(notebook, path.stem, repository())
        nbformat.write(notebook, path)
    if arguments.render:
        PAGES.mkdir(exist_ok=True)
        models = dict(model.split("=", 1) for model in arguments.model)
        for path in paths(arguments.names):
            render(path, models)


if __name__ == "__main__":
    main()
