"""What commands say of labelled examples: which task, which files, which columns."""

import argparse
import csv
import dataclasses
import sys
from pathlib import Path

from keras_bert_impl.cli.common import delimiter
from keras_bert_impl.io.errors import InputError

_OF_FILES = ("tagging", "squad", "choice", "similarity")  # beside tasks that are read from --data
_MULTILINGUAL = ("xnli", "paws_x")
_MODEL_TASKS = {  # those of `_OF_FILES`; a model of texts may be of any other
    "TokenClassifier": "tagging",
    "FeatureTagger": "tagging",
    "QuestionAnswerer": "squad",
    "MultipleChoice": "choice",
    "TextEmbedder": "similarity",
}


def add_examples(parser, is_training, is_scored=True):
    """Adds the arguments of labelled examples to a command.

    Args:
        parser: the command's `argparse.ArgumentParser`.
        is_training: bool. Whether it reads examples to train on, too.
        is_scored: bool. Whether it reads examples to score on.
    """
    from keras_bert_impl.tasks.data.glue import TASKS

    glue = [task for task in TASKS if task != "diagnostic" or not is_training]
    files = " and ".join(["--train"] * is_training + ["--dev"] * is_scored)
    default = "texts in a table" if is_training else "that of the model; of texts those in a table"
    parser.add_argument(
        "--task",
        choices=[*glue, *_MULTILINGUAL, *_OF_FILES],
        help=f"a GLUE task, xnli or paws_x, read from --data; or for {files}: tagging, "
        "labels of words in columns or CoNLL-U; squad, questions with answers in a context; "
        "choice, prompts with endings of SWAG (.csv), CODAH (.tsv), SIQA or any number (.jsonl); "
        "similarity, pairs in a table (or STS-B in --data), to be embedded, with numbers in "
        f"--label, or without as texts and what is near to them. Default: {default}",
    )
    parser.add_argument("--data", metavar="DIR", help="the folder of GLUE, XNLI or PAWS-X")
    parser.add_argument("--language", default="en", help="of XNLI or PAWS-X; default: en")
    parser.add_argument("--tfds", metavar="NAME", help="a data set of TensorFlow Datasets, or the "
                        f"directory of one; {files}: its splits")
    if is_training:
        parser.add_argument("--train", metavar="FILE", help="what to train on; texts in a table "
                            "are .csv, .tsv, .jsonl, .json, .parquet or .arrow; with --data the .jsonl that `keras-bert "
                            "augment` made of it")
    if is_scored:
        parser.add_argument("--dev", metavar="FILE", help="what to score on")
    if is_scored and is_training:
        parser.add_argument("--dev-split", type=_share, metavar="SHARE", help="hold out this part "
                            "of --train to score on, such as 0.1, in place of --dev; the same part "
                            "for the same seed, with as many of each class")
    parser.add_argument("--text", metavar="COLUMN", help="the column of the text; of words for "
                        "tagging, from 0 (default: 0)")
    parser.add_argument("--pair", metavar="COLUMN", help="the column of the second segment, if any")
    parser.add_argument("--negative", metavar="COLUMN", help="for similarity without labels the "
                        "column of a text that is not near, if any")
    parser.add_argument("--label", metavar="COLUMN", help="the column of the label; for tagging a "
                        "number (default: -1, the last), or upos, xpos, feats or deprel (default: "
                        "upos) of a .conllu file")
    parser.add_argument("--word-prefix", metavar="TEXT", default="", help="for tagging what all "
                        "words begin with, as en: in WikiANN; it is taken off")
    parser.add_argument("--labels", type=_names, metavar="A,B", help="the labels that may occur, "
                        "in a table or of words; default: those of --train")
    parser.add_argument("--label-separator", metavar="TEXT", help="texts have any number of "
                        "labels, with this between their names")
    parser.add_argument("--delimiter", type=delimiter, metavar="CHAR", help="what separates the "
                        "cells of a table with quotes, such as ; or tab; default: by the file")
    parser.add_argument("--id", metavar="COLUMN", help="a column whose values must all differ")
    parser.add_argument("--skip-bad-rows", action="store_true", help="leave out, count and list "
                        "what cannot be used")
    parser.add_argument(
        "--regression", action="store_true", help="labels are numbers to learn, not classes"
    )


def read_examples(arguments, split):
    """The labelled examples of a split that the arguments name.

    Args:
        arguments: the parsed arguments, with those of `add_examples`.
        split: `"train"`, `"dev"` or, of a folder, `"test"`.

    Returns:
        what a reader of `tasks` returns.

    Raises:
        InputError: arguments that do not go together, or a file that cannot be used.
    """
    if arguments.task == "similarity":
        return _read_similarity(arguments, split)
    if arguments.negative:
        raise InputError("--negative is for --task similarity.")
    if arguments.labels and (arguments.tfds or arguments.task not in (None, "tagging")):
        raise InputError("--labels is for a table and for tagging; what else is read has its own.")
    if arguments.task in _OF_FILES:
        file = _file(arguments, split)
        read = {"tagging": _read_tags, "squad": _read_questions, "choice": _read_choices}
        return read[arguments.task](file, arguments)
    if arguments.task:
        return _read_task(arguments.task, arguments, split)
    return _read_table(arguments, split, arguments.regression)


def read_train_and_dev(arguments, seed):
    """The labelled examples to train on, and those to score on.

    Args:
        arguments: the parsed arguments, with those of `add_examples` of training.
        seed: int. Decides what `--dev-split` holds out.

    Raises:
        InputError: as of `read_examples`.
    """
    share = arguments.dev_split
    if share is None:
        return [read_examples(arguments, split) for split in ("train", "dev")]
    if arguments.dev or arguments.data:
        raise InputError("--dev-split is for --train alone: leave --dev and --data, or --dev-split.")
    from keras_bert_impl.tasks.data.splits import hold_out

    arguments = argparse.Namespace(**vars(arguments) | {"dev": arguments.train})
    train, dev = hold_out(read_examples(arguments, "train"), share, seed)
    count = len(train) + len(dev)
    print(f"held out {len(dev):,} of {count:,} examples to score on, seed {seed}", file=sys.stderr)
    return train, dev


def read_examples_of(model, arguments, split):
    """As `read_examples`, to score a tuned model on: where no task is named, its own."""
    task = arguments.task or _MODEL_TASKS.get(type(model).__name__)
    return read_examples(argparse.Namespace(**vars(arguments) | {"task": task}), split)


def read_more(arguments):
    """dict of name -> examples: of MNLI the other sets to score on, where they are there."""
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
    """argparse type: a list of names; one that holds a comma is in quotes."""
    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name; write A,B")
    return names


def _read_similarity(arguments, split):
    """Pairs of texts with numbers, STS-B's or those of a table; or without, anchors."""
    from keras_bert_impl.tasks.embedding.anchors import AnchorExamples
    from keras_bert_impl.tasks.embedding.similarity import SimilarityExamples

    if arguments.data:
        return SimilarityExamples.of(_read_task("stsb", arguments, split))
    if not arguments.pair:
        raise InputError("--pair is missing, the column of the second text; or give --data.")
    if not arguments.label:
        return AnchorExamples.of(_read_table(arguments, split, numeric=False, needed=("text",)))
    if arguments.negative:
        raise InputError("--negative is for texts without numbers: leave --label.")
    return SimilarityExamples.of(_read_table(arguments, split, numeric=True))


def _read_table(arguments, split, numeric, needed=("text", "label")):
    file = _file(arguments, split, *needed)
    columns = arguments.text, arguments.pair, arguments.label
    if arguments.tfds:
        if arguments.negative:
            raise InputError("--negative is a column of a file, not of --tfds.")
        from keras_bert_impl.tasks.data.tfds import read_tfds

        return read_tfds(arguments.tfds, file, *columns, skip_bad_rows=arguments.skip_bad_rows)
    from keras_bert_impl.tasks.data.tables import read_table

    return read_table(
        file,
        *columns,
        labels=arguments.labels,
        numeric=numeric,
        id=arguments.id,
        label_separator=arguments.label_separator,
        skip_bad_rows=arguments.skip_bad_rows,
        negative=arguments.negative,
        delimiter=arguments.delimiter,
    )


def _read_task(task, arguments, split):
    from keras_bert_impl.tasks.data.glue import read_glue
    from keras_bert_impl.tasks.data.multilingual import read_paws_x, read_xnli

    data, language, skip = arguments.data, arguments.language, arguments.skip_bad_rows
    if not data or getattr(arguments, "dev", None):
        raise InputError("--task needs --data, its folder, in place of --train and --dev.")
    if split == "train" and arguments.train:
        return _read_augmented(arguments, like=_read_task(task, arguments, "dev"))
    if task in _MULTILINGUAL:
        return (read_xnli if task == "xnli" else read_paws_x)(data, split, language, skip)
    return read_glue(task, data, split, skip)


def _read_augmented(arguments, like):
    """What `keras-bert augment` wrote of a task's texts; `like`: the task's, for their labels."""
    from keras_bert_impl.tasks.data.tables import read_table

    examples = read_table(
        arguments.train,
        "text",
        "pair" if isinstance(like.texts[0], tuple) else None,
        "label",
        labels=like.label_names,
        numeric=like.is_numeric,
        skip_bad_rows=arguments.skip_bad_rows,
    )
    return dataclasses.replace(examples, label_names=like.label_names, metrics=like.metrics)


def _file(arguments, split, *columns):
    """The file of a split; all that must be given is looked for first."""
    names = [name for name in ("train", "dev") if hasattr(arguments, name)] + list(columns)
    for name in names:
        if not getattr(arguments, name):
            needed = ", ".join(f"--{name}" for name in names)
            more = ", --dev-split 0.1 in place of it" if name == "dev" and "train" in names else ""
            raise InputError(
                f"--{name} is missing: give {needed}{more}, or a GLUE task with --data."
            )
    if split == "test":
        raise InputError("--test is of a folder in --data; name the file to score on by --dev.")
    return getattr(arguments, split)


def _read_tags(file, arguments):
    from keras_bert_impl.tasks.tagging.columns import read_columns, read_conllu

    skip, labels, prefix = arguments.skip_bad_rows, arguments.labels, arguments.word_prefix
    if Path(file).suffix == ".conllu":
        return read_conllu(file, arguments.label or "upos", labels, skip_bad_rows=skip)
    columns = {"--text": arguments.text or "0", "--label": arguments.label or "-1"}
    for option, text in columns.items():
        if not text.removeprefix("-").isdecimal():
            raise InputError(f"{option} {text!r} is no number of a column of {file}.")
    numbers = map(int, columns.values())
    return read_columns(file, *numbers, labels, prefix, skip_bad_rows=skip)


def _read_questions(file, arguments):
    from keras_bert_impl.tasks.question_answering.data import read_squad

    return read_squad(file, skip_bad_rows=arguments.skip_bad_rows)


def _read_choices(file, arguments):
    from keras_bert_impl.tasks.multiple_choice.data import read_choices

    return read_choices(file, skip_bad_rows=arguments.skip_bad_rows)
