"""`keras-bert convert`: converts a model between file formats."""

import math
import sys

EXAMPLE = """  keras-bert convert --from uncased_L-12_H-768_A-12 --to bert-base-uncased
  keras-bert convert --from hf://google-bert/bert-base-uncased --to checkpoint --form google"""


def add_arguments(parser):
    """Adds the arguments of the command."""
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="MODEL",
        help="a model directory, a checkpoint of Google's, a SavedModel of TF Hub, a KerasHub "
        "preset, hf://owner/name[@revision], kaggle://owner/model/framework/variation, or a name "
        "that `keras-bert models` lists",
    )
    parser.add_argument("--to", required=True, metavar="DIR", help="the directory to write")
    parser.add_argument(
        "--form",
        default="huggingface",
        help="huggingface (default): config.json and model.safetensors; google: bert_model.ckpt; "
        "keras_hub: a preset, with the head where KerasHub computes it in the same way",
    )
    parser.add_argument(
        "--activation",
        help="put this in place of the model's own, where the form has no name for that: "
        "--form keras_hub of BERT takes gelu_tanh alone; outputs then differ a little",
    )
    parser.add_argument(
        "--generator",
        action="store_true",
        help="of Google's ELECTRA, whose checkpoints hold two models, the generator",
    )


def run(arguments):
    """Converts, and prints what was written."""
    from keras_bert_impl.conversion.formats import convert

    shapes = convert(
        arguments.source, arguments.to, arguments.form, arguments.activation, arguments.generator
    )
    parameters = sum(map(math.prod, shapes.values()))
    print(
        f"wrote {len(shapes)} tensors with {parameters:,} numbers to {arguments.to}",
        file=sys.stderr,
    )
