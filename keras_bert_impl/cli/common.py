"""Arguments and output functions that several commands use."""

import argparse
import dataclasses
import json
import os
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from keras_bert_impl.cli.parser import Rare, suggestion
from keras_bert_impl.utils.errors import InputError, printable
from keras_bert_impl.utils.io.files import is_remote
from keras_bert_impl.utils.io.lines import STANDARD_INPUT
from keras_bert_impl.utils.io.paths import expanded
from keras_bert_impl.utils.lazy import import_tensorflow_alone
from keras_bert_impl.utils.progress import print_message
from keras_bert_impl.utils.settings import DType


@dataclasses.dataclass(frozen=True)
class Kind:
    """argparse type for a path or name.

    Args:
        completes: what shell completion suggests: `"file"`, `"directory"`, `"model"` or `"recipe"`.
        check: function that receives the value and all arguments, and raises `InputError` for an
            invalid value. Default: no check.
    """

    completes: str
    check: Callable[[str, Namespace], None] | None = None

    def __call__(self, text: str) -> str:
        """Expands `~`."""
        return expanded(text)


def check_values(parser: ArgumentParser, arguments: Namespace) -> None:
    path_values = [*_list_path_values(parser, arguments)]
    for name, kind, value in path_values:
        if kind.check:
            try:
                kind.check(value, arguments)
            except InputError as error:
                raise InputError(f"{name}: {error}") from error
    inputs = [value for _, kind, value in path_values if kind in (PATH, FILE, EXAMPLES)]
    for name, kind, value in path_values:
        if kind is OUTPUT_FILE:
            try:
                check_not_read(value, inputs)
            except InputError as error:
                raise InputError(f"{name}: {error}") from error


def _list_path_values(parser, arguments):
    for action in parser._actions:
        if isinstance(action.type, Kind):
            name = (action.option_strings or [str(action.metavar or action.dest)])[-1]
            value = getattr(arguments, action.dest, None)
            for path in value if isinstance(value, list) else [value]:
                if isinstance(path, str):
                    yield name, action.type, path


def check_not_read(output: str | os.PathLike, inputs: Iterable[str | os.PathLike]) -> None:
    """Raises `InputError` if the output file is an input or in an input folder."""
    place = Path(output).resolve()
    for path in inputs:
        if Path(path).resolve() == place:
            raise InputError(f"{output} is the input; choose a different output file.")
        if Path(path).resolve() in place.parents:
            raise InputError(
                f"{output} is in {path}, an input folder; choose a different output folder."
            )


def check_model(name: str, value: object) -> None:
    if isinstance(value, str) and not value.endswith(".json"):
        try:
            _check_model(value, Namespace())
        except InputError as error:
            raise InputError(f"{name}={value}: {error}") from error


def _check_path(value: str, arguments: Namespace) -> None:
    if value != STANDARD_INPUT and not is_remote(value) and not os.path.exists(value):
        parent = Path(value).parent
        names = os.listdir(parent) if parent.is_dir() else []
        suffix = Path(value).suffix
        hint = suggestion(Path(value).name, [n for n in names if Path(n).suffix == suffix])
        raise InputError(f"{value} does not exist{f'; {hint}' if hint else '.'}")


def _check_file(value, arguments):
    _check_path(value, arguments)
    if os.path.isdir(value):
        raise InputError(f"{value} is a directory; pass a file.")
    if os.path.exists(value) and not os.access(value, os.R_OK):
        raise InputError(f"{value} cannot be read: no permission.")


def _check_folder(value, arguments):
    _check_path(value, arguments)
    if os.path.isfile(value):
        raise InputError(f"{value} is a file; pass its folder.")


def _check_examples(value, arguments):
    if not getattr(arguments, "tfds", None):  # With --tfds, the value is a split name.
        _check_path(value, arguments)


def _check_model(value, arguments):
    from keras_bert_impl.checkpoints.hub import check_name

    if not os.path.exists(f"{value}.index"):  # The value may be the prefix of a Google checkpoint.
        check_name(value)


def _check_output_directory(value, arguments):
    if os.path.isfile(value):
        raise InputError(f"{value} is a file; pass a directory to write.")
    _check_writable(Path(value))


def _check_output_file(value, arguments):
    if os.path.isdir(value):
        raise InputError(f"{value} is a directory; pass a file to write.")
    _check_writable(Path(value).parent)


def _check_writable(path):
    if is_remote(path):
        return
    existing = next(
        place for place in (path.absolute(), *path.absolute().parents) if place.exists()
    )
    if not existing.is_dir():
        raise InputError(f"{path} cannot be written: {existing} is a file.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"{path} cannot be written: no permission to write in {existing}.")


PATH = Kind("file", _check_path)  # file, folder or standard input
FILE = Kind("file", _check_file)
FOLDER = Kind("directory", _check_folder)
EXAMPLES = Kind("file", _check_examples)  # file, or split name with --tfds
MODEL = Kind("model", _check_model)  # directory, or name that `hub.local_directory` accepts
RECIPE = Kind("recipe")
SAVED_MODEL = Kind("directory")
OUTPUT_DIRECTORY = Kind("directory", _check_output_directory)
OUTPUT_FILE = Kind("file", _check_output_file)
GRID = Kind("file")  # YAML file of settings to try
DATA_SET = Kind("directory")  # recipe file or name
# Settings that name models or folders. The commands check them together with the other settings.
OF_SETTINGS = {
    "model": Kind("model"),
    "teacher": Kind("model"),
    "generator": Kind("model"),
    "long_records": Kind("directory"),
}


# Strategy names. The names are repeated here because `training.strategy` imports TensorFlow.
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")
DTYPES = get_args(DType)[1].choices
ArgumentsContainer = argparse._ActionsContainer  # a parser or a group of arguments

# === Results ===


def import_tensorflow_quietly(alone: bool) -> None:
    """Imports TensorFlow and discards stderr, because GPU warnings ignore the log level."""
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
    """Prints a line to stderr, so that results on stdout can be piped."""
    print_message(line, sys.stderr)


def print_line(line: str = "", is_data: bool = False) -> None:
    """Prints a line to stdout. Data in a pipe keep the characters that control a terminal."""
    print(line if is_data and not sys.stdout.isatty() else printable(line))


def say_skipped(unreadable: Sequence[object]) -> None:
    """Prints which files were skipped because they cannot be read."""
    if unreadable:
        say(f"skipped {len(unreadable):,} files that cannot be read:")
        say("\n".join(f"  {error}" for error in unreadable))


def print_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    """Prints a table. Numbers are right-aligned and have thousands separators."""
    cells = [[_format_cell(row[key]) for key in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns.values(), *cells, strict=True)]
    right = [bool(rows) and isinstance(rows[0][key], (int, float)) for key in columns]
    for line in [list(columns.values()), *cells]:
        padded = [
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right, strict=True)
        ]
        print_line("  ".join(padded).rstrip())


def print_json(value: Any) -> None:
    print_line(json.dumps(value, indent=2, ensure_ascii=False))


def print_scores(scores: Mapping[str, float]) -> None:
    print_line(", ".join(f"{name} {value:.4f}" for name, value in scores.items()))


def _format_cell(value):
    return (
        f"{value:,}"
        if isinstance(value, (int, float))
        else printable(str(value)).replace("\n", "\\n")
    )


# === Arguments ===


def positive_int(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def whole_numbers(text: str) -> list[int]:
    if not all(number.isdecimal() for number in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 1,2,3")
    return [int(number) for number in text.split(",")]


def _parse_delimiter(text):
    text = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}.get(text, text)
    if len(text) != 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not one character, tab, comma or semicolon")
    return text


def add_table_form(parser: ArgumentsContainer) -> None:
    parser.add_argument(
        "--encoding",
        metavar="NAME",
        help="encoding of text, such as cp1252; default: UTF-8",
    )
    parser.add_argument(
        "--no-header",
        action="store_true",
        help="the .csv or .tsv file has no header; columns are identified by 0-based numbers",
    )
    parser.add_argument(
        "--delimiter",
        type=_parse_delimiter,
        metavar="CHAR",
        help="character between cells, such as ; or tab; default: from the suffix",
    )


def add_documents(parser: argparse.ArgumentParser, name: str = "text", **options: Any) -> None:
    from keras_bert_impl.pretraining.settings import TEXT_FORMATS

    group = parser.add_argument_group("text")
    group.add_argument(
        name,
        nargs="+",
        type=PATH,
        help="files or directories of text, or gs:// or tfds:// names",
        **options,
    )
    group.add_argument(
        "--format", choices=TEXT_FORMATS, default="auto", metavar="NAME", help="format of the text"
    )
    group.add_argument(
        "--text-field", default="text", metavar="KEY", help="text field of JSON lines"
    )


def add_tuned_model(parser: argparse.ArgumentParser) -> ArgumentsContainer:
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model", required=True, type=MODEL, metavar="DIR", help="run or model directory"
    )
    add_base(group)
    add_dtype(group)
    return group


def add_base(parser: ArgumentsContainer) -> None:
    parser.add_argument(
        "--base",
        type=MODEL,
        metavar="MODEL",
        help="path of the base model, if it has moved",
    )


def add_dtype(parser: ArgumentsContainer) -> None:
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        metavar="NAME",
        help="Keras dtype policy, such as mixed_bfloat16; default: the run's policy, or float32",
    )


def add_run(parser: argparse.ArgumentParser, title: str = "output") -> ArgumentsContainer:
    """Adds the arguments of all training commands: output, devices and resuming."""
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
        help=f"distribution strategy: {', '.join(STRATEGIES)}",
    )
    group.add_argument(
        "--cpu-devices",
        type=positive_int,
        metavar="N",
        help="split this CPU into N logical devices, to test --strategy mirrored without GPUs",
    )
    group.add_argument(
        "--model-devices",
        type=positive_int,
        default=1,
        metavar="N",
        help="model parallelism over N devices, for models that do not fit on one device; requires "
        "JAX",
    )
    group.add_argument(
        "--worker-timeout",
        type=positive_int,
        metavar="SECONDS",
        help="seconds to wait until the other workers in TF_CONFIG start; default: 600",
    )
    group.add_argument(
        "--no-resume",
        dest="resume",
        action="store_false",
        help="raise an error if --out contains a run, instead of resuming it",
    )
    return output


def check_run(arguments: argparse.Namespace) -> None:
    if arguments.cpu_devices is not None and arguments.strategy not in ("auto", "mirrored"):
        raise InputError(f"--cpu-devices requires --strategy mirrored, not {arguments.strategy}.")


def prepared_strategy(arguments: argparse.Namespace) -> Any:
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
