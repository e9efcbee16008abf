"""Distributions with a name like this package's."""

import pytest

from keras_bert_impl.cli.name_clash import name_clashes


def install(folder, name, entry_points=""):
    """Writes the metadata of an installed distribution."""
    info = folder / f"{name.replace('-', '_')}-0.89.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.89.0\n")
    (info / "entry_points.txt").write_text(entry_points)


@pytest.mark.parametrize("name", ["keras-bert", "keras_bert", "Keras-BERT"])
def test_the_other_distribution_is_named(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, name)
    (clash,) = name_clashes()
    assert clash.startswith("keras-bert 0.89.0 is installed, which is another project")


def test_a_second_command_is_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "other", "[console_scripts]\nkeras-bert = other:main\n")
    (clash,) = name_clashes()
    assert clash.startswith("other 0.89.0 installs a command keras-bert, too")


def test_this_package_alone_is_no_clash(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "keras-bert-impl", "[console_scripts]\nkeras-bert = a:main\n")
    install(tmp_path, "keras-bert-tools", "[console_scripts]\nkeras-bert-tools = a:main\n")
    assert name_clashes() == []
