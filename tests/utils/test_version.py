"""The table of versions that work together, and the `pip install` line of messages."""

import configparser
import json
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from keras_bert_impl.utils.version import (
    COMBINATIONS,
    Minors,
    __version__,
    companions_of,
    install_command,
    pinned_requirement,
    wheel_command,
)

ROOT = Path(__file__).resolve().parents[2]
TITLES = {
    "tensorflow": "TensorFlow", "tensorflow-text": "TF-Text", "keras": "Keras",
    "keras-hub": "KerasHub",
}  # fmt: skip

WHEEL = "file:///tmp/keras_bert_impl-0.1.0-py3-none-any.whl"


class Distribution:
    """An installed distribution with what pip recorded about its origin."""

    def __init__(self, origin):
        self.origin = origin

    def read_text(self, name):
        assert name == "direct_url.json"
        return None if self.origin is None else json.dumps(self.origin)


@pytest.mark.parametrize(
    ("origin", "line"),
    [
        (None, 'pip install "keras-bert-impl[plots]"'),
        (
            {"url": "file:///home/me/my%20code", "dir_info": {"editable": True}},
            'pip install -e "/home/me/my code[plots]"',
        ),
        ({"url": "file:///src", "dir_info": {}}, 'pip install "/src[plots]"'),
        ({"url": WHEEL, "archive_info": {}}, f'pip install "keras-bert-impl[plots] @ {WHEEL}"'),
        (
            {"url": "https://example.org/a.git", "vcs_info": {"vcs": "git", "commit_id": "0"}},
            'pip install "keras-bert-impl[plots] @ git+https://example.org/a.git"',
        ),
    ],
    ids=["index", "editable", "folder", "wheel", "repository"],
)
def test_line_names_the_origin_of_the_installation(origin, line, monkeypatch):
    monkeypatch.setattr(metadata, "distribution", lambda name: Distribution(origin))
    assert install_command("plots") == line
    options = install_command(options="--force-reinstall")
    assert options.startswith("pip install --force-reinstall ") and "[" not in options


@pytest.mark.parametrize("origin", [None, {"url": "file:///src", "dir_info": {"editable": True}}])
def test_a_requirements_file_names_the_version_or_a_wheel(origin, monkeypatch):
    monkeypatch.setattr(metadata, "distribution", lambda name: Distribution(origin))
    line = (
        Requirement(pinned_requirement("serve")) if origin is None else pinned_requirement("serve")
    )
    if origin is None:
        assert (line.name, line.extras, str(line.specifier)) == (
            "keras-bert-impl", {"serve"}, f"=={__version__}",
        )  # fmt: skip
        assert wheel_command("a b") is None
    else:
        assert line == f"./keras_bert_impl-{__version__}-py3-none-any.whl[serve]"
        assert wheel_command("a b") == 'pip wheel --no-deps --wheel-dir "a b" "/src"'


def test_line_of_a_checkout_that_is_not_installed_names_the_checkout(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    checkout = Path(__file__).resolve().parents[2]
    assert install_command("serve,serving") == f'pip install -e "{checkout}[serve,serving]"'


def test_no_other_module_writes_the_line():
    package = Path(__file__).resolve().parents[2] / "keras_bert_impl"
    paths = [
        str(path.relative_to(package))
        for path in sorted(package.rglob("*.py"))
        if "keras-bert-impl[" in path.read_text(encoding="utf-8")
    ]
    assert paths == []


def numbers(minors):
    same = minors.first == minors.last
    return minors.first if same else f"{minors.first} to {minors.last}"


def cell(minors):
    return f"{TITLES[minors.package]} {numbers(minors)}" if minors else "no TF-Text"


def test_the_page_has_the_table():
    rows = [
        f"| {numbers(python)} | {cell(package)} | {cell(companion)} | {tested_with} |"
        for python, package, companion, tested_with in COMBINATIONS
    ]
    page = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8").splitlines()
    start = page.index("| Python | package | works with | tested with |") + 2
    assert page[start : page.index("", start)] == rows


def test_companions_and_what_pip_is_given():
    assert companions_of("tensorflow", "2.23.0") == []
    hub, newer = companions_of("keras", "3.15.1")
    assert hub == Minors("keras-hub", "0.25", "0.32")
    assert newer == Minors("keras-hub", "0.33", "0.33")
    assert hub.requirement == "keras-hub>=0.25,<0.33"
    covered = [hub.covers(version) for version in ("0.24.9", "0.25.0", "0.32.0", "0.33.0.dev1")]
    assert covered == [False, True, True, False]
    (text,) = companions_of("tensorflow", "2.22.0rc0")
    assert text.requirement == "tensorflow-text==2.22.*"


def test_what_setup_installs_is_in_the_table():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["options"]["install_requires"].splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    ranges = {requirement.name: requirement.specifier for requirement in requirements}
    ranges["keras-hub"] = ranges["keras-nlp"]  # the same project under its former name
    ranges["python"] = SpecifierSet(setup["options"]["python_requires"])
    tested_minors = {}
    for python, *minors, _ in COMBINATIONS:
        for requirement in filter(None, (python, *minors)):
            major, first = map(int, requirement.first.split("."))
            last = int(requirement.last.split(".")[1])
            tested = {f"{major}.{minor}" for minor in range(first, last + 1)}
            tested_minors.setdefault(requirement.package, set()).update(tested)
    for package, tested in tested_minors.items():
        major = next(iter(tested)).split(".")[0]
        allowed = {f"{major}.{n}" for n in range(50) if ranges[package].contains(f"{major}.{n}")}
        assert allowed and allowed <= tested, package
