"""Other installed distributions whose names are easily taken for this package's."""

import importlib.metadata

_OURS, _COMMAND = "keras-bert-impl", "keras-bert"


def name_clashes() -> list[str]:
    """Returns a sentence for each distribution that may be confused with this package.

    The distribution `keras-bert` on PyPI is another project. It installs the module `keras_bert`
    and no command, so both can be installed; but `pip install keras-bert` does not install this
    package.

    Example:
        >>> from keras_bert_impl.cli.name_clash import name_clashes
        >>> name_clashes()
        []
    """
    found = []
    for distribution in importlib.metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
        if name == _OURS:
            continue
        if name == _COMMAND:
            found.append(
                f"{name} {distribution.version} is installed, which is another project: import "
                "keras_bert_impl, not keras_bert."
            )
        scripts = distribution.entry_points.select(group="console_scripts", name=_COMMAND)
        if scripts:
            found.append(
                f"{name} {distribution.version} installs a command {_COMMAND}, too: uninstall it, "
                "or run python -m keras_bert_impl.cli.main."
            )
    return found
