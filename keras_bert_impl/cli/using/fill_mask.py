"""`keras-bert fill-mask`: predicts the most likely words for a mask."""

import dataclasses
from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import positive_int, print_json
from keras_bert_impl.cli.kinds import MODEL, check_model
from keras_bert_impl.io.errors import InputError

EXAMPLE = '  keras-bert fill-mask run/model "Paris is the [MASK] of France."'


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "text",
        nargs="+",
        help="model directory or name, unless --model is given, and texts with [MASK] in them",
    )
    parser.add_argument("--model", type=MODEL, metavar="MODEL", help="model directory or name")
    parser.add_argument(
        "--top-k", type=positive_int, default=5, metavar="N", help="number of words per mask"
    )
    parser.add_argument(
        "--candidate",
        action="append",
        metavar="WORD",
        help="word to choose from, instead of the whole vocabulary; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print the words as JSON")


def check(arguments: Namespace) -> None:
    """Checks the model, which may be the first positional argument, and that there is a text."""
    path, texts = _model_and_texts(arguments)
    if not texts:
        raise InputError('there is no text: write keras-bert fill-mask DIR "a [MASK] text".')
    check_model("model", path)


def _model_and_texts(arguments):
    if arguments.model is None:
        return arguments.text[0], arguments.text[1:]
    return arguments.model, arguments.text


def run(arguments: Namespace) -> None:
    """Prints the words and their probabilities."""
    from keras_bert_impl.tasks.language_modelling.model import MaskedLM

    path, texts = _model_and_texts(arguments)
    model = MaskedLM.from_pretrained(path)
    fillings = model.fill(texts, arguments.top_k, arguments.candidate)
    if arguments.json:
        print_json(
            [
                {"text": text, "masks": [[dataclasses.asdict(f) for f in mask] for mask in masks]}
                for text, masks in zip(texts, fillings, strict=True)
            ]
        )
        return
    for text, masks in zip(texts, fillings, strict=True):
        print(text)
        for mask in masks:
            print("  " + ", ".join(f"{filling.token} {filling.score:.1%}" for filling in mask))
