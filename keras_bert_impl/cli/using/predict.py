"""`keras-bert predict`: predicts labels, entities, answers, choices or similarities of texts."""

import json
import sys
from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import add_delimiter, add_tuned_model
from keras_bert_impl.io.errors import InputError, listed

EXAMPLE = (
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
        "--text",
        metavar="COLUMN",
        help="the column of the text or question; default: that of a table with one column",
    )
    parser.add_argument(
        "--pair", metavar="COLUMN", help="the column of the second segment or context, if any"
    )
    add_delimiter(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object for each text")


def run(arguments: Namespace) -> None:
    """Prints one line per text, predicting several texts at a time.

    The line has the label and score, or the values of a regression; for tagging, `word/label`; for
    a question, the answer and its probability, or nothing; for choices, the best ending and its
    probability; for a pair, the cosine of its embeddings.
    """
    from keras_bert_impl.tasks.data.tables import in_blocks
    from keras_bert_impl.tasks.registry import task_of_model
    from keras_bert_impl.tasks.runs.run import load_tuned

    model = load_tuned(arguments.model, arguments.dtype, arguments.base)
    task = task_of_model(model)
    inputs = task.read_inputs(arguments.input)
    if inputs is None:
        inputs = _texts(arguments, model)
    elif arguments.text or arguments.pair:
        raise InputError(f"{arguments.input} has no columns: leave out --text and --pair.")
    for texts in in_blocks(inputs):
        for answer, columns in task.predictions(model, texts):
            if arguments.json:
                print(json.dumps(answer, ensure_ascii=False))
            else:
                print("\t".join(columns))
        sys.stdout.flush()


def _texts(arguments, model):
    """Returns an iterator of the texts or pairs in the input."""
    from keras_bert_impl.io.lines import STANDARD_INPUT, read_lines, suffix_of
    from keras_bert_impl.tasks.data.tables import FORMATS, read_texts_of

    path = arguments.input
    is_table = path != STANDARD_INPUT and (arguments.delimiter or suffix_of(path) in FORMATS)
    if arguments.text or is_table:
        if path == STANDARD_INPUT:
            raise InputError("standard input cannot be a table; write the table to a file.")
        return read_texts_of(path, *_columns(arguments, model), arguments.delimiter)
    if arguments.pair:
        raise InputError("--pair needs --text, the column of the first segment.")
    return (text for _, text in read_lines(path))


def _columns(arguments, model):
    """Returns (text column, second-segment column or None) of a table."""
    from keras_bert_impl.tasks.data.tables import table_columns

    if arguments.text:
        return arguments.text, arguments.pair
    columns = table_columns(arguments.input, arguments.delimiter)
    if len(model.text_columns) == 2 and set(model.text_columns) <= set(columns):
        return model.text_columns
    if len(columns) == 1 and not arguments.pair:
        return columns[0], None
    raise InputError(
        f"{arguments.input} is a table with the columns {listed(columns)}: name that of the texts "
        "with --text COLUMN, and of their pairs with --pair COLUMN."
    )
