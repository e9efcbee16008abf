"""Command-line arguments of labeled examples: task, files and columns."""

import argparse
import csv
import dataclasses
from collections.abc import Sequence
from typing import Any

from keras_bert_impl.cli.common import ArgumentsContainer, add_delimiter, say
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.data.source import MULTILINGUAL, ExampleSource
from keras_bert_impl.tasks.names import task_names


def add_examples(parser: ArgumentsContainer, is_training: bool, is_scored: bool = True) -> None:
    """Adds the arguments of labeled examples to a command.

    Args:
        is_training: whether the command reads training examples.
        is_scored: whether it reads examples to score on.
    """
    _add_sources(parser, is_training, is_scored)
    _add_columns(parser)
    parser.add_argument(
        "--labels",
        type=_names,
        metavar="A,B",
        help="the labels that may occur, in a table or for tagging; default: those of --train",
    )
    parser.add_argument(
        "--skip-bad-rows",
        action="store_true",
        help="skip, count and list the rows that cannot be used",
    )
    parser.add_argument(
        "--regression", action="store_true", help="predict the labels as numbers, not classes"
    )


def _add_sources(parser, is_training, is_scored):
    from keras_bert_impl.tasks.data.glue import TASKS

    glue = [task for task in TASKS if task != "diagnostic" or not is_training]
    files = " and ".join(["--train"] * is_training + ["--dev"] * is_scored)
    default = "classification of texts in a table" if is_training else "the task of the model"
    parser.add_argument(
        "--task",
        choices=[*glue, *MULTILINGUAL, *task_names()],
        help=f"a GLUE task, xnli or paws_x, read from --data; or a kind of file for {files}: "
        "tagging, labels of words in columns or CoNLL-U; squad, questions with answers in a "
        "context; choice, prompts with endings from SWAG (.csv), CODAH (.tsv), SIQA or with any "
        "number of endings (.jsonl); similarity, pairs in a table (or STS-B in --data) with scores "
        f"in --label, or without labels, texts and similar texts. Default: {default}",
    )
    parser.add_argument("--data", metavar="DIR", help="the folder of GLUE, XNLI or PAWS-X")
    parser.add_argument(
        "--language", default="en", help="the language of XNLI or PAWS-X; default: en"
    )
    parser.add_argument(
        "--tfds",
        metavar="NAME",
        help="the name or directory of a data set of TensorFlow Datasets; name its splits with "
        + files,
    )
    if is_training:
        parser.add_argument(
            "--train",
            metavar="FILE",
            help="the examples to train on; tables are .csv, .tsv, .jsonl, .json, .parquet or "
            ".arrow; with --data, the .jsonl file that `keras-bert augment` wrote for it",
        )
    if is_scored:
        parser.add_argument("--dev", metavar="FILE", help="the examples to score on")
    if is_scored and is_training:
        parser.add_argument(
            "--dev-split",
            type=_share,
            metavar="SHARE",
            help="the fraction of --train to hold out and score on instead of --dev, such as 0.1; "
            "it is stratified by class and depends only on the seed",
        )


def _add_columns(parser):
    parser.add_argument(
        "--text",
        metavar="COLUMN",
        help="the column of the text; for tagging, the number of that of the words, from 0 "
        "(default: 0)",
    )
    parser.add_argument("--pair", metavar="COLUMN", help="the column of the second segment, if any")
    parser.add_argument(
        "--negative",
        metavar="COLUMN",
        help="for similarity without labels, the column of a dissimilar text, if any",
    )
    parser.add_argument(
        "--label",
        metavar="COLUMN",
        help="the column of the label; for tagging, its number (default: -1, the last), or upos "
        "(the default), xpos, feats or deprel in a .conllu file",
    )
    parser.add_argument(
        "--word-prefix",
        metavar="TEXT",
        default="",
        help="for tagging, a prefix of all words to remove, such as en: in WikiANN",
    )
    parser.add_argument(
        "--label-separator",
        metavar="TEXT",
        help="the text between labels, if a text has any number of them",
    )
    add_delimiter(parser)
    parser.add_argument("--id", metavar="COLUMN", help="a column whose values must be unique")


def read_examples(arguments: argparse.Namespace, split: str) -> Any:
    """Reads the labeled examples of a split, as given by the arguments.

    Args:
        arguments: parsed arguments, including those of `add_examples`.
        split: `"train"`, `"dev"` or, for a folder, `"test"`.

    Returns:
        The result of a reader of `tasks`.

    Raises:
        InputError: arguments are inconsistent, or a file cannot be used.
    """
    from keras_bert_impl.tasks.data.glue import TASKS

    source = _source(arguments)
    if arguments.negative and arguments.task != "similarity":
        raise InputError("--negative needs --task similarity.")
    if arguments.labels and (arguments.tfds or arguments.task not in (None, "tagging")):
        raise InputError("--labels needs a table, or --task tagging; other sources name labels.")
    if arguments.task in (*TASKS, *MULTILINGUAL):
        return source.published(arguments.task, split)
    from keras_bert_impl.tasks.registry import task_named

    return task_named(arguments.task).read(source, split)


def _source(arguments):
    given = vars(arguments)
    names = [field.name for field in dataclasses.fields(ExampleSource) if field.name in given]
    splits = tuple(name for name in ("train", "dev") if name in given)
    return ExampleSource(**{name: given[name] for name in names}, splits=splits)


def read_train_and_dev(arguments: argparse.Namespace, seed: int) -> Sequence[Any]:
    """Reads the labeled examples for training and for scoring.

    Args:
        arguments: parsed arguments, including those of `add_examples` for training.
        seed: seed of the examples that `--dev-split` holds out.

    Raises:
        InputError: see `read_examples`.
    """
    share = arguments.dev_split
    if share is None:
        return [read_examples(arguments, split) for split in ("train", "dev")]
    if arguments.dev or arguments.data:
        raise InputError(
            "--dev-split splits --train: leave out --dev and --data, or leave out --dev-split."
        )
    from keras_bert_impl.tasks.data.splits import hold_out

    arguments = argparse.Namespace(**vars(arguments) | {"dev": arguments.train})
    train, dev = hold_out(read_examples(arguments, "train"), share, seed)
    count = len(train) + len(dev)
    say(f"held out {len(dev):,} of {count:,} examples to score on, seed {seed}")
    return train, dev


def read_examples_of(model: Any, arguments: argparse.Namespace, split: str) -> Any:
    """Reads examples to score a fine-tuned model on; the default task is the model's own."""
    from keras_bert_impl.tasks.registry import task_of_model

    task = arguments.task or task_of_model(model).name
    return read_examples(argparse.Namespace(**vars(arguments) | {"task": task}), split)


def read_more(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the additional MNLI sets to score on, if present, by name."""
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
