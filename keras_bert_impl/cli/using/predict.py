"""`keras-bert predict`: predicts labels, entities, answers, choices or similarities of texts."""

import collections
import contextlib
import functools
import sys
from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import add_delimiter, add_tuned_model, say
from keras_bert_impl.cli.remembered import read_options
from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.io.progress import Progress

EXAMPLE = (
    "  keras-bert predict --model run --input new.csv --out predicted.csv\n"
    "  keras-bert predict --model run --input reviews.txt\n"
    "  echo 'a joy from start to end' | keras-bert predict --model run --input - --json\n"
    "  keras-bert predict --model run --input asked.jsonl --text question --pair context\n"
    "  keras-bert predict --model run --input choices.jsonl"
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add_tuned_model(parser)
    parser.add_argument(
        "--input",
        required=True,
        metavar="FILE",
        help="a file with a text on each line, or - for standard input; a table: .csv, .tsv, "
        ".jsonl, .json, .parquet, .arrow or .feather; for multiple choice, a file as for finetune",
    )
    parser.add_argument(
        "--out",
        type=lambda path: None if path == "-" else path,
        metavar="FILE",
        help="a .csv, .tsv, .jsonl or .parquet file to write, with all columns of the input and "
        "those of the answers, which are named predicted_... where the input has their name; "
        "default: - for standard output, with the answers alone",
    )
    parser.add_argument(
        "--id", metavar="COLUMN", help="the only column of the input to write beside the answers"
    )
    parser.add_argument(
        "--text",
        metavar="COLUMN",
        help="the column of the text or question; default: that of the run, or of a table with one "
        "column",
    )
    parser.add_argument(
        "--pair", metavar="COLUMN", help="the column of the second segment or context, if any"
    )
    add_delimiter(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object for each text")


def run(arguments: Namespace) -> None:
    """Prints one line per text, or writes a table, predicting several texts at a time.

    A line has the label and score, or the values of a regression; for tagging, `word/label`; for
    a question, the answer and its probability, or nothing; for choices, the best ending and its
    probability; for a pair, the cosine of its embeddings. A table has the columns of the input, or
    only that of `--id`, and those of the answers.
    """
    from keras_bert_impl.tasks.registry import task_of_model
    from keras_bert_impl.tasks.runs.prediction_table import check_output, table_writer
    from keras_bert_impl.tasks.runs.run import load_tuned

    source, out = arguments.input, arguments.out
    if out:
        check_output(out, source)
    model = load_tuned(arguments.model, arguments.dtype, arguments.base)
    task = task_of_model(model)
    rows, total = _rows(arguments, model, task)
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
        if out and not count:
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
    from keras_bert_impl.tasks.data.tables import in_blocks

    waiting = collections.deque()

    def texts():
        for text, row in rows:
            waiting.append(row)
            yield text

    for block in in_blocks(texts()):
        yield [(waiting.popleft(), *predicted) for predicted in task.predictions(model, block)]


# === Input ===


def _rows(arguments, model, task):
    """Returns (iterator of (text, columns to pass on), number of texts or None)."""
    from keras_bert_impl.io.lines import STANDARD_INPUT, read_lines, suffix_of
    from keras_bert_impl.tasks.data.examples import Layout
    from keras_bert_impl.tasks.data.tables import FORMATS
    from keras_bert_impl.tasks.runs.prediction_table import count_rows, read_rows

    path, delimiter = arguments.input, arguments.delimiter
    inputs = task.read_inputs(path)
    is_table = path != STANDARD_INPUT and (delimiter or suffix_of(path) in FORMATS)
    if inputs is not None:
        for name in ("text", "pair", "id"):
            if getattr(arguments, name):
                raise InputError(f"{path} has no columns: leave out --text, --pair and --id.")
        return ((text, {}) for text in inputs), len(inputs)
    if arguments.text or is_table:
        if path == STANDARD_INPUT:
            raise InputError("standard input cannot be a table; write the table to a file.")
        text, pair = _columns(arguments, model)
        layout = Layout(text, pair, id=arguments.id, allow_empty=True)
        rows = read_rows(path, layout, delimiter)
        return _passed_on(rows, arguments), count_rows(path, layout, delimiter)
    for name in ("pair", "id"):
        if getattr(arguments, name):
            raise InputError(f"--{name} needs a table, and --text, the column of the text.")
    lines = ((text, {"text": text}) for _, text in read_lines(path))
    return _passed_on(lines, arguments), count_rows(path, None)


def _passed_on(rows, arguments):
    """Selects the columns that are written beside an answer."""
    for text, row in rows:
        if arguments.id:
            row = {arguments.id: row[arguments.id]}
        yield text, row if arguments.id or arguments.out else {}


def _columns(arguments, model):
    """Returns (text column, second-segment column or None) of a table."""
    from keras_bert_impl.tasks.data.tables import table_columns

    if arguments.text:
        return arguments.text, arguments.pair
    columns = table_columns(arguments.input, arguments.delimiter)
    options = read_options(arguments.model)
    of_run = options.get("text"), arguments.pair or options.get("pair")
    if of_run[0] in columns and of_run[1] in (None, *columns):
        return of_run
    if len(model.text_columns) == 2 and set(model.text_columns) <= set(columns):
        return model.text_columns
    if len(columns) == 1 and not arguments.pair:
        return columns[0], None
    raise InputError(
        f"{arguments.input} is a table with the columns {listed(columns)}: name that of the texts "
        "with --text COLUMN, and of their pairs with --pair COLUMN."
    )
