#!/usr/bin/env python
"""Runs the shared cells of the notebooks in an environment with the packages of Colab.

    python tools/check_colab.py tpu|gpu|cpu [--lists DIRECTORY] [--keep DIRECTORY]

Needs a package index. Colab publishes the packages of its runtimes as `pip-freeze.*.txt`
(github.com/googlecolab/backend-info). The relevant packages are installed at these versions. Then
the install cell runs with a wheel of this checkout. The cell must not change the version of a
package, and packages that it adds must have the version in the list. Then `pip check`, imports, and
two training steps on the backend of the device cell are run. The exit status is 1 after an error.

The accelerator, its driver, and packages that only the list contains are not tested.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import notebooks

PYTHON = "3.13"  # in all runtimes since August 2026: github.com/googlecolab/colabtools/issues/6081
# Dependencies of this package, TensorFlow, TensorFlow Datasets and KerasHub, if the list contains
# them.
PACKAGES = """
absl-py astunparse dm-tree etils filelock flatbuffers flax gast google-pasta grpcio h5py
huggingface_hub importlib_resources ipykernel jax jaxlib kagglehub kagglesdk keras keras-hub
keras-nlp libclang libtpu Markdown markupsafe matplotlib ml_dtypes numpy opt_einsum optree orbax-checkpoint
packaging pandas promise protobuf psutil pyarrow PyYAML requests rich safetensors scikit-learn scipy
sentencepiece setuptools simple-parsing six tensorboard tensorflow tensorflow-datasets
tensorflow-metadata tensorflow-text termcolor tokenizers toml transformers typing_extensions Werkzeug
wheel wrapt
""".split()
SHOWN = (
    "jax libtpu keras keras-hub tensorflow tensorflow-cpu tensorflow-text numpy protobuf pyarrow"
)
TRAIN = """
import h5py, isal, kagglehub, keras_hub, pyarrow, tensorflow, tensorflow_datasets, tensorflow_text
from keras_bert_impl import Encoder, EncoderConfig, TextClassifier, WordPieceTokenizer
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film"]
config = EncoderConfig(len(words), hidden_dim=16, num_layers=1, num_heads=2, intermediate_dim=32)
with strategy.scope():
    model = TextClassifier(Encoder(config), WordPieceTokenizer(words), labels=["bad", "good"], max_length=8)
history = model.fit(["a good film", "a bad film"] * 2, ["good", "bad"] * 2, batch_size=2, epochs=1, verbose=0)
print("two training steps: loss", round(history.history["loss"][0], 3))
"""


def main() -> None:
    """Creates the environment, runs the cells and prints a report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runtime", choices=["tpu", "gpu", "cpu"])
    lists = notebooks.ROOT.parent / "shared" / "data" / "colab"
    parser.add_argument("--lists", type=Path, default=lists, help="folder of pip-freeze.*.txt")
    parser.add_argument("--keep", type=Path, help="directory of an environment to create and keep")
    arguments = parser.parse_args()
    published = read_list(arguments.lists / f"pip-freeze.{arguments.runtime}.txt")
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.keep or Path(temporary)
        environment = Environment(directory, published)
        faults = check(arguments.runtime, environment, published)
    print("\n".join(f"FAULT: {fault}" for fault in faults) or "no faults")
    sys.exit(bool(faults))


def check(runtime: str, environment: "Environment", published: dict[str, str]) -> list[str]:
    """Runs the cells; prints the results and returns the errors."""
    before = environment.versions()
    main_packages = [name for name in map(normal, SHOWN.split()) if name in before]
    print(f"{runtime}: {environment.python}, {len(before)} packages of the list, including")
    print("    " + ", ".join(f"{name} {before[name]}" for name in main_packages))
    start = time.monotonic()
    wheel = environment.wheel().as_uri()
    install = re.sub(
        r'^PACKAGE = "[^"]*"',
        f'PACKAGE = "keras-bert-impl[plots] @ {wheel}"',
        notebooks.INSTALL,
        flags=re.MULTILINE,
    )
    faults = [f"install cell: {line}" for line in environment.errors(install)]
    after = environment.versions()
    added = {name: version for name, version in after.items() if name not in before}
    seconds = time.monotonic() - start
    print(f"install cell, {seconds:.0f} s: " + ", ".join(f"{n} {v}" for n, v in added.items()))
    faults += [
        f"{name} {version} became {after.get(name)}"
        for name, version in before.items()
        if after.get(name) != version
    ]
    faults += [
        f"{name} {version} was installed, but Colab has {published[name]}: add it to PACKAGES"
        for name, version in added.items()
        if published.get(name, version) != version
    ]
    lines = environment.run("-m", "pip", "check").stdout.splitlines()
    other_name = [
        line for line in lines if line.endswith("requires tensorflow, which is not installed.")
    ]
    if "tensorflow-cpu" in after and other_name:
        names = ", ".join(line.split()[0] for line in other_name)
        print(f"pip check: {names} require tensorflow, which is installed as tensorflow-cpu")
        lines = [line for line in lines if line not in other_name]
    print("pip check: " + ("; ".join(lines) or "nothing else"))
    faults += [line for line in lines if line != "No broken requirements found."]
    cells = f"{install}\n{notebooks.DEVICE}\n{TRAIN}"
    trained = environment.run("-c", cells)
    print(trained.stdout.strip())
    if trained.returncode:
        faults.append(f"training: {trained.stderr.strip().splitlines()[-1]}")
    return faults


class Environment:
    """A virtual environment with packages at the versions of a list.

    Args:
        directory: folder of the environment. An existing folder is replaced.
        published: version by name.
    """

    def __init__(self, directory: Path, published: dict[str, str]) -> None:
        self.directory = directory
        python = find_python()
        subprocess.run([python, "-m", "venv", "--clear", directory / "environment"], check=True)
        self.executable = directory / "environment" / "bin" / "python"
        self.python = self.run("--version").stdout.strip()
        if f" {PYTHON}." not in self.python:
            self.python += f" (Colab has {PYTHON})"
        self._install(f"pip=={published['pip']}")
        pins = directory / "pins.txt"
        pins.write_text("".join(f"{n}=={v}\n" for n, v in published.items() if "+" not in v))
        names = [name for name in map(normal, PACKAGES) if name in published]
        self._install("--constraint", str(pins), *names)

    def _install(self, *arguments):
        run = self.run("-m", "pip", "install", "--quiet", "--no-compile", *arguments)
        if run.returncode:
            sys.exit(f"the packages of the list cannot be installed:\n{run.stderr}")

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        """Runs Python in an empty folder, so that only installed packages are found."""
        variables = {
            k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "KERAS_BACKEND")
        }
        command = [self.executable, *arguments]
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(
                command, cwd=folder, env=variables, capture_output=True, text=True
            )

    def errors(self, source: str) -> list[str]:
        """Runs a cell; if it fails, returns the last lines of its output."""
        run = self.run("-c", source)
        return run.stderr.strip().splitlines()[-5:] if run.returncode else []

    def versions(self) -> dict[str, str]:
        """Returns the version of each installed package, keyed by normalized name."""
        code = "from importlib.metadata import distributions as d\nfor x in d(): print(x.name, x.version)"
        lines = self.run("-c", code).stdout.splitlines()
        return {normal(name): version for name, version in sorted(map(str.split, lines))}

    def wheel(self) -> Path:
        """Returns a wheel of this checkout."""
        source = self.directory / "source"
        shutil.copytree(notebooks.ROOT / "keras_bert_impl", source / "keras_bert_impl")
        for name in ("setup.cfg", "pyproject.toml", "DESCRIPTION.md", "LICENSE"):
            shutil.copy(notebooks.ROOT / name, source)
        run = self.run("-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(source), str(source))
        if run.returncode:
            sys.exit(f"the checkout has no wheel:\n{run.stderr}")
        return next(source.glob("*.whl"))


def normal(name: str) -> str:
    """Returns the normalized name of a package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_list(path: Path) -> dict[str, str]:
    """Parses the output of `pip freeze` to a dict from normalized names to versions."""
    lines = path.read_text(encoding="utf-8").split()
    return {
        normal(name): version for name, _, version in (x.partition("==") for x in lines) if version
    }


def find_python() -> str:
    """Returns the Python interpreter with Colab's version, or the current interpreter."""
    pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{PYTHON}.*/bin/python"))
    for path in [*map(str, pyenv), shutil.which(f"python{PYTHON}")]:
        if path and subprocess.run([path, "--version"], capture_output=True).returncode == 0:
            return path
    return sys.executable


if __name__ == "__main__":
    main()
