"""`keras-bert merge`: writes a model fine-tuned with LoRA as an ordinary model directory."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_bert_impl.cli.common import add_base, say
from keras_bert_impl.cli.kinds import MODEL, OUTPUT_DIRECTORY
from keras_bert_impl.io.errors import InputError

EXAMPLE = "  keras-bert merge --model run --out merged"


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "--model",
        required=True,
        type=MODEL,
        metavar="DIR",
        help="run directory, or one written by save_tuned or peft",
    )
    parser.add_argument(
        "--out", required=True, type=OUTPUT_DIRECTORY, metavar="DIR", help="directory to write"
    )
    add_base(parser)


def run(arguments: Namespace) -> None:
    """Merges the weights, and prints where the model is."""
    from keras_bert_impl.interop.tuned import base_of, is_tuned
    from keras_bert_impl.tasks.runs.run import load_tuned, model_directory

    tuned = Path(model_directory(arguments.model))
    if is_tuned(tuned):
        base, out = Path(arguments.base or base_of(tuned)), Path(arguments.out)
        if base.is_dir() and out.is_dir() and out.samefile(base):
            raise InputError(f"{out} holds the base model of {tuned}; give another directory.")
    model = load_tuned(arguments.model, "float32", arguments.base)
    model.save_pretrained(arguments.out)
    say(f"wrote the model to {arguments.out}")
