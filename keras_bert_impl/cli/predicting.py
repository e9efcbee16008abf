"""`keras-bert predict` and `drift`: both read texts as they are served."""

import collections
import contextlib
import dataclasses
import functools
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_bert_impl.cli.common import (
    OUTPUT_FILE,
    PATH,
    ArgumentsContainer,
    add_table_form,
    add_tuned_model,
    print_json,
    print_table,
    say,
)
from keras_bert_impl.cli.parser import Command
from keras_bert_impl.cli.remembered import read_options
from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.io.lines import STANDARD_INPUT
from keras_bert_impl.io.progress import Progress


def add_inputs(parser: ArgumentsContainer) -> None:
    """Adds the columns and the form of a table of texts."""
    parser.add_argument(
        "--text",
        metavar="COLUMN",
        help="column of the text or question; default: the run's column, or the only column of the "
        "table",
    )
    parser.add_argument(
        "--pair", metavar="COLUMN", help="column of the second text or the context, if any"
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
    from keras_bert_impl.runs.prediction_table import count_rows, read_rows
    from keras_bert_impl.tasks.data.layout import Layout
    from keras_bert_impl.tasks.data.tables import FORMATS, text_lines
    from keras_bert_impl.tasks.registry import task_of_model

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
        f"{path} is a table with the columns {listed(columns)}: name the column of "
        "the texts with --text COLUMN, and the column of their pairs with --pair COLUMN."
    )


class Predict(Command):
    """`keras-bert predict`: predicts labels, entities, answers, choices or similarities of texts."""

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
            help="file with a text on each line, or - for standard input; a table: .csv, .tsv, .jsonl, "
            ".json, .parquet, .arrow or .feather; for multiple choice, a file as for finetune",
        )
        add_inputs(parser.add_argument_group("columns of a table"))
        group = parser.add_argument_group("output")
        group.add_argument(
            "--out",
            type=OUTPUT_FILE,
            metavar="FILE",
            help="a .csv, .tsv, .jsonl or .parquet file to write, with the columns of the input and the "
            "predictions. If a name is taken, the prediction is named predicted_NAME. Default: - prints "
            "the predictions only",
        )
        group.add_argument(
            "--id", metavar="COLUMN", help="only column of the input to copy to the output"
        )
        group.add_argument("--json", action="store_true", help="print a JSON object for each text")

    def check(self, arguments: Namespace) -> None:
        """Checks the output, before TensorFlow is imported."""
        from keras_bert_impl.runs.prediction_table import check_output

        if arguments.out == STANDARD_INPUT:
            arguments.out = None
        if arguments.out:
            if arguments.json:
                raise InputError(
                    "--json prints; --out writes JSON to a file whose name ends in .jsonl."
                )
            check_output(arguments.out)

    def check_files(self, arguments: Namespace) -> None:
        """Checks the columns of a table."""
        from keras_bert_impl.tasks.data.layout import Layout
        from keras_bert_impl.tasks.data.tables import check_columns

        if arguments.text and arguments.input != STANDARD_INPUT:
            header = not arguments.no_header
            layout = Layout(arguments.text, arguments.pair, id=arguments.id, header=header)
            check_columns(arguments.input, layout, arguments.delimiter)

    def run(self, arguments: Namespace) -> None:
        """Prints one line per text, or writes a table, predicting several texts at a time."""
        from keras_bert_impl.runs.prediction_table import table_writer
        from keras_bert_impl.runs.run import load_tuned
        from keras_bert_impl.tasks.registry import task_of_model

        source, out = arguments.input, arguments.out
        model = load_tuned(arguments.model, arguments.dtype, arguments.base)
        task = task_of_model(model)
        rows, total = read_inputs(source, arguments, model)
        rows = _passed_on(rows, arguments)
        count = 0
        with contextlib.ExitStack() as stack:
            progress = None
            if out or not sys.stdout.isatty():  # a bar would be drawn between the answers
                progress = stack.enter_context(Progress("predicting", total, "texts"))
            if out:
                write = stack.enter_context(table_writer(out, source))
            else:
                write = functools.partial(_print, as_objects=arguments.json)
            for block in _answered(rows, model, task):
                write(block)
                count += len(block)
                if progress is not None:
                    progress.update(count)
            if not count:
                raise InputError(f"{source} has no texts.")
        if out:
            say(f"wrote {count:,} predictions to {out}")


def _print(block, as_objects):
    """Prints predictions, with the `--id` column as the only column of the input."""
    from keras_bert_impl.runs.prediction_table import as_json, joined

    for row, answer, cells in block:
        if as_objects:
            print(as_json(joined(row, answer)))
        else:
            print("\t".join([*map(str, row.values()), *cells]))
    sys.stdout.flush()


def _answered(rows, model, task):
    """Yields blocks of (row of the input, answer, cells of a line)."""
    from keras_bert_impl.tasks.inputs.blocks import blocks

    waiting = collections.deque()

    def texts():
        for text, row in rows:
            waiting.append(row)
            yield text

    for block in filter(None, blocks(texts())):
        yield [(waiting.popleft(), *predicted) for predicted in task.predictions(model, block)]


def _passed_on(rows, arguments):
    """Selects the columns of the input that are copied to the output."""
    from keras_bert_impl.tasks.data.table_rows import value_of

    for text, row in rows:
        if arguments.id:
            row = {arguments.id: value_of(row, arguments.id)}
        yield text, row if arguments.id or arguments.out else {}


_MOST_CLASSES = 10  # lines of the table


class Drift(Command):
    """`keras-bert drift`: compares served texts with those that a model was trained on."""

    example = (
        "  keras-bert drift --model run --served last-week.csv\n"
        "  keras-bert drift --model run --reference dev.csv --served today.csv \\\n"
        "      --text review --check"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = add_tuned_model(parser)
        group.add_argument(
            "--served",
            type=PATH,
            required=True,
            metavar="FILE",
            help="served texts: any file that `keras-bert predict` reads",
        )
        group.add_argument(
            "--reference",
            type=PATH,
            metavar="FILE",
            help="texts to compare with; default: the training set of the run",
        )
        add_inputs(parser.add_argument_group("columns of both tables"))
        group = parser.add_argument_group("output")
        group.add_argument(
            "--check", action="store_true", help="exit with status 2 if anything has shifted"
        )
        group.add_argument("--json", action="store_true", help="print the comparison as JSON")

    def check(self, arguments: Namespace) -> None:
        """Finds the training data of the run, if there is no other reference."""
        arguments.id = None
        if arguments.reference is None and read_options(arguments.model).get("train") is None:
            raise InputError(
                f"--reference FILE is missing: {arguments.model} does not record the file that it was "
                "trained on."
            )

    def run(self, arguments: Namespace) -> None:
        """Prints a row for each quantity."""
        from keras_bert_impl.runs.drift import compare_samples, sample_of
        from keras_bert_impl.runs.run import load_tuned

        model = load_tuned(arguments.model, arguments.dtype, arguments.base)
        reference, served = (
            sample_of(model, _texts(path, arguments, model) if path else _of_run(arguments, model))
            for path in (arguments.reference, arguments.served)
        )
        compared = compare_samples(reference, served)
        if arguments.json:
            print_json(
                {
                    name: {"psi": one.psi, "p_value": one.p_value, "verdict": one.verdict}
                    for name, one in compared.items()
                }
            )
        else:
            print_table(
                _rows(compared, reference, served),
                {"name": "", "reference": "reference", "served": "served"}
                | {"psi": "PSI", "p": "p", "verdict": ""},
            )
        shifted = [name for name, one in compared.items() if one.verdict != "same"]
        if shifted and arguments.check:
            raise InputError(f"{', '.join(shifted)} of {arguments.served}: shifted.")


def _of_run(arguments, model):
    """Returns the texts that a run was trained on, read as the run read them."""
    from keras_bert_impl.tasks.data.source import ExampleSource
    from keras_bert_impl.tasks.registry import task_of_model

    options = read_options(arguments.model)
    names = {field.name for field in dataclasses.fields(ExampleSource)} & set(options)
    source = ExampleSource(**{name: options[name] for name in names}, splits=("train",))
    return task_of_model(model).read(source, "train").texts


def _texts(path, arguments, model):
    rows, total = read_inputs(path, arguments, model)
    with Progress(f"reading {path}", total, "texts") as progress:
        for count, (text, _) in enumerate(rows, 1):
            yield text
            progress.update(count)


def _rows(compared, reference, served):
    """Returns the rows of the table: a quantity, and below it the shares of its classes."""
    rows = []
    for name, one in compared.items():
        p = f"{one.p_value:.3f}" if one.p_value >= 0.001 else "<0.001"
        row = {"psi": f"{one.psi:.3f}", "p": p, "verdict": one.verdict}
        if name in reference.numbers:
            samples = (reference.numbers[name], served.numbers[name])
            rows.append({"name": name} | _both(samples, _quantiles) | row)
            continue
        samples = (reference.classes[name], served.classes[name])
        rows.append({"name": name} | _both(samples, lambda names: f"{len(names):,}") | row)
        for each in sorted(set(samples[0]) | set(samples[1]))[:_MOST_CLASSES]:
            shares = _both(samples, functools.partial(_share, each))
            rows.append({"name": f"  {each}"} | shares | dict.fromkeys(row, ""))
    return rows


def _share(name, names):
    return f"{names.count(name) / len(names):.1%}"


def _both(samples, function):
    return dict(zip(("reference", "served"), map(function, samples)))


def _quantiles(values):
    """Returns the median and the 99th percentile."""
    median, high = np.quantile(values, [0.5, 0.99], method="higher")
    return f"{median:.4g} (99%: {high:.4g})"
