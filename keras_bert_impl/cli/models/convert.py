"""`keras-bert convert`: converts a model between file formats."""

import math
import sys
from argparse import ArgumentParser, Namespace

EXAMPLE = """  keras-bert convert --from uncased_L-12_H-768_A-12 --to bert-base-uncased
  keras-bert convert --from hf://google-bert/bert-base-uncased --to checkpoint --form google"""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="MODEL",
        help="a model directory, a Google checkpoint, a SavedModel from TF Hub, a KerasHub "
        "preset, hf://owner/name[@revision], kaggle://owner/model/framework/variation, or a name "
        "that `keras-bert models` lists",
    )
    parser.add_argument("--to", required=True, metavar="DIR", help="the directory to write")
    parser.add_argument(
        "--form",
        default="huggingface",
        help="the format to write: huggingface (default), config.json and model.safetensors; "
        "google, bert_model.ckpt; or keras_hub, a preset, with the head if KerasHub computes it in "
        "the same way",
    )
    parser.add_argument(
        "--activation",
        help="the activation to write instead of the model's own, if the format has no name for "
        "that, such as gelu_tanh for BERT in --form keras_hub; outputs then differ a little",
    )
    parser.add_argument(
        "--generator",
        action="store_true",
        help="convert the generator of a Google ELECTRA checkpoint, not the discriminator",
    )


def run(arguments: Namespace) -> None:
    """Converts a model, and prints what was written."""
    from keras_bert_impl.conversion.formats import convert

    shapes = convert(
        arguments.source, arguments.to, arguments.form, arguments.activation, arguments.generator
    )
    parameters = sum(map(math.prod, shapes.values()))
    print(
        f"wrote {len(shapes)} tensors with {parameters:,} numbers to {arguments.to}",
        file=sys.stderr,
    )
