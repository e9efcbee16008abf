"""`keras-bert augment`: adds copies of labeled texts in which some words are replaced."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_bert_impl.cli.common import positive_int, say
from keras_bert_impl.cli.examples import add_examples, read_examples
from keras_bert_impl.io.errors import InputError

EXAMPLE = (
    "  keras-bert augment --model DIR --train train.csv --text review --label stars "
    "--out more.jsonl\n"
    "  keras-bert augment --model DIR --task mrpc --data glue --out more.jsonl"
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "--model", required=True, metavar="DIR", help="a masked language model to draw words from"
    )
    add_examples(parser, is_training=True, is_scored=False)
    parser.add_argument("--out", required=True, metavar="FILE.jsonl", help="the file to write")
    parser.add_argument(
        "--copies", type=positive_int, default=20, help="number of copies of a text; default: 20"
    )
    parser.add_argument(
        "--rate", type=float, default=0.4, help="fraction of words to replace; default: 0.4"
    )
    parser.add_argument(
        "--top-k",
        type=positive_int,
        default=15,
        help="number of words to choose a replacement from; default: 15",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of random choices; default: 0")


def run(arguments: Namespace) -> None:
    """Writes the texts with their copies, and prints how many."""
    if Path(arguments.out).suffix != ".jsonl":
        raise InputError(f"--out must end in .jsonl. Received: {arguments.out}")
    examples = read_examples(arguments, "train")
    from keras_bert_impl.tasks.language_modelling.augmentation import augment, write_examples
    from keras_bert_impl.tasks.language_modelling.model import MaskedLM

    more = augment(
        MaskedLM.from_pretrained(arguments.model),
        examples,
        arguments.copies,
        arguments.rate,
        arguments.top_k,
        arguments.seed,
    )
    names = {name: getattr(arguments, name) or name for name in ("text", "pair", "label")}
    if not isinstance(more.texts[0], tuple):
        names["pair"] = None
    write_examples(arguments.out, more, **names)
    say(f"wrote {len(more):,} texts, of {len(examples):,}, to {arguments.out}")
