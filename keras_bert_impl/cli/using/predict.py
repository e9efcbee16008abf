"""`keras-bert predict`: predicts labels, entities, answers, choices or similarities of texts."""

import collections
import contextlib
import functools
import sys
from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import add_tuned_model, say
from keras_bert_impl.cli.inputs import add_inputs, read_inputs
from keras_bert_impl.cli.kinds import OUTPUT_FILE, PATH
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.lines import STANDARD_INPUT
from keras_bert_impl.io.progress import Progress

EXAMPLE = (
    "  keras-bert predict --model run --input new.csv --out predicted.csv\n"
    "  keras-bert predict --model run --input reviews.txt\n"
    "  echo 'a joy to the end' | keras-bert predict --model run --input - --json\n"
    "  keras-bert predict --model run --input asked.jsonl \\\n      --text question --pair context\n"
    "  keras-bert predict --model run --input choices.jsonl"
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
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
        help="a .csv, .tsv, .jsonl or .parquet file to write, with the columns of the input and of "
        "the answers, named predicted_... where the input has their name; default: - for standard "
        "output, with the answers alone",
    )
    group.add_argument(
        "--id", metavar="COLUMN", help="only column of the input to write beside the answers"
    )
    group.add_argument("--json", action="store_true", help="print a JSON object for each text")


def check(arguments: Namespace) -> None:
    """Checks the output, before TensorFlow is imported."""
    from keras_bert_impl.tasks.runs.prediction_table import check_output

    if arguments.out == STANDARD_INPUT:
        arguments.out = None
    if arguments.out:
        if arguments.json:
            raise InputError(
                "--json prints; --out writes JSON to a file whose name ends in .jsonl."
            )
        check_output(arguments.out)


def check_files(arguments: Namespace) -> None:
    """Checks the columns of a table."""
    from keras_bert_impl.tasks.data.layout import Layout
    from keras_bert_impl.tasks.data.tables import check_columns

    if arguments.text and arguments.input != STANDARD_INPUT:
        header = not arguments.no_header
        layout = Layout(arguments.text, arguments.pair, id=arguments.id, header=header)
        check_columns(arguments.input, layout, arguments.delimiter)


def run(arguments: Namespace) -> None:
    """Prints one line per text, or writes a table, predicting several texts at a time."""
    from keras_bert_impl.tasks.registry import task_of_model
    from keras_bert_impl.tasks.runs.prediction_table import table_writer
    from keras_bert_impl.tasks.runs.run import load_tuned

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
    """Prints answers, without the columns of the input but that of `--id`."""
    from keras_bert_impl.tasks.runs.prediction_table import as_json, joined

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
    """Selects the columns that are written beside an answer."""
    from keras_bert_impl.tasks.data.table_rows import value_of

    for text, row in rows:
        if arguments.id:
            row = {arguments.id: value_of(row, arguments.id)}
        yield text, row if arguments.id or arguments.out else {}
