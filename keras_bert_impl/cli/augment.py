"""`keras-bert augment`: labelled texts, and copies of them in which some words are others."""

import sys
from pathlib import Path

from keras_bert_impl.cli.common import positive_int
from keras_bert_impl.errors import InputError

EXAMPLE = (
    "  keras-bert augment --model DIR --train train.csv --text review --label stars "
    "--out more.jsonl"
)


def add_arguments(parser):
    """The arguments of the command."""
    parser.add_argument(
        "--model", required=True, metavar="DIR", help="a masked language model, which guesses words"
    )
    parser.add_argument("--train", required=True, metavar="FILE", help=".csv, .tsv or .jsonl")
    parser.add_argument("--text", required=True, metavar="COLUMN", help="the column of the text")
    parser.add_argument("--pair", metavar="COLUMN", help="the column of the second text, if any")
    parser.add_argument("--label", required=True, metavar="COLUMN", help="the column of the label")
    parser.add_argument(
        "--label-separator", metavar="TEXT", help="as of `keras-bert finetune`: several labels"
    )
    parser.add_argument("--out", required=True, metavar="FILE.jsonl", help="the file to write")
    parser.add_argument("--copies", type=positive_int, default=20, help="of each text; default: 20")
    parser.add_argument("--rate", type=float, default=0.4, help="of words replaced; default: 0.4")
    parser.add_argument(
        "--top-k", type=positive_int, default=15, help="words to choose from; default: 15"
    )
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn; default: 0")


def run(arguments):
    """Writes the texts with their copies, and says how many."""
    from keras_bert_impl.tasks.augmentation import augment, write_examples
    from keras_bert_impl.tasks.masked_lm import MaskedLM
    from keras_bert_impl.tasks.tables import read_table

    if Path(arguments.out).suffix != ".jsonl":
        raise InputError(f"--out is JSON lines and must end in .jsonl. Received: {arguments.out}")
    columns = {"text": arguments.text, "pair": arguments.pair, "label": arguments.label}
    examples = read_table(arguments.train, **columns, label_separator=arguments.label_separator)
    more = augment(
        MaskedLM.from_pretrained(arguments.model),
        examples,
        arguments.copies,
        arguments.rate,
        arguments.top_k,
        arguments.seed,
    )
    write_examples(arguments.out, more, **columns)
    print(f"wrote {len(more):,} texts, of {len(examples):,}, to {arguments.out}", file=sys.stderr)

