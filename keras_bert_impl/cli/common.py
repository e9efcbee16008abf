"""Shared parts of commands: output and arguments."""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from keras_bert_impl.cli.kinds import MODEL, OUTPUT_DIRECTORY, PATH
from keras_bert_impl.cli.parser import Rare
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.settings import DType
from keras_bert_impl.lazy import import_tensorflow_alone

# Names of strategies, as in `training.strategy`, which imports TensorFlow.
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")
DTYPES = get_args(DType)[1].choices
ArgumentsContainer = argparse._ActionsContainer  # a parser or a group of arguments

# === Results ===


def import_tensorflow_quietly(alone: bool) -> None:
    """Imports TensorFlow with stderr redirected: its GPU warnings ignore the log level."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as noise:
        os.dup2(noise.fileno(), 2)
        try:
            if alone:
                import_tensorflow_alone()
            import tensorflow as tf

            tf.config.list_physical_devices()
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def say(line: object) -> None:
    """Prints a line on stderr, so that the results on stdout can be piped."""
    print(line, file=sys.stderr)


def print_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    """Prints a table. Numbers are right-aligned, with thousands separators."""
    cells = [[_cell(row[key]) for key in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns.values(), *cells, strict=True)]
    right = [bool(rows) and isinstance(rows[0][key], (int, float)) for key in columns]
    for line in [list(columns.values()), *cells]:
        padded = [
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right, strict=True)
        ]
        print("  ".join(padded).rstrip())


def print_json(value: Any) -> None:
    """Prints a result as JSON on stdout, for use by programs."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_scores(scores: Mapping[str, float]) -> None:
    """Prints metrics and their values on one line."""
    print(", ".join(f"{name} {value:.4f}" for name, value in scores.items()))


def _cell(value):
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)


# === Arguments ===


def positive_int(text: str) -> int:
    """argparse type of counts and sizes."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def _delimiter(text):
    text = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}.get(text, text)
    if len(text) != 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not one character, tab, comma or semicolon")
    return text


def add_table_form(parser: ArgumentsContainer) -> None:
    """Adds the delimiter of a table, and whether it has a header."""
    parser.add_argument(
        "--no-header",
        action="store_true",
        help="the first line of a .csv or .tsv file is a row; name columns by numbers, from 0",
    )
    parser.add_argument(
        "--delimiter",
        type=_delimiter,
        metavar="CHAR",
        help="character between the cells of a table, such as ; or tab; default: from the file's name",
    )


def add_documents(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of text to read as documents."""
    from keras_bert_impl.pretraining.settings import TEXT_FORMATS

    group = parser.add_argument_group("text")
    group.add_argument(
        "text", nargs="+", type=PATH, help="files or folders of text, or gs:// or tfds:// names"
    )
    group.add_argument(
        "--format", choices=TEXT_FORMATS, default="auto", metavar="NAME", help="format of the text"
    )
    group.add_argument(
        "--text-field", default="text", metavar="KEY", help="field of JSON lines to read"
    )


def add_tuned_model(parser: argparse.ArgumentParser) -> ArgumentsContainer:
    """Adds and returns the group of a fine-tuned model: its directory, base model and dtype."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model", required=True, type=MODEL, metavar="DIR", help="run or model directory"
    )
    add_base(group)
    add_dtype(group)
    return group


def add_base(parser: ArgumentsContainer) -> None:
    """Adds the model that a model was fine-tuned from."""
    parser.add_argument(
        "--base",
        type=MODEL,
        metavar="MODEL",
        help="model that it was fine-tuned from, if that has moved",
    )


def add_dtype(parser: ArgumentsContainer) -> None:
    """Adds the dtype policy of a model."""
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        metavar="NAME",
        help="Keras dtype policy, such as mixed_bfloat16; default: that of the run, or float32",
    )


def add_run(parser: argparse.ArgumentParser, title: str = "output") -> ArgumentsContainer:
    """Adds the run arguments shared by training commands: output, devices, and whether to resume."""
    output = parser.add_argument_group(title)
    output.add_argument(
        "--out",
        required=True,
        type=OUTPUT_DIRECTORY,
        metavar="DIR",
        help="run directory to write; an unfinished run in it is resumed",
    )
    group = parser.add_argument_group(Rare("devices and resuming"))
    group.add_argument(
        "--strategy",
        choices=STRATEGIES,
        default="auto",
        metavar="NAME",
        help=f"how to use devices: {', '.join(STRATEGIES)}",
    )
    group.add_argument(
        "--cpu-devices",
        type=positive_int,
        metavar="N",
        help="try --strategy mirrored on N logical devices of this CPU, without GPUs",
    )
    group.add_argument(
        "--model-devices",
        type=positive_int,
        default=1,
        metavar="N",
        help="split the weights over N devices, for models that do not fit one; needs JAX",
    )
    group.add_argument(
        "--worker-timeout",
        type=positive_int,
        metavar="SECONDS",
        help="how long to wait for the other workers of TF_CONFIG to start; default: 600",
    )
    group.add_argument(
        "--no-resume",
        dest="resume",
        action="store_false",
        help="fail if --out has a run already, instead of resuming it",
    )
    return output


def check_run(arguments: argparse.Namespace) -> None:
    """Checks the arguments of `add_run`."""
    if arguments.cpu_devices is not None and arguments.strategy not in ("auto", "mirrored"):
        raise InputError(f"--cpu-devices needs --strategy mirrored, not {arguments.strategy}.")


def prepared_strategy(arguments: argparse.Namespace) -> Any:
    """Applies the arguments of devices, and returns the strategy or its name."""
    from keras_bert_impl.training.strategy import get_strategy, use_cpu_devices
    from keras_bert_impl.training.workers import TIMEOUT

    if arguments.worker_timeout is not None:
        os.environ[TIMEOUT] = str(arguments.worker_timeout)
    name = arguments.strategy
    if arguments.cpu_devices is not None:
        use_cpu_devices(arguments.cpu_devices)
        name = "mirrored"
    if arguments.model_devices == 1:
        return name
    return get_strategy(name, arguments.model_devices)
