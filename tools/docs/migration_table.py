"""The rows of the migration page, as data."""

from typing import NamedTuple


class Row(NamedTuple):
    """A name in another library, and what replaces it.

    Args:
        theirs: Name of the class, argument, configuration key or flag.
        ours: References to this package, each checked by a test: `TextClassifier.fit(epochs=)` for
            an argument, `TextClassifier.classify` for an attribute, `keras-bert finetune --train`
            for an option. Empty if nothing replaces it.
        note: What differs.
    """

    theirs: str
    ours: tuple[str, ...] = ()
    note: str = ""


class Table(NamedTuple):
    """Rows under a heading."""

    title: str
    theirs: str  # heading of the first column
    rows: list[Row]
    before: str = ""  # Markdown above the table


class Library(NamedTuple):
    """Tables of one library."""

    title: str
    before: str
    tables: list[Table]
