"""Command-line arguments of labeled examples: task, files and columns."""

import argparse
import csv
import dataclasses
import sys

from keras_bert_impl.cli.common import delimiter
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.data.source import MULTILINGUAL, ExampleSource
from keras_bert_impl.tasks.names import task_names


def add_examples(parser, is_training, is_scored=True):
    """Adds the arguments of labeled examples to a command.

    Args:
        parser: the command's `argparse.ArgumentParser`.
        is_training: bool. Whether the command also reads training examples.
        is_scored: bool. Whether it reads examples to score on.
    """
    from keras_bert_impl.tasks.data.glue import TASKS

    glue = [task for task in TASKS if task != "diagnostic" or not is_training]
    files = " and ".join(["--train"] * is_training + ["--dev"] * is_scored)
    default = "texts in a table" if is_training else "that of the model; of texts those in a table"
    parser.add_argument(
        "--task",
        choices=[*glue, *MULTILINGUAL, *task_names()],
        help=f"a GLUE task, xnli or paws_x, read from --data; or for {files}: tagging, "
        "labels of words in columns or CoNLL-U; squad, questions with answers in a context; "
        "choice, prompts with endings of SWAG (.csv), CODAH (.tsv), SIQA or any number (.jsonl); "
        "similarity, pairs in a table (or STS-B in --data), to be embedded, with numbers in "
        f"--label, or without as texts and what is near to them. Default: {default}",
    )
    parser.add_argument("--data", metavar="DIR", help="the folder of GLUE, XNLI or PAWS-X")
    parser.add_argument("--language", default="en", help="of XNLI or PAWS-X; default: en")
    parser.add_argument(
        "--tfds",
        metavar="NAME",
        help=f"a data set of TensorFlow Datasets, or the directory of one; {files}: its splits",
    )
    if is_training:
        parser.add_argument(
            "--train",
            metavar="FILE",
            help="what to train on; texts in a table "
            "are .csv, .tsv, .jsonl, .json, .parquet or .arrow; with --data the .jsonl that `keras-bert "
            "augment` made of it",
        )
    if is_scored:
        parser.add_argument("--dev", metavar="FILE", help="what to score on")
    if is_scored and is_training:
        parser.add_argument(
            "--dev-split",
            type=_share,
            metavar="SHARE",
            help="hold out this part "
            "of --train to score on, such as 0.1, in place of --dev; the same part "
            "for the same seed, with as many of each class",
        )
    parser.add_argument(
        "--text",
        metavar="COLUMN",
        help="the column of the text; of words for tagging, from 0 (default: 0)",
    )
    parser.add_argument("--pair", metavar="COLUMN", help="the column of the second segment, if any")
    parser.add_argument(
        "--negative",
        metavar="COLUMN",
        help="for similarity without labels the column of a text that is not near, if any",
    )
    parser.add_argument(
        "--label",
        metavar="COLUMN",
        help="the column of the label; for tagging a "
        "number (default: -1, the last), or upos, xpos, feats or deprel (default: "
        "upos) of a .conllu file",
    )
    parser.add_argument(
        "--word-prefix",
        metavar="TEXT",
        default="",
        help="for tagging what all words begin with, as en: in WikiANN; it is taken off",
    )
    parser.add_argument(
        "--labels",
        type=_names,
        metavar="A,B",
        help="the labels that may occur, in a table or of words; default: those of --train",
    )
    parser.add_argument(
        "--label-separator",
        metavar="TEXT",
        help="texts have any number of labels, with this between their names",
    )
    parser.add_argument(
        "--delimiter",
        type=delimiter,
        metavar="CHAR",
        help="what separates the "
        "cells of a table with quotes, such as ; or tab; default: by the file",
    )
    parser.add_argument("--id", metavar="COLUMN", help="a column whose values must all differ")
    parser.add_argument(
        "--skip-bad-rows", action="store_true", help="leave out, count and list what cannot be used"
    )
    parser.add_argument(
        "--regression", action="store_true", help="labels are numbers to learn, not classes"
    )


def read_examples(arguments, split):
    """Reads the labeled examples of a split, as given by the arguments.

    Args:
        arguments: parsed arguments, including those of `add_examples`.
        split: str. `"train"`, `"dev"` or, for a folder, `"test"`.

    Returns:
        The result of a reader of `tasks`.

    Raises:
        InputError: arguments are inconsistent, or a file cannot be used.
    """
    from keras_bert_impl.tasks.data.glue import TASKS

    source = _source(arguments)
    if arguments.negative and arguments.task != "similarity":
        raise InputError("--negative is for --task similarity.")
    if arguments.labels and (arguments.tfds or arguments.task not in (None, "tagging")):
        raise InputError("--labels is for a table and for tagging; what else is read has its own.")
    if arguments.task in (*TASKS, *MULTILINGUAL):
        return source.published(arguments.task, split)
    from keras_bert_impl.tasks.registry import task_named

    return task_named(arguments.task).read(source, split)


def _source(arguments):
    given = vars(arguments)
    names = [field.name for field in dataclasses.fields(ExampleSource) if field.name in given]
    splits = tuple(name for name in ("train", "dev") if name in given)
    return ExampleSource(**{name: given[name] for name in names}, splits=splits)


def read_train_and_dev(arguments, seed):
    """Reads the labeled examples for training and for scoring.

    Args:
        arguments: parsed arguments, including those of `add_examples` for training.
        seed: int. Seed of the choice that `--dev-split` makes.

    Raises:
        InputError: see `read_examples`.
    """
    share = arguments.dev_split
    if share is None:
        return [read_examples(arguments, split) for split in ("train", "dev")]
    if arguments.dev or arguments.data:
        raise InputError(
            "--dev-split is for --train alone: leave --dev and --data, or --dev-split."
        )
    from keras_bert_impl.tasks.data.splits import hold_out

    arguments = argparse.Namespace(**vars(arguments) | {"dev": arguments.train})
    train, dev = hold_out(read_examples(arguments, "train"), share, seed)
    count = len(train) + len(dev)
    print(f"held out {len(dev):,} of {count:,} examples to score on, seed {seed}", file=sys.stderr)
    return train, dev


def read_examples_of(model, arguments, split):
    """Reads examples to score a fine-tuned model on; the default task is the model's own."""
    from keras_bert_impl.tasks.registry import task_of_model

    task = arguments.task or task_of_model(model).name
    return read_examples(argparse.Namespace(**vars(arguments) | {"task": task}), split)


def read_more(arguments):
    """Returns a dict of name to examples: the additional MNLI sets to score on, if present."""
    if arguments.task != "mnli":
        return {}
    from keras_bert_impl.tasks.data.glue import has_glue, read_glue

    more = {"mismatched": ("mnli", "dev_mismatched"), "diagnostic": ("diagnostic", "dev")}
    return {
        name: read_glue(task, arguments.data, split, arguments.skip_bad_rows)
        for name, (task, split) in more.items()
        if has_glue(task, arguments.data, split)
    }


def _share(text):
    """argparse type: a number between 0 and 1."""
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1, such as 0.1")
    return share


def _names(text):
    """argparse type: a list of names; a name that contains a comma is quoted."""
    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name; write A,B")
    return names
