"""`keras-bert merge`: writes a model fine-tuned with LoRA as an ordinary model directory."""

import sys

EXAMPLE = "  keras-bert merge --model run --out merged"


def add_arguments(parser):
    """Adds the arguments of the command."""
    parser.add_argument(
        "--model", required=True, metavar="DIR", help="a run, or what save_tuned or peft wrote"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="the directory to write")
    parser.add_argument("--base", metavar="MODEL", help="what it was tuned from, if that has moved")


def run(arguments):
    """Merges, and prints where the model is."""
    from keras_bert_impl.tasks.runs.run import load_tuned

    model = load_tuned(arguments.model, "float32", arguments.base)
    model.save_pretrained(arguments.out)
    print(f"wrote the model to {arguments.out}", file=sys.stderr)
