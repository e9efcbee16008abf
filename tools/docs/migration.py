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
    migration_transformers.OTHERS,
]
_SEPARATOR = re.compile(r", (?![^(]*\))")  # a comma outside parentheses
_BEGIN = """# Migration

The tables list classes, arguments, configuration keys and flags of other libraries with their equivalents in this
package. Names that are almost the same are left out.

- `TextClassifier.fit(epochs=)` is the argument `epochs` of `TextClassifier.fit`. The other task models have the same
  methods.
- `finetune --batch-size` is an option of `keras-bert finetune`. In Python, it is the argument `batch_size` of
  `finetune`.
- If you use a name from another library, the error message often shows the equivalent.

The names are from transformers 4.57, KerasHub 0.32, tf-models-official 2.16 and bert-tensorflow 1.0.
"""


def page() -> str:
    """Returns the Markdown of the page."""
    return "\n".join([_BEGIN, *(_render_library(library) for library in LIBRARIES)])


def rows() -> list[tuple[str, Row]]:
    """Returns (library, row) of all tables."""
    return [
        (library.title, row)
        for library in LIBRARIES
        for table in library.tables
        for row in table.rows
    ]


def _render_library(library: Library) -> str:
    tables = "\n".join(_render_table(library, table) for table in library.tables)
    return f"## {library.title}\n\n{library.before}\n\n{tables}"


def _render_table(library: Library, table: Table) -> str:
    lines = [f"### {table.title}", "", f"| {table.theirs} | this package |", "|---|---|"]
    for row in table.rows:
        theirs = ", ".join(f"`{name}`" for name in _SEPARATOR.split(row.theirs))
        ours = ", ".join(f"`{_format_reference(name)}`" for name in row.ours)
        lines.append(f"| {theirs} | {': '.join(part for part in (ours, row.note) if part)} |")
    return "\n".join(lines) + "\n"


def _format_reference(reference: str) -> str:
    """Returns a reference in the form that is used in code."""
    if reference == "Tokenizer.__call__":
        return "tokenizer(texts)"
    reference = reference.replace("Tokenizer.__call__", "tokenizer")
    return re.sub(r"^keras-bert (\w+ --)", r"\1", reference)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
