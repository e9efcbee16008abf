"""The `pip install` line of messages: one that works for this installation."""

import json
from importlib import metadata
from pathlib import Path

import pytest

from keras_bert_impl.version import install_command

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


def test_line_of_a_checkout_that_is_not_installed_names_the_checkout(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    checkout = Path(__file__).resolve().parents[1]
    assert install_command("serve,serving") == f'pip install -e "{checkout}[serve,serving]"'


def test_no_other_module_writes_the_line():
    package = Path(__file__).resolve().parents[1] / "keras_bert_impl"
    found = [
        str(path.relative_to(package))
        for path in sorted(package.rglob("*.py"))
        if "keras-bert-impl[" in path.read_text(encoding="utf-8")
    ]
    assert found == []
