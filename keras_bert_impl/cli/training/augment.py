"""`keras-bert augment`: adds copies of labeled texts in which some words are replaced."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_bert_impl.cli.common import positive_int, say
from keras_bert_impl.cli.examples import add_examples, check_examples, check_tables, read_examples
from keras_bert_impl.cli.kinds import MODEL, OUTPUT_FILE
from keras_bert_impl.io.errors import InputError

EXAMPLE = (
    "  keras-bert augment --model DIR --train train.csv \\\n"
    "      --text review --label stars --out more.jsonl\n"
    "  keras-bert augment --model DIR --task mrpc --data glue --out more.jsonl"
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    group = parser.add_argument_group("model and output")
    group.add_argument(
        "--model",
        required=True,
        type=MODEL,
        metavar="MODEL",
        help="masked language model to draw words from",
    )
    group.add_argument(
        "--out", required=True, type=OUTPUT_FILE, metavar="FILE.jsonl", help="file to write"
    )
    add_examples(parser, is_training=True, is_scored=False)
    group = parser.add_argument_group("copies")
    group.add_argument(
        "--copies", type=positive_int, default=20, metavar="N", help="number of copies of a text"
    )
    group.add_argument(
        "--rate", type=float, default=0.4, metavar="SHARE", help="share of words to replace"
    )
    group.add_argument(
        "--top-k",
        type=positive_int,
        default=15,
        metavar="N",
        help="number of words to choose a replacement from",
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="seed of random choices")


def check(arguments: Namespace) -> None:
    """Checks the combination of arguments."""
    if Path(arguments.out).suffix != ".jsonl":
        raise InputError(f"--out must end in .jsonl. Received: {arguments.out}")
    check_examples(arguments, are_written=True)


check_files = check_tables


def run(arguments: Namespace) -> None:
    """Writes the texts with their copies, and prints how many."""
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
