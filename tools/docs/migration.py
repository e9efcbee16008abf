"""Writes docs/migration.md from the rows of the migration tables.

Usage: python tools/docs/migration.py
"""

import re
from pathlib import Path

import migration_google
import migration_keras_hub
import migration_transformers
from migration_table import Library, Row, Table

PAGE = Path(__file__).parents[2] / "docs" / "migration.md"
LIBRARIES = [
    migration_transformers.LIBRARY,
    migration_keras_hub.LIBRARY,
    migration_google.MODEL_GARDEN,
    migration_google.GOOGLE_RESEARCH,
]
_SEPARATOR = re.compile(r", (?![^(]*\))")  # a comma outside of parentheses
_BEGIN = """# Migration

What replaces each class, argument, configuration key and flag of other libraries. A test compares the second column of
every row with the signatures, settings and options of this package (`tests/docs/test_migration.py`). The first columns
were compared with the sources of transformers 4.57.1 and 4.30.2 (`TFTrainer`), KerasHub 0.26.0, tf-models-official 2.16.0
and bert-tensorflow 1.0.4, which has no `--do_whole_word_mask` yet.

- `TextClassifier.fit(epochs=)` is the argument `epochs` of `TextClassifier.fit`. The other task models have the same
  methods.
- `keras-bert finetune --train` is an option of a command. Settings of `keras-bert finetune` and `keras-bert pretrain`,
  such as `--batch-size`, are also keyword arguments of `finetune` and `pretrain`: `batch_size=16`.

Many names of other libraries are recognized where you write them: the error shows the line to write instead.
"""


def page() -> str:
    """Returns the Markdown of the page."""
    return "\n".join([_BEGIN, *(_library(library) for library in LIBRARIES)])


def rows() -> list[tuple[str, Row]]:
    """Returns (library, row) of all tables."""
    return [
        (library.title, row)
        for library in LIBRARIES
        for table in library.tables
        for row in table.rows
    ]


def _library(library: Library) -> str:
    tables = "\n".join(_table(library, table) for table in library.tables)
    return f"## {library.title}\n\n{library.before}\n\n{tables}"


def _table(library: Library, table: Table) -> str:
    lines = [f"### {table.title}", "", f"| {table.theirs} | this package | note |", "|---|---|---|"]
    for row in table.rows:
        theirs = ", ".join(f"`{name}`" for name in _SEPARATOR.split(row.theirs))
        ours = "<br>".join(f"`{_written(name)}`" for name in row.ours) or "—"
        lines.append(f"| {theirs} | {ours} | {row.note} |")
    return "\n".join(lines) + "\n"


def _written(reference: str) -> str:
    """Returns a reference as users write it."""
    if reference == "Tokenizer.__call__":
        return "tokenizer(texts)"
    return reference.replace("Tokenizer.__call__", "tokenizer")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
