"""Command-line arguments for labeled examples: task, files and columns."""

import argparse
import csv
import dataclasses
import textwrap
from collections.abc import Sequence
from typing import Any

from keras_bert_impl.cli.common import DATA_SET, EXAMPLES, FOLDER, add_table_form, say
from keras_bert_impl.cli.parser import Rare
from keras_bert_impl.data.tables.held_rows import held_out_files
from keras_bert_impl.data.tables.joining import join_examples
from keras_bert_impl.data.tables.source import MULTILINGUAL, ExampleSource
from keras_bert_impl.data.tables.splits import hold_out, leave_out
from keras_bert_impl.tasks.names import (
    reader_help,
    reader_options,
    readers,
    task_called,
    task_names,
)
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.lines import encoded_as, suffix_of

GLUE = "glue"  # value of --task for all tasks of the benchmark
_USUAL = {"text": ("text", "sentence"), "label": ("label", "labels")}  # names of columns
_OF_TFDS = {"text", "pair", "label"}
_OF_DATA = "With --data, the task is one of GLUE, xnli or paws_x."


def add_examples(
    parser: argparse.ArgumentParser,
    is_training: bool,
    is_scored: bool = True,
    title: str = "labeled examples",
) -> None:
    group = parser.add_argument_group(title)
    _add_sources(group, is_training, is_scored)
    _add_columns(group)
    _add_task(group, is_training, is_training and is_scored)
    group = parser.add_argument_group(Rare("columns, labels and data sets"), _describe_tasks())
    _add_data_sets(group)
    if is_training and is_scored:
        _add_split(group)
    _add_rare_columns(group)


def _describe_tasks():
    return textwrap.fill(f"{reader_help()} {_OF_DATA}", 100, break_on_hyphens=False)


def _add_sources(group, is_training, is_scored):
    tables = ".csv, .tsv, .jsonl, .parquet, .arrow"
    if is_training:
        group.add_argument(
            "--train",
            type=EXAMPLES,
            nargs="+",
            action=_Files,
            metavar="FILE",
            help=f"training set: {tables}",
        )
    if is_scored:
        description = (
            "validation set, or a run with held-out examples"
            if is_training
            else f"labeled examples: {tables}"
        )
        dev = group.add_argument("--dev", type=EXAMPLES, metavar="FILE", help=description)
        if is_training:
            dev.instead = "--dev-split 0.1"
    if is_scored and is_training:
        group.add_argument(
            "--dev-split",
            type=_parse_fraction,
            metavar="X",
            help="fraction of --train to hold out for validation",
        )


def _add_columns(group):
    group.add_argument("--text", metavar="COLUMN", help="column of the text")
    group.add_argument("--pair", metavar="COLUMN", help="column of the second text of a pair")
    group.add_argument(
        "--label",
        metavar="COLUMN",
        help="column of the label, or A,B for columns of 0 and 1",
    )


def _add_split(group):
    group.add_argument(
        "--groups",
        metavar="COLUMN",
        help="column of groups that --dev-split keeps together, such as customer; for squad, title",
    )
    group.add_argument(
        "--dates",
        metavar="COLUMN",
        help="column of ISO dates or numbers; --dev-split then holds out the latest examples",
    )


def _add_rare_columns(group):
    group.add_argument(
        "--labels",
        type=_parse_names,
        metavar="A,B",
        help="allowed labels, in a table or for tagging; default: the labels in --train",
    )
    group.add_argument(
        "--label-separator",
        metavar="TEXT",
        help="separator of labels in a cell, for multi-label classification",
    )
    group.add_argument(
        "--single-label",
        action="store_true",
        help="each list of labels contains a single label: use it as the class",
    )
    group.add_argument(
        "--regression", action="store_true", help="predict numbers instead of classes"
    )
    group.add_argument(
        "--negative",
        metavar="COLUMN",
        help="column of a dissimilar text, for similarity without labels",
    )
    group.add_argument(
        "--word-prefix",
        metavar="TEXT",
        default="",
        help="for tagging, prefix to remove from all words, such as en: in WikiANN",
    )
    group.add_argument(
        "--sentence",
        metavar="COLUMN",
        help="for tagging with one word per row, column of the sentence number or id",
    )
    group.add_argument(
        "--outside",
        metavar="LABEL",
        help="for tagging, label of words outside entities; default: O",
    )
    add_table_form(group)
    group.add_argument("--id", metavar="COLUMN", help="id column; its values must be unique")
    group.add_argument(
        "--skip-bad-rows",
        action="store_true",
        help="skip invalid rows, and list them in a warning",
    )


def _add_task(group, is_training, runs_glue):
    from keras_bert_impl.data.tables.published import TASKS

    glue = [task for task in TASKS if task != "diagnostic" or not is_training]
    all_of_glue = ""
    if runs_glue:
        glue.append(GLUE)
        all_of_glue = f", or {GLUE} for all of them"
    default = "classification" if is_training else "the model's task"
    group.add_argument(
        "--task",
        type=task_called,
        choices=[*glue, *MULTILINGUAL, *task_names()],
        metavar="NAME",
        help=f"{', '.join(task_names())} or one of GLUE{all_of_glue}; default: {default}",
    )


def _add_data_sets(group):
    group.add_argument(
        "--data", type=FOLDER, metavar="DIR", help="directory of GLUE, XNLI or PAWS-X"
    )
    group.add_argument("--language", default="en", metavar="CODE", help="language of XNLI, PAWS-X")
    group.add_argument(
        "--tfds",
        type=DATA_SET,
        metavar="NAME",
        help="name or directory of a dataset of TensorFlow Datasets; --train and --dev are then "
        "split names",
    )


def needed_files(arguments: argparse.Namespace) -> list[str]:
    """Returns the arguments of files without which a command cannot train."""
    from keras_bert_impl.data.tables.published import TASKS

    if arguments.data or arguments.task in (GLUE, *TASKS, *MULTILINGUAL):
        return []
    is_split = any(vars(arguments).get(name) for name in ("dev_split", "folds"))
    return ["train"] if is_split else ["train", "dev"]


def check_examples(arguments: argparse.Namespace, are_written: bool = False) -> None:
    _check_combination(arguments)
    if vars(arguments).get("dev") and not arguments.tfds:
        dev, arguments.dev = arguments.dev, held_out_files(arguments.dev)
        arguments.is_dev_of_run = dev != arguments.dev
    split_options = [name for name in ("groups", "dates") if vars(arguments).get(name)]
    if len(split_options) > 1:
        raise InputError("--groups and --dates exclude each other: leave out one.")
    if split_options and not arguments.dev_split:
        raise InputError(f"--{split_options[0]} requires --dev-split, such as --dev-split 0.1.")
    options = reader_options()
    reads_words = "text" in options.get(arguments.task, ()) and not reads_tables(arguments.task)
    if arguments.tfds and reads_words:
        task = arguments.task
        raise InputError(
            f"--tfds does not support {task}; write the dataset to JSON lines or Parquet."
        )
    column_names = {
        name: getattr(arguments, name) for name in ("text", "pair", "negative", "label")
    }
    columns = [column for column in column_names.values() if column is not None]
    if len(set(columns)) < len(columns):
        names = ", ".join(f"--{name} {column}" for name, column in column_names.items() if column)
        raise InputError(f"each column can only be used once. Received: {names}")
    task, is_training = arguments.task, "train" in vars(arguments)
    if task in MULTILINGUAL and arguments.data:
        supported_options, source = {"language"}, f"--task {task}"
    elif arguments.data:
        supported_options, source = {"text", "pair", "label"} if are_written else set(), "--data"
    elif task in options and (task or is_training):
        supported_options, source = options[task], f"--task {task}" if task else "tables"
    else:
        return  # The task is the task of the model, or registered by the user.
    if arguments.tfds:
        supported_options, source = supported_options & _OF_TFDS, "--tfds"
    for name in sorted(set().union(*options.values(), {"language"}) - supported_options):
        default = getattr(ExampleSource, name)
        if vars(arguments).get(name, default) != default:
            raise InputError(f"--{name.replace('_', '-')} is not supported with {source}.")


def _check_combination(arguments):
    if arguments.negative and arguments.task not in _find_tasks_with("negative"):
        raise InputError(f"--negative needs --task {' or '.join(_find_tasks_with('negative'))}.")
    with_labels = _find_tasks_with("labels")
    if arguments.labels and (arguments.tfds or arguments.task not in (None, *with_labels)):
        names = " or ".join(with_labels)
        raise InputError(
            f"--labels requires a table or --task {names}. Leave out --labels: the labels of other "
            "sources are already known."
        )
    if getattr(arguments, "dev_split", None) and (arguments.dev or arguments.data):
        raise InputError(
            "--dev-split splits --train: leave out --dev and --data, or leave out --dev-split."
        )


def _find_tasks_with(option):
    return [task for task, options in reader_options().items() if task and option in options]


def reads_tables(task: str | None) -> bool:
    return "pair" in reader_options().get(task, ())


def take_columns(arguments: argparse.Namespace) -> None:
    """Sets `--text` and `--label` to a column with a usual name, if the table has only one."""
    from keras_bert_impl.data.tables.tables import FORMATS, table_columns

    values = vars(arguments)
    files = values.get("train") or values.get("dev")
    path = files[0] if isinstance(files, list) else files
    if not path or any(values.get(name) for name in ("task", "tfds", "data", "no_header")):
        return
    names = [
        name for name in _USUAL if not values[name] and (name == "label" or not values["pair"])
    ]
    if not names or not (arguments.delimiter or suffix_of(path) in FORMATS):
        return
    with encoded_as(arguments.encoding):
        columns = table_columns(path, arguments.delimiter)
    columns = [column for column in columns if column not in values.values()]
    usual = {name: column for name in names if (column := usual_column(columns, name))}
    if usual and (values["text"] or "text" in usual):
        values.update(usual)
        say(", ".join(f"{name}: column {column!r}" for name, column in usual.items()))


def usual_column(columns: Sequence[str], name: str) -> str | None:
    """Returns the only column that has a usual name of `--text` or `--label`, or None."""
    named = [column for column in columns if column in _USUAL[name]]
    return named[0] if len(named) == 1 else None


def check_tables(arguments: argparse.Namespace) -> None:
    """Raises `InputError` if a table lacks a column named in the arguments."""
    take_columns(arguments)
    if arguments.task is None or (reads_tables(arguments.task) and not arguments.data):
        needed = ("text",) if arguments.task else ("text", "label")
        _make_source(_replace_dev_split(arguments)).check_table(*needed)


def read_files(arguments: argparse.Namespace) -> None:
    """Reads the examples in files. Called before TensorFlow is imported.

    The function `read_examples` then returns these examples.
    """
    if arguments.task in readers() and not (arguments.tfds or arguments.data):
        splits = ("train",) if arguments.dev_split else ("train", "dev")
        whole = _replace_dev_split(arguments)
        arguments.examples = {split: read_examples(whole, split) for split in splits}


def read_examples(arguments: argparse.Namespace, split: str) -> Any:
    from keras_bert_impl.data.tables.published import TASKS

    _check_combination(arguments)
    take_columns(arguments)
    if split in vars(arguments).get("examples", ()):
        return arguments.examples.pop(split)
    if arguments.task in (*TASKS, *MULTILINGUAL):
        return _read_parts(arguments, split, lambda source: source.published(arguments.task, split))
    return _read_parts(arguments, split, lambda source: _find_reader(arguments.task)(source, split))


def _find_reader(task):
    """Returns the reader of a task. If a user registered the task, imports TensorFlow."""
    if task in readers():
        return readers()[task]
    from keras_bert_impl.tasks.registry import task_named

    return task_named(task).read


def read_split(arguments: argparse.Namespace, split: str) -> Any:
    """Reads the examples of a split without TensorFlow. In tables, labels are optional."""

    def read(source):
        source = dataclasses.replace(source, splits=(split,))
        if arguments.task is None:
            return source.table(split, source.regression, ("text",))
        return readers()[arguments.task](source, split)

    return _read_parts(arguments, split, read)


def form_of_tables(arguments: argparse.Namespace, split: str) -> dict[str, Any]:
    """Returns the columns of a split's tables, and their delimiters as one string."""
    from keras_bert_impl.data.tables.tables import table_form

    forms = []
    for source in _make_source(arguments).each(split):
        with encoded_as(source.encoding):
            path = getattr(source, split)
            forms.append(table_form(path, source.delimiter, not source.no_header))
    columns = dict.fromkeys(name for names, _ in forms for name in names)
    delimiters = dict.fromkeys(delimiter for _, delimiter in forms if delimiter)
    return {"delimiter": "".join(delimiters) or None, "columns": list(columns)}


def _read_parts(arguments, split, read):
    parts = []
    for source in _make_source(arguments).each(split):
        with encoded_as(source.encoding):
            parts.append(read(source))
    return join_examples(parts)


def _make_source(arguments):
    values = vars(arguments)
    names = [field.name for field in dataclasses.fields(ExampleSource) if field.name in values]
    splits = tuple(name for name in ("train", "dev") if name in values)
    return ExampleSource(**{name: values[name] for name in names}, splits=splits)


def _replace_dev_split(arguments):
    """Replaces `--dev-split` by `--dev` with the training file, which is split after reading."""
    if not vars(arguments).get("dev_split"):
        return arguments
    changed = {"dev": arguments.train, "dev_split": None}
    return argparse.Namespace(**vars(arguments) | changed)


def read_whole(arguments: argparse.Namespace) -> Any:
    return read_examples(_replace_dev_split(arguments), "train")


def read_train_and_dev(arguments: argparse.Namespace, seed: int) -> Sequence[Any]:
    share = arguments.dev_split
    if share is None:
        train, dev = (read_examples(arguments, split) for split in ("train", "dev"))
        return (_drop_dev_texts(train, dev) if vars(arguments).get("is_dev_of_run") else train), dev
    _check_combination(arguments)
    train, dev = hold_out(read_examples(_replace_dev_split(arguments), "train"), share, seed)
    count = len(train) + len(dev)
    say(f"held out {len(dev):,} of {count:,} examples to score on, seed {seed}")
    return train, dev


def _drop_dev_texts(train, dev):
    """Removes the training examples whose texts are in the validation set."""
    remaining_examples = leave_out(train, dev)
    if len(remaining_examples) < len(train):
        count = len(train) - len(remaining_examples)
        say(f"left out {count:,} training examples whose texts are in the validation set")
    return remaining_examples


def read_examples_of(model: Any, arguments: argparse.Namespace, split: str) -> Any:
    """Reads the examples of a split. The default of `--task` is the task of the model."""
    from keras_bert_impl.tasks.registry import task_of_model

    task = arguments.task or task_of_model(model).name
    return read_examples(argparse.Namespace(**vars(arguments) | {"task": task}), split)


def read_more(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.task != "mnli":
        return {}
    from keras_bert_impl.data.tables.published import read_more_mnli

    return read_more_mnli(arguments.data, arguments.skip_bad_rows)


class _Files(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, values[0] if len(values) == 1 else values)


def _parse_fraction(text):
    try:
        fraction = float(text)
    except ValueError:
        fraction = 0.0
    if not 0 < fraction < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1, such as 0.1")
    return fraction


def _parse_names(text):
    """argparse type: a list of names. Names with a comma are quoted."""
    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} contains an empty name; write A,B")
    return names
