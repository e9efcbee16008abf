"""`keras-bert student`: creates a student model from a teacher's layers, for distillation."""

import argparse
from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import say
from keras_bert_impl.cli.kinds import MODEL, OUTPUT_DIRECTORY

EXAMPLE = """  keras-bert student --teacher DIR --layers 6 --out student
  keras-bert student --teacher DIR --layers 0,2,4 --out student"""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "--teacher",
        required=True,
        type=MODEL,
        metavar="MODEL",
        help="model to take layers from, in any form that `keras-bert convert --from` takes",
    )
    parser.add_argument(
        "--layers",
        required=True,
        type=_layers,
        metavar="N|A,B",
        help="number of layers, spread evenly from the first to the last; or their indices, from "
        "0, such as 0,2,4",
    )
    parser.add_argument(
        "--out",
        required=True,
        type=OUTPUT_DIRECTORY,
        metavar="DIR",
        help="model directory to write",
    )


def run(arguments: Namespace) -> None:
    """Writes the model, and prints which layers it has."""
    from keras_bert_impl.conversion.students import student_of

    layers = student_of(arguments.teacher, arguments.out, arguments.layers)
    say(f"wrote layers {', '.join(map(str, layers))} to {arguments.out}")


def _layers(text):
    numbers = text.split(",")
    if not all(number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor a list such as 0,2,4")
    return int(text) if len(numbers) == 1 else [int(number) for number in numbers]
