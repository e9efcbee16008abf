"""`keras-bert export`: a tuned model as a SavedModel that takes raw strings."""

import sys

from keras_bert_impl.errors import InputError

EXAMPLE = "  keras-bert export --model run --out exported/1"


def add_arguments(parser):
    """The arguments of the command."""
    parser.add_argument("--model", required=True, metavar="DIR", help="a run or model directory")
    parser.add_argument("--out", required=True, metavar="DIR", help="the SavedModel to write")
    parser.add_argument("--base", metavar="MODEL", help="what it was tuned from, if that has moved")
    parser.add_argument("--dtype", help="Keras dtype policy; default: that of the run, or float32")


def run(arguments):
    """Exports, and says where."""
    from keras_bert_impl.tasks.run import load_tuned
    from keras_bert_impl.tasks.text_classifier import TextClassifier

    model = load_tuned(arguments.model, arguments.dtype, arguments.base)
    if not isinstance(model, TextClassifier):
        raise InputError(f"a {type(model).__name__} cannot be exported, only a TextClassifier.")
    model.export(arguments.out)
    print(f"wrote the SavedModel to {arguments.out}", file=sys.stderr)
