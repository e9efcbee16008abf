"""Shared parts of commands: output and arguments."""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.lazy import import_tensorflow_alone

ArgumentsContainer = argparse._ActionsContainer  # a parser or a group of arguments

# === Results ===


def import_tensorflow_quietly(alone: bool) -> None:
    """Imports TensorFlow with stderr redirected: its GPU warnings ignore the log level.

    Args:
        alone: whether to import it without JAX; see `lazy.import_tensorflow_alone`.
    """
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
    """Prints a table. Numbers are right-aligned, with thousands separators.

    Args:
        columns: keys of the rows, and their headings.
    """
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


def add_delimiter(parser: ArgumentsContainer) -> None:
    """Adds the delimiter of a table."""
    parser.add_argument(
        "--delimiter",
        type=_delimiter,
        metavar="CHAR",
        help="the character between the cells of a table with quotes, such as ; or tab; default: "
        "from the file's name",
    )


def add_documents(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of text to read as documents."""
    from keras_bert_impl.pretraining.settings import TEXT_FORMATS

    parser.add_argument("text", nargs="+", help="files, folders, gs:// or tfds:// names")
    parser.add_argument(
        "--format", choices=TEXT_FORMATS, default="auto", help="format of the text; default: auto"
    )
    parser.add_argument(
        "--text-field", default="text", help="the field of JSON lines to read; default: text"
    )


def add_tuned_model(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of a fine-tuned model: its directory, its base model and its dtype."""
    parser.add_argument("--model", required=True, metavar="DIR", help="a run or model directory")
    add_base(parser)
    add_dtype(parser)


def add_base(parser: argparse.ArgumentParser) -> None:
    """Adds the model that a model was fine-tuned from."""
    parser.add_argument(
        "--base", metavar="MODEL", help="the model that it was fine-tuned from, if that has moved"
    )


def add_dtype(parser: argparse.ArgumentParser) -> None:
    """Adds the dtype policy of a model."""
    parser.add_argument("--dtype", help="Keras dtype policy; default: that of the run, or float32")


def add_run(parser: argparse.ArgumentParser) -> None:
    """Adds the run arguments shared by training commands: output, devices, and whether to resume."""
    parser.add_argument("--out", required=True, metavar="DIR", help="the run directory to write")
    parser.add_argument(
        "--strategy",
        default="auto",
        help="how to use devices: auto, one_device, mirrored, multi_worker or tpu; default: auto",
    )
    parser.add_argument(
        "--cpu-devices",
        type=positive_int,
        metavar="N",
        help="try --strategy mirrored on N logical devices of this CPU, without GPUs",
    )
    parser.add_argument(
        "--worker-timeout",
        type=positive_int,
        metavar="SECONDS",
        help="how long to wait for the other workers of TF_CONFIG to start; default: 600",
    )
    parser.add_argument(
        "--no-resume",
        dest="resume",
        action="store_false",
        help="fail if --out has a run already, instead of resuming it",
    )


def prepared_strategy(arguments: argparse.Namespace) -> str:
    """Applies `--cpu-devices` and `--worker-timeout`, and returns the name of the strategy.

    Raises:
        InputError: `--cpu-devices` is given with a strategy that cannot use it.
    """
    from keras_bert_impl.training.strategy import use_cpu_devices
    from keras_bert_impl.training.workers import TIMEOUT

    if arguments.worker_timeout is not None:
        os.environ[TIMEOUT] = str(arguments.worker_timeout)
    if arguments.cpu_devices is None:
        return arguments.strategy
    if arguments.strategy not in ("auto", "mirrored"):
        raise InputError(f"--cpu-devices needs --strategy mirrored, not {arguments.strategy}.")
    use_cpu_devices(arguments.cpu_devices)
    return "mirrored"
