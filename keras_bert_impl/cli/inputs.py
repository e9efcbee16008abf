"""Texts to predict: their command-line arguments, and how they are read."""

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from keras_bert_impl.cli.common import ArgumentsContainer, add_table_form
from keras_bert_impl.cli.remembered import read_options
from keras_bert_impl.io.errors import InputError, listed


def add_inputs(parser: ArgumentsContainer) -> None:
    """Adds the columns and the form of a table of texts."""
    parser.add_argument(
        "--text",
        metavar="COLUMN",
        help="column of the text or question; default: that of the run, or of a table with one "
        "column",
    )
    parser.add_argument(
        "--pair", metavar="COLUMN", help="column of the second segment or context, if any"
    )
    add_table_form(parser)


def read_inputs(
    path: str, arguments: Namespace, model: Any
) -> tuple[Iterator[tuple[Any, dict[str, Any]]], int | None]:
    """Reads what a model predicts: lines of text, a table, or a file of multiple choice.

    Returns:
        (iterator of (text, its row as a dict), number of texts or None if unknown).
    """
    from keras_bert_impl.io.lines import STANDARD_INPUT, suffix_of
    from keras_bert_impl.tasks.data.layout import Layout
    from keras_bert_impl.tasks.data.tables import FORMATS, text_lines
    from keras_bert_impl.tasks.registry import task_of_model
    from keras_bert_impl.tasks.runs.prediction_table import count_rows, read_rows

    delimiter = arguments.delimiter
    inputs = task_of_model(model).read_inputs(path)
    is_table = path != STANDARD_INPUT and (delimiter or suffix_of(path) in FORMATS)
    if inputs is not None:
        for name in ("text", "pair", "id"):
            if getattr(arguments, name):
                raise InputError(f"{path} has no columns: leave out --text, --pair and --id.")
        return ((text, {}) for text in inputs), len(inputs)
    if arguments.text or is_table:
        if path == STANDARD_INPUT:
            raise InputError("standard input cannot be a table; write the table to a file.")
        text, pair = _columns(path, arguments, model)
        header = not arguments.no_header
        layout = Layout(text, pair, id=arguments.id, allow_empty=True, header=header)
        rows = read_rows(path, layout, delimiter)
        return rows, count_rows(path, layout, delimiter)
    for name in ("pair", "id"):
        if getattr(arguments, name):
            raise InputError(f"--{name} needs a table, and --text, the column of the text.")
    columns = (*model.text_columns, *_columns_of_run(arguments))
    lines = text_lines(path, columns)
    return ((text, {"text": text}) for _, text in lines), count_rows(path, None)


def _columns_of_run(arguments):
    options = read_options(arguments.model)
    return options.get("text"), options.get("pair")


def _columns(path, arguments, model):
    """Returns (text column, second-segment column or None) of a table."""
    from keras_bert_impl.tasks.data.tables import table_columns

    if arguments.text:
        return arguments.text, arguments.pair
    columns = table_columns(path, arguments.delimiter, not arguments.no_header)
    text, pair = _columns_of_run(arguments)
    of_run = text, arguments.pair or pair
    if of_run[0] in columns and of_run[1] in (None, *columns):
        return of_run
    if len(model.text_columns) == 2 and set(model.text_columns) <= set(columns):
        return model.text_columns
    if len(columns) == 1 and not arguments.pair:
        return columns[0], None
    raise InputError(
        f"{path} is a table with the columns {listed(columns)}: name that of the texts "
        "with --text COLUMN, and of their pairs with --pair COLUMN."
    )
