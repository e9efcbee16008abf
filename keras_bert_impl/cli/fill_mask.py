"""`keras-bert fill-mask`: the likeliest words for a mask."""

import dataclasses

from keras_bert_impl.cli.common import positive_int, print_json

EXAMPLE = '  keras-bert fill-mask --model run/model "Paris is the [MASK] of France."'


def add_arguments(parser):
    """The arguments of the command."""
    parser.add_argument("text", nargs="+", help="texts with [MASK] in them")
    parser.add_argument("--model", required=True, metavar="DIR", help="a model directory")
    parser.add_argument("--top-k", type=positive_int, default=5, help="words a mask; default: 5")
    parser.add_argument(
        "--candidate",
        action="append",
        metavar="WORD",
        help="choose from these words alone; to be given for each",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments):
    """Prints the words and their probabilities."""
    from keras_bert_impl.tasks.masked_lm import MaskedLM

    model = MaskedLM.from_pretrained(arguments.model)
    fillings = model.fill(arguments.text, arguments.top_k, arguments.candidate)
    if arguments.json:
        print_json(
            [
                {"text": text, "masks": [[dataclasses.asdict(f) for f in mask] for mask in masks]}
                for text, masks in zip(arguments.text, fillings, strict=True)
            ]
        )
        return
    for text, masks in zip(arguments.text, fillings, strict=True):
        print(text)
        for mask in masks:
            print("  " + ", ".join(f"{filling.token} {filling.score:.1%}" for filling in mask))
