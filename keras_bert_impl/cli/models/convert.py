"""`keras-bert convert`: converts a model between file formats."""

import math
from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import say
from keras_bert_impl.cli.kinds import MODEL, OUTPUT_DIRECTORY

EXAMPLE = """  keras-bert convert --from uncased_L-12_H-768_A-12 --to bert-base-uncased
  keras-bert convert --from bert-base-uncased --to checkpoint --form google"""

FORMS = ("huggingface", "google", "keras_hub")


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    group = parser.add_argument_group("from and to")
    group.add_argument(
        "--from",
        dest="source",
        required=True,
        type=MODEL,
        metavar="MODEL",
        help="model directory, Google checkpoint, SavedModel from TF Hub, KerasHub preset, "
        "owner/name on the hub, kaggle://owner/model/framework/variation, or a name that "
        "`keras-bert models` lists",
    )
    group.add_argument(
        "--to", required=True, type=OUTPUT_DIRECTORY, metavar="DIR", help="directory to write"
    )
    group.add_argument(
        "--form",
        choices=FORMS,
        default="huggingface",
        metavar="NAME",
        help="format to write: huggingface, config.json and model.safetensors; google, "
        "bert_model.ckpt; keras_hub, a preset, with the head if KerasHub computes it in the same "
        "way",
    )
    group = parser.add_argument_group("exceptions")
    group.add_argument(
        "--activation",
        metavar="NAME",
        help="activation to write instead of the model's own, if the format has no name for "
        "that, such as gelu_tanh for BERT in --form keras_hub; outputs then differ a little",
    )
    group.add_argument(
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
    say(f"wrote {len(shapes)} tensors with {parameters:,} numbers to {arguments.to}")
