"""`keras-bert predict`, and the reader of unlabeled texts."""

import collections
import contextlib
import dataclasses
import functools
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Any

from keras_bert_impl.cli.common import (
    OUTPUT_FILE,
    PATH,
    ArgumentsContainer,
    add_table_form,
    add_tuned_model,
    print_line,
    say,
)
from keras_bert_impl.cli.examples import read_examples_of, usual_column
from keras_bert_impl.cli.parser import Command
from keras_bert_impl.cli.remembered import OF_FORM, form_of_run, read_options, with_form
from keras_bert_impl.data.tables.source import ExampleSource
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.lines import STANDARD_INPUT, encoded_as, suffix_of
from keras_bert_impl.utils.progress import Progress


def add_inputs(parser: ArgumentsContainer) -> None:
    parser.add_argument(
        "--text",
        metavar="COLUMN",
        help="column of the text or question; default: the run's column, or the only column of the "
        "table",
    )
    parser.add_argument("--pair", metavar="COLUMN", help="column of the second text or context")
    add_table_form(parser)


def read_inputs(
    path: str, arguments: Namespace, model: Any
) -> tuple[Iterator[tuple[Any, dict[str, Any]]], int | None]:
    """Reads the texts to predict from lines of text, a table or a multiple-choice file.

    Returns:
        (iterator of (text, row of the text as a dict), number of texts; None if unknown).
    """
    from keras_bert_impl.data.tables.layout import Layout
    from keras_bert_impl.data.tables.tables import FORMATS, text_lines
    from keras_bert_impl.runs.prediction_table import count_rows, read_rows
    from keras_bert_impl.tasks.registry import task_of_model

    delimiter = arguments.delimiter
    inputs = task_of_model(model).read_inputs(path)
    is_table = path != STANDARD_INPUT and (delimiter or suffix_of(path) in FORMATS)
    if inputs is None and not arguments.text:
        inputs = _read_words(path, arguments, model)
    if inputs is not None:
        for name in ("text", "pair"):
            if getattr(arguments, name):
                raise InputError(f"{path} has no columns: leave out --{name}.")
        if arguments.id and not all(arguments.id in row for _, row in inputs):
            names = listed(inputs[0][1]) if inputs else ""
            hint = f"has only {names}" if names else "has no columns: leave out --id"
            raise InputError(f"--id={arguments.id}: {path} {hint}.")
        return iter(inputs), len(inputs)
    if arguments.text or is_table:
        if path == STANDARD_INPUT:
            raise InputError("standard input cannot be a table; save the table to a file.")
        text, pair = _choose_columns(path, arguments, model)
        header = not arguments.no_header
        layout = Layout(text, pair, id=arguments.id, allow_empty=True, header=header)
        rows = read_rows(path, layout, delimiter)
        return rows, count_rows(path, layout, delimiter)
    for name in ("pair", "id"):
        if getattr(arguments, name):
            raise InputError(f"--{name} requires a table, and --text, the column of the text.")
    columns = (*model.text_columns, *_find_run_columns(arguments))
    lines = text_lines(path, columns)
    return ((text, {"text": text}) for _, text in lines), count_rows(path, None)


def _read_words(path, arguments, model):
    """Reads the sentences of a file with labeled words, for a model that takes lists of words.

    Returns (words, row) tuples, or None for other files.
    """
    if path == STANDARD_INPUT or not hasattr(model, "tag"):
        return None
    inputs = labeled_inputs(path, read_options(arguments.model), model)
    return None if inputs is None else [(words, {}) for words in inputs]


def labeled_inputs(path: str, options: dict[str, Any], model: Any) -> list | None:
    """Returns the inputs of a file in the format of the training set, or None for other formats."""
    if options.get("tfds") or options.get("data"):
        return None
    form = dict.fromkeys(OF_FORM) | (form_of_run(options, path) or {})
    try:
        examples = read_training_set(options | form | {"train": path}, model)
    except InputError:
        return None
    # A line of text may look like a word with a label, but the label is unknown.
    has_words = isinstance(examples.inputs[0], list)
    if has_words and not set().union(*examples.labels) <= set(model.labels):
        return None
    return examples.inputs


def read_training_set(options: dict[str, Any], model: Any) -> Any:
    """Reads training examples with the task's reader and the run's read options."""
    values = {field.name: field.default for field in dataclasses.fields(ExampleSource)}
    values |= {name: value for name, value in options.items() if value is not None}
    values |= {"task": options.get("task"), "dev_split": None}
    values["negative"] = None  # Predictions do not use the negative text.
    del values["dev"], values["splits"]  # Only `train` is read.
    return read_examples_of(model, Namespace(**values), "train")


def _find_run_columns(arguments):
    from keras_bert_impl.data.tables.published import TASKS

    options = read_options(arguments.model)
    if options.get("task") in TASKS:
        return TASKS[options["task"]].text, TASKS[options["task"]].pair
    return options.get("text"), options.get("pair")


def _choose_converter(arguments):
    """Returns a function that converts blocks of predictions to what `--out` contains.

    If the run is on a GLUE task, its test set becomes a file for the benchmark's server.
    """
    from keras_bert_impl.data.tables.published import TASKS

    task, columns = read_options(arguments.model).get("task"), (arguments.text, arguments.pair)
    is_table = suffix_of(arguments.out or "") == ".tsv" and arguments.input != STANDARD_INPUT
    uses_task_columns = columns in ((None, None), _find_run_columns(arguments)) and not arguments.id
    if task in TASKS and is_table and uses_task_columns:
        from keras_bert_impl.finetuning.glue import as_submitted, is_glue_test

        if is_glue_test(task, arguments.input):
            say(
                f"{arguments.out} will have the format of GLUE's server. To write the input columns "
                "and the names of the labels, choose an --out that ends in .csv."
            )
            return functools.partial(as_submitted, task)
    return list


def _choose_columns(path, arguments, model):
    """Returns (column of the text, column of the second text or None)."""
    from keras_bert_impl.data.tables.tables import table_columns

    if arguments.text:
        return arguments.text, arguments.pair
    columns = table_columns(path, arguments.delimiter, not arguments.no_header)
    text, pair = _find_run_columns(arguments)
    run_columns = text, arguments.pair or pair
    if run_columns[0] in columns and run_columns[1] in (None, *columns):
        return run_columns
    if len(model.text_columns) == 2 and set(model.text_columns) <= set(columns):
        return model.text_columns
    if len(columns) == 1 and not arguments.pair:
        return columns[0], None
    usual = usual_column(columns, "text")
    if usual and not arguments.pair and len(model.text_columns) == 1:
        say(f"text: column {usual!r}")
        return usual, None
    raise InputError(
        f"{path} is a table with the columns {listed(columns)}: pass the column of texts as --text "
        "COLUMN and, for pairs, the column of second texts as --pair COLUMN."
    )


class Predict(Command):
    words = ("model", "input")
    example = (
        "  keras-bert predict --model run --input new.csv --out predicted.csv\n"
        "  keras-bert predict --model run --input reviews.txt\n"
        "  echo 'a joy to the end' | keras-bert predict --model run --input - --json\n"
        "  keras-bert predict --model run --input asked.jsonl \\\n"
        "      --text question --pair context\n"
        "  keras-bert predict --model run --input choices.jsonl"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = add_tuned_model(parser)
        group.add_argument(
            "--input",
            required=True,
            type=PATH,
            metavar="FILE",
            help="file with one text per line, - for standard input, a table: .csv, .tsv, "
            ".jsonl, .json, .parquet, .arrow, .feather, or a file that finetune reads for the task "
            "of the model",
        )
        add_inputs(parser.add_argument_group("columns of a table"))
        group = parser.add_argument_group("output")
        group.add_argument(
            "--out",
            type=OUTPUT_FILE,
            metavar="FILE",
            help=".csv, .tsv, .jsonl or .parquet file for the input columns and the predictions; "
            "a prediction column is called predicted_NAME if the input has a column NAME; "
            "default: -, which prints only the predictions",
        )
        group.add_argument(
            "--id",
            metavar="COLUMN",
            help="input column to copy to the output; default: all columns",
        )
        group.add_argument("--json", action="store_true", help="print a JSON object for each text")

    def check(self, arguments: Namespace) -> None:
        from keras_bert_impl.runs.prediction_table import check_output

        if arguments.out == STANDARD_INPUT:
            arguments.out = None
        if arguments.out:
            if arguments.json:
                raise InputError(
                    "--json prints JSON and writes no file. To write JSON, choose an --out that "
                    "ends in .jsonl."
                )
            check_output(arguments.out)

    def check_files(self, arguments: Namespace) -> None:
        from keras_bert_impl.data.tables.layout import Layout
        from keras_bert_impl.data.tables.tables import check_columns

        if arguments.text and arguments.input != STANDARD_INPUT:
            header = not arguments.no_header
            layout = Layout(arguments.text, arguments.pair, id=arguments.id, header=header)
            check_columns(arguments.input, layout, arguments.delimiter)

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.runs.prediction_table import table_writer
        from keras_bert_impl.runs.run import load_tuned
        from keras_bert_impl.tasks.registry import task_of_model

        source, out = arguments.input, arguments.out
        arguments = with_form(arguments, source)
        model = load_tuned(arguments.model, arguments.dtype, arguments.base)
        task = task_of_model(model)
        as_written, count = _choose_converter(arguments), 0
        with contextlib.ExitStack() as stack:
            stack.enter_context(encoded_as(arguments.encoding))
            rows, total = read_inputs(source, arguments, model)
            rows = _select_cells(rows, arguments)
            progress = None
            # A progress bar would mix with the predictions.
            if out or not sys.stdout.isatty():
                progress = stack.enter_context(Progress("predicting", total, "texts"))
            if out:
                write = stack.enter_context(table_writer(out, source, arguments.delimiter))
            else:
                write = functools.partial(_print, as_objects=arguments.json)
            for block in _predict_blocks(rows, model, task):
                write(as_written(block))
                count += len(block)
                if progress is not None:
                    progress.update(count)
            if not count:
                raise InputError(f"{source} has no texts.")
        if out:
            say(f"wrote {count:,} predictions to {out}")


def _print(block, as_objects):
    """Prints one line per text: the value of the `--id` column, if given, and the prediction."""
    from keras_bert_impl.runs.prediction_table import as_json, joined

    for row, answer, cells in block:
        if as_objects:
            print_line(as_json(joined(row, answer)))
        else:
            print_line("\t".join([*map(str, row.values()), *cells]), is_data=True)
    sys.stdout.flush()


def _predict_blocks(rows, model, task):
    """Yields a list of (input row, prediction, cells to print) for each block of texts."""
    from keras_bert_impl.data.batches.blocks import blocks

    waiting = collections.deque()

    def yield_texts():
        for text, row in rows:
            waiting.append(row)
            yield text

    for block in filter(None, blocks(yield_texts())):
        yield [(waiting.popleft(), *predicted) for predicted in task.predictions(model, block)]


def _select_cells(rows, arguments):
    from keras_bert_impl.data.tables.table_rows import value_of

    for text, row in rows:
        if arguments.id:
            row = {arguments.id: value_of(row, arguments.id)}
        yield text, row if arguments.id or arguments.out else {}
