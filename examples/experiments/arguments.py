"""Arguments of the experiments: labeled examples, seeds, and any setting of fine-tuning."""

import argparse
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from keras_bert_impl import InputError, finetune, read_choices, read_squad, read_tags
from keras_bert_impl.runs.run import settings_for
from keras_bert_impl.tasks import hold_out, read_glue, read_table

READERS = {"tagging": read_tags, "squad": read_squad, "choice": read_choices}
SEED = 1  # of --dev-split


def numbers(text: str) -> list[int]:
    """argparse type: whole numbers such as 1,2,3."""
    return [int(number) for number in text.split(",")]


def parser_of(module: str, documentation: str) -> argparse.ArgumentParser:
    """Returns a parser with the arguments of all experiments."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=f"{documentation}\nOther options, such as --epochs 3, are settings of `finetune`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--out", required=True, help="directory to write; finished runs are kept")
    parser.add_argument("--train", help="training set")
    parser.add_argument("--dev", help="validation set")
    parser.add_argument("--dev-split", type=float, help="fraction of --train, instead of --dev")
    for name in ("text", "pair", "label"):
        parser.add_argument(f"--{name}", help="column of a table")
    parser.add_argument("--task", help=f"{', '.join(READERS)}, or with --data a task of GLUE")
    parser.add_argument("--data", help="folder of GLUE, instead of --train and --dev")
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3], help="one run per seed")
    return parser


def run(
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    experiment: Callable[[argparse.Namespace, Any, Any, dict[str, Any]], None],
) -> None:
    """Calls `experiment(arguments, train, dev, settings)`; errors are printed on one line."""
    arguments, rest = parser.parse_known_args(argv)
    try:
        settings = _settings(rest)
        for name in settings.keys() & vars(arguments).keys():
            raise InputError(f"leave out --{name}: the experiment sets it for each run.")
        for split in ("train", "dev"):
            if not (getattr(arguments, split) or arguments.data or arguments.dev_split):
                raise InputError(f"--{split} is missing.")
        train = _read(arguments, "train")
        known = {*inspect.signature(finetune).parameters, *settings_for(train).__dataclass_fields__}
        for name in settings.keys() - known:
            raise InputError(f"`finetune` has no setting {name!r}.")
        if arguments.dev_split:
            train, dev = hold_out(train, arguments.dev_split, SEED)
        else:
            dev = _read(arguments, "dev")
        experiment(arguments, train, dev, settings)
    except (InputError, OSError, yaml.YAMLError) as error:
        parser.error(str(error))


def _settings(words):
    """Converts `--key value` or `--key=value` to a dict. Values are YAML."""
    words = [part for word in words for part in word.split("=", 1)]
    if len(words) % 2 or not all(word.startswith("--") for word in words[::2]):
        raise InputError(f"settings have the form --key value. Received: {' '.join(words)}")
    names = [word[2:].replace("-", "_") for word in words[::2]]
    return dict(zip(names, map(yaml.safe_load, words[1::2])))


def _read(arguments, split):
    if arguments.data:
        return read_glue(arguments.task, arguments.data, split)
    path = getattr(arguments, split)
    if arguments.task:
        if arguments.task not in READERS:
            raise InputError(
                f"--task {arguments.task}: choose {', '.join(READERS)}, or add --data."
            )
        return READERS[arguments.task](path)
    if not (arguments.text and arguments.label):
        raise InputError("pass the columns of the table: --text COLUMN and --label COLUMN.")
    return read_table(path, arguments.text, arguments.pair, arguments.label)


def shown(interval: Mapping[str, Any], sign: str = "") -> str:
    """Formats an interval as `value [low, high]`, or as `value` if the interval has no bounds."""
    value, low, high = (
        "" if interval[name] is None else f"{interval[name]:{sign}.4f}"
        for name in ("value", "low", "high")
    )
    return f"{value} [{low}, {high}]" if low else value


def print_table(rows: Sequence[Sequence[Any]]) -> None:
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip())
