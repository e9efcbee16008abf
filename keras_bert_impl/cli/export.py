"""`keras-bert export`: a tuned model as an artefact that runs without this package."""

import sys

from keras_bert_impl.cli import export_onnx
from keras_bert_impl.errors import InputError

EXAMPLE = (
    "  keras-bert export --model run --out exported/1\n"
    "  keras-bert export --model run --out exported --format onnx --precision int8 --max-drop 0.5 "
    "--dev dev.csv --text review --label stars"
)


def add_arguments(parser):
    """The arguments of the command."""
    parser.add_argument("--model", required=True, metavar="DIR", help="a run or model directory")
    parser.add_argument("--out", required=True, metavar="DIR", help="the directory to write")
    parser.add_argument("--format", choices=("saved_model", "onnx"), default="saved_model",
                        help="a SavedModel that takes raw strings, or an ONNX model that takes "
                        "token ids; default: saved_model")
    parser.add_argument("--base", metavar="MODEL", help="what it was tuned from, if that has moved")
    parser.add_argument("--dtype", help="Keras dtype policy; default: that of the run, or float32")
    export_onnx.add_arguments(parser)


def run(arguments):
    """Exports, and says where."""
    from keras_bert_impl.tasks.run import load_tuned
    from keras_bert_impl.tasks.text_classifier import TextClassifier

    if arguments.format == "onnx":
        # What is compared with the ONNX file computes in float32.
        model = load_tuned(arguments.model, "float32", arguments.base)
        export_onnx.run(arguments, model)
        return
    export_onnx.refuse(arguments)
    model = load_tuned(arguments.model, arguments.dtype, arguments.base)
    if not isinstance(model, TextClassifier):
        raise InputError(f"a {type(model).__name__} cannot be exported, only a TextClassifier.")
    model.export(arguments.out)
    print(f"wrote the SavedModel to {arguments.out}", file=sys.stderr)
