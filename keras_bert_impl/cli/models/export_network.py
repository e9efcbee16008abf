"""`keras-bert export --format onnx|litert|openvino`: its arguments and its report."""

import functools
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from keras_bert_impl.cli.common import say
from keras_bert_impl.cli.examples import read_examples_of
from keras_bert_impl.cli.kinds import FILE
from keras_bert_impl.cli.parser import Rare
from keras_bert_impl.cli.remembered import run_of
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.progress import Progress
from keras_bert_impl.serving.formats import NAMES, exporter

# Argument -> the formats that support it.
_ARGUMENTS = {
    "precision": tuple(NAMES),
    "standard": ("onnx",),
    "calibrate": ("onnx", "openvino"),
    "texts": tuple(NAMES),
}
FORMATS = tuple(NAMES)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments in addition to those of every export."""
    group = parser.add_argument_group(Rare(f"with --format {', '.join(FORMATS)}"))
    group.add_argument(
        "--precision",
        choices=("fp32", "bf16", "fp16", "int8"),
        help="precision of weights; bf16, OpenVINO only: of the computation; default: fp32",
    )
    group.add_argument(
        "--standard",
        action="store_true",
        help="ONNX only: use only operators of the standard, for runtimes other than ONNX Runtime",
    )
    group.add_argument(
        "--texts",
        type=FILE,
        metavar="FILE",
        help="file with a text on each line, to compare the outputs on, and the nearest neighbors "
        "of an embedder; default: built-in texts",
    )
    group.add_argument(
        "--calibrate",
        type=FILE,
        metavar="FILE",
        help="ONNX and OpenVINO in int8: file with a text on each line, to compute the scales of "
        "activations from; default: they are computed at run time",
    )


def check(arguments: Namespace) -> None:
    """Raises an `InputError` for arguments that the format does not support."""
    for name, formats in _ARGUMENTS.items():
        value = getattr(arguments, name)
        if value is not None and value is not False and arguments.format not in formats:
            raise InputError(f"--{name.replace('_', '-')} needs --format {' or '.join(formats)}.")
    if arguments.precision == "bf16" and arguments.format != "openvino":
        raise InputError("--precision bf16 needs --format openvino.")


def has_examples(arguments: Namespace) -> bool:
    """Returns whether the arguments name labeled examples."""
    return bool(arguments.dev or arguments.task)


def run(arguments: Namespace, model: Any) -> None:
    """Exports a model, and prints a report."""
    export, name = exporter(arguments.format), NAMES[arguments.format]
    from keras_bert_impl.tasks.data.tables import text_lines

    settings: dict[str, Any] = {"fused": False} if arguments.standard else {}
    for option, setting in (("calibrate", "calibration"), ("texts", "texts")):
        if path := getattr(arguments, option):
            lines = text_lines(Path(path))
            settings[setting] = [text for _, text in lines if text.strip()]
    if not hasattr(model, "tokenizer"):  # an encoder
        from keras_bert_impl.conversion.formats import read_tokenizer
        from keras_bert_impl.interop import open_model
        from keras_bert_impl.tasks.runs.run import model_directory

        settings["tokenizer"] = read_tokenizer(open_model(model_directory(arguments.model)))
    if has_examples(arguments):
        examples = read_examples_of(model, arguments, "dev")
        settings["measure"] = functools.partial(points, examples=examples)
    with Progress(f"writing and checking the {name} model"):
        report = export(
            model,
            arguments.out,
            arguments.precision or "fp32",
            max_drop=arguments.max_drop,
            run=run_of(arguments.model),
            **settings,
        )
    line = f"{report.bytes / 1e6:.1f} MB, outputs within {report.difference:.1g} of the model's"
    if report.before is not None:
        line += f", score {report.before:.2f} before and {report.after:.2f} after"
    if report.neighbors is not None:
        line += f"; {report.neighbors}"
    say(f"wrote the {name} model to {arguments.out}: {line}")


def points(model: Any, examples: Any) -> float:
    """Returns the first metric of a model's task on examples, on a scale of 0 to 100."""
    from keras_bert_impl.tasks.registry import score, task_of_model
    from keras_bert_impl.tasks.scores.metrics import comparable

    first = comparable(*next(iter(score(model, examples).items())))
    return 100 * first / task_of_model(model).highest_score
